"""Operator commands: credits, balances, and the check of the ledger identity (D2)."""

import json
import time
from dataclasses import asdict, dataclass
from typing import Annotated, Any
from uuid import UUID, uuid4

import typer
from rich.table import Table

from dpp.money.audit import LedgerPosition, audit_tenant
from dpp.money.credits import all_tenants, credit
from dpp.money.drift import Measure, measure
from dpp.money.micros import AmountError, format_usd, parse_usd
from dpp.money.rebuild import RebuildReason, past_rebuilds, rebuild
from dpp_cli.errors import StackError
from dpp_cli.operator.tenants import Backends, TenantId, backends, console

ledger_app = typer.Typer(no_args_is_help=True, help="Credits, balances and the ledger check.")
_MAX_MEASURES = 20
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class _Checked:
    """A tenant's ledger position and the check's result; `measured` is None if the balance kept changing."""

    position: LedgerPosition
    measured: Measure | None

    @property
    def balanced(self) -> bool:
        return self.measured is not None and self.measured.is_correct

    def as_dict(self) -> dict[str, Any]:
        found = self.measured
        return asdict(self.position) | {
            "in_flight_usd_micros": found and found.in_flight_usd_micros,
            "drift_usd_micros": found and found.drift_usd_micros,
            "missing_reservations": found and found.missing_reservations,
        }


@ledger_app.command("credit")
def give(
    tenant_id: TenantId,
    amount_usd: Annotated[str, typer.Argument(help='US dollars with at most 4 places: "25.0000".')],
    reason: Annotated[str, typer.Option(help="Kept with the credit.")] = "by operator",
    credit_id: Annotated[
        UUID | None,
        typer.Option(help="To repeat a credit whose outcome is unknown, give its id again; it counts once."),
    ] = None,
) -> None:
    """Credit a tenant."""
    try:
        amount_usd_micros = parse_usd(amount_usd)
    except AmountError as error:
        raise StackError(f"the amount {error}") from None
    chosen = credit_id or uuid4()
    with backends() as to:
        balance = credit(
            to.connection,
            to.ledger,
            credit_id=chosen,
            tenant_id=tenant_id,
            amount_usd_micros=amount_usd_micros,
            reason=reason,
        )
    typer.echo(f"credit {chosen}: {format_usd(amount_usd_micros)} USD; balance {format_usd(balance)} USD")


@ledger_app.command("show")
def show(tenant_id: TenantId) -> None:
    """Show a tenant's ledger position. Exit code 1 if it does not balance."""
    with backends() as to:
        try:
            position = audit_tenant(to.connection, to.ledger, tenant_id)
        except LookupError as error:
            raise StackError(str(error)) from None
    print_position(position)
    if not position.balanced:
        raise typer.Exit(1)


@ledger_app.command("check")
def check(
    tenant_id: Annotated[str | None, typer.Argument(help="One tenant; default: all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array, amounts in micros.")] = False,
) -> None:
    """Check that credits − charges − open reservations = balance for every tenant. Exit code 1 if not.

    Correct under traffic: money in flight (moved in Redis, row not written yet) is not reported as drift.
    """
    with backends() as to:
        tenants = list(all_tenants(to.connection)) if tenant_id is None else [tenant_id]
        found = [_checked(to, tenant) for tenant in tenants]
    if as_json:
        typer.echo(json.dumps([one.as_dict() for one in found]))
    else:
        _print_checked(found)
    if not all(one.balanced for one in found):
        raise typer.Exit(1)


@ledger_app.command("rebuild")
def rebuild_balance(tenant_id: TenantId) -> None:
    """Rebuild a tenant's balance in Redis from Postgres. Safe under traffic."""
    with backends() as to:
        try:
            rebuilt = rebuild(to.connection, to.ledger, tenant_id, RebuildReason.OPERATOR)
        except LookupError as error:
            raise StackError(str(error)) from None
    before = "nothing" if rebuilt.before_usd_micros is None else f"{format_usd(rebuilt.before_usd_micros)} USD"
    typer.echo(f"balance of {tenant_id}: {before} before, {format_usd(rebuilt.balance_usd_micros)} USD now")


@ledger_app.command("rebuilds")
def list_rebuilds(
    tenant_id: Annotated[str | None, typer.Argument(help="One tenant; default: all.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Show at most this many, newest first.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array, amounts in micros.")] = False,
) -> None:
    """List rebuilds of balances, newest first: time, reason, balance before and after."""
    with backends() as to:
        entries = past_rebuilds(to.connection, tenant_id, limit)
    if as_json:
        typer.echo(json.dumps([asdict(one) | {"created_at": one.created_at.isoformat()} for one in entries]))
        return
    table = Table("when", "tenant", "why", "before", "after", box=None, header_style="dim")
    for one in entries:
        before = "nothing" if one.before_usd_micros is None else format_usd(one.before_usd_micros)
        after = format_usd(one.balance_usd_micros)
        table.add_row(f"{one.created_at:%Y-%m-%d %H:%M:%S%z}", one.tenant_id, one.reason, before, after)
    console.print(table if entries else "no balance was ever rebuilt")


def _checked(to: Backends, tenant_id: str) -> _Checked:
    """Audit a tenant and measure drift, repeating while the balance changes in between."""
    try:
        for _ in range(_MAX_MEASURES):
            position = audit_tenant(to.connection, to.ledger, tenant_id)
            measured = measure(to.connection, to.ledger, tenant_id)
            if measured is not None:
                break
            time.sleep(_PAUSE_SECONDS)
    except LookupError as error:
        raise StackError(str(error)) from None
    return _Checked(position, measured)


def _print_checked(checked: list[_Checked]) -> None:
    names = ("tenant", "credits", "charges", "open", "in flight", "balance", "drift", "")
    table = Table(*names, box=None, header_style="dim")
    for column in table.columns[1:7]:
        column.justify = "right"
    for one in checked:
        at, found = one.position, one.measured
        amounts = (at.credits_usd_micros, at.charges_usd_micros, at.open_reservations_usd_micros)
        cells = [at.tenant_id, *(format_usd(amount) for amount in amounts)]
        if found is None:
            table.add_row(*cells, "", "", "", "[yellow]changing too fast to check[/]")
            continue
        drift, held, missing = found.drift_usd_micros, found.balance_usd_micros, found.missing_reservations
        lost = f"[red]{missing} reservations lost[/]" if missing else "[green]balanced[/]"
        table.add_row(
            *cells,
            format_usd(found.in_flight_usd_micros),
            "none" if held is None else format_usd(held),
            f"{drift:+d} µ" if drift else "0",
            "[red]NOT balanced[/]" if drift else lost,
        )
    console.print(table)
    wrong = sum(not one.balanced for one in checked)
    console.print(f"{wrong} of {len(checked)} not balanced" if wrong else f"all {len(checked)} balanced")


def print_position(position: LedgerPosition) -> None:
    """Print the ledger identity of a tenant, balance = credits − charges − open reservations (D2), as a table."""
    in_redis = position.balance_usd_micros
    rows = [
        ("credits", position.credits_usd_micros),
        ("charges of finished runs", -position.charges_usd_micros),
        ("open reservations", -position.open_reservations_usd_micros),
        ("expected balance", position.expected_usd_micros),
        ("balance in Redis", 0 if in_redis is None else in_redis),
    ]
    table = Table("", "USD", "micros", box=None, header_style="dim")
    for column in table.columns[1:]:
        column.justify = "right"
    for label, micros in rows:
        table.add_row(label, format_usd(micros), f"{micros:,}".replace(",", " "))
    verdict = "[green]balanced[/]" if position.balanced else "[red]NOT balanced[/]"
    table.add_row(verdict, "", "")
    console.print(table)
