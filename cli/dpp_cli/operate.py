"""Operator commands: tenants, keys, credits, and a tenant's ledger.

They work on `DATABASE_URL` and `REDIS_URL` where set, else on the running local stack.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Annotated
from uuid import UUID, uuid4

import psycopg
import typer
from rich.console import Console
from rich.table import Table

from dpp.money.audit import LedgerPosition, audit_tenant
from dpp.money.credits import CreditConflict, all_tenants, create_tenant, credit
from dpp.money.ledger import Ledger, LedgerError
from dpp.money.micros import AmountError, format_usd, parse_usd
from dpp.money.rebuild import rebuild
from dpp.platform import api_keys
from dpp.platform.errors import DependencyUnavailable
from dpp.platform.postgres import Connection
from dpp_cli.local.state import StackError, running_state

console = Console()
tenant_app = typer.Typer(no_args_is_help=True, help="Tenants.")
key_app = typer.Typer(no_args_is_help=True, help="API keys.")
ledger_app = typer.Typer(no_args_is_help=True, help="What tenants have and spend.")

TenantId = Annotated[str, typer.Argument(help="The tenant's id: 1 to 64 of A-Z, a-z, 0-9, _ and -.")]


@dataclass(frozen=True)
class Backends:
    """An open connection to where the rows are, and the ledger beside it."""

    connection: Connection
    ledger: Ledger


@contextmanager
def backends() -> Iterator[Backends]:
    """Connect; raises StackError, also for what the database or the ledger refuses inside the block."""
    database_url, redis_url = os.environ.get("DATABASE_URL"), os.environ.get("REDIS_URL")
    if not (database_url and redis_url):
        state = running_state()
        database_url, redis_url = state.database_url, state.redis_url
    ledger = Ledger.connect(redis_url, cluster=os.environ.get("DPP_REDIS_CLUSTER") == "1")
    try:
        connection = psycopg.connect(database_url, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError as error:
        raise StackError(f"can't reach Postgres: {str(error).splitlines()[0]}") from error
    with connection:
        try:
            yield Backends(connection, ledger)
        except psycopg.errors.ForeignKeyViolation:
            raise StackError("there is no such tenant: `dpp tenant create` makes one") from None
        except psycopg.errors.CheckViolation as error:
            raise StackError(f"the database refuses it: {error.diag.constraint_name}") from None
        except (CreditConflict, DependencyUnavailable, LedgerError, ValueError) as error:
            raise StackError(str(error) or type(error).__name__) from error


@tenant_app.command("create")
def create(
    tenant_id: TenantId,
    name: Annotated[str | None, typer.Option(help="What people call it; the id if not given.")] = None,
    rate_limit: Annotated[int, typer.Option(min=1, help="Requests a minute (RUN-14).")] = 60,
) -> None:
    """Create a tenant; nothing happens if it exists."""
    with backends() as to:
        create_tenant(to.connection, tenant_id, name or tenant_id, rate_limit)
    typer.echo(f"tenant {tenant_id}")


@key_app.command("create")
def create_key(
    tenant_id: TenantId, label: Annotated[str | None, typer.Option(help="What it is for.")] = None
) -> None:
    """Make an API key and print it: the only time that it can be seen."""
    minted = api_keys.mint()
    with backends() as to:
        api_keys.store(to.connection, minted, tenant_id, label)
    typer.echo(minted.token)


@ledger_app.command("credit")
def give(
    tenant_id: TenantId,
    amount_usd: Annotated[str, typer.Argument(help='US dollars with at most 4 places: "25.0000".')],
    reason: Annotated[str, typer.Option(help="Kept with the credit.")] = "by operator",
    credit_id: Annotated[
        UUID | None,
        typer.Option(help="Repeat a credit whose outcome is unknown with its own id: counts once."),
    ] = None,
) -> None:
    """Give a tenant money to spend."""
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
    """Show a tenant's books and whether they balance (exit code 1 if not)."""
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
    tenant_id: Annotated[str | None, typer.Argument(help="One tenant; all of them if not given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array, amounts in micros.")] = False,
) -> None:
    """Check that the books balance: credits − charges − open reservations = balance (exit code 1 if not).

    Work under way shows as drift for a moment, so a tenant that drifts is looked at again before it is told.
    """
    with backends() as to:
        positions = [_settled_position(to, found) for found in _tenants(to, tenant_id)]
    if as_json:
        typer.echo(
            json.dumps([asdict(found) | {"drift_usd_micros": found.drift_usd_micros} for found in positions])
        )
    else:
        _print_positions(positions)
    if not all(found.balanced for found in positions):
        raise typer.Exit(1)


@ledger_app.command("rebuild")
def rebuild_balance(tenant_id: TenantId) -> None:
    """Write a tenant's balance in Redis anew from Postgres alone; safe while runs come and go."""
    with backends() as to:
        try:
            rebuilt = rebuild(to.connection, to.ledger, tenant_id)
        except LookupError as error:
            raise StackError(str(error)) from None
    before = (
        "nothing" if rebuilt.before_usd_micros is None else f"{format_usd(rebuilt.before_usd_micros)} USD"
    )
    typer.echo(f"balance of {tenant_id}: {before} before, {format_usd(rebuilt.balance_usd_micros)} USD now")


def _tenants(to: Backends, tenant_id: str | None) -> list[str]:
    return list(all_tenants(to.connection)) if tenant_id is None else [tenant_id]


def _settled_position(to: Backends, tenant_id: str) -> LedgerPosition:
    """A tenant's position, read up to three times a second apart until it balances."""
    try:
        position = audit_tenant(to.connection, to.ledger, tenant_id)
        for _ in range(2):
            if position.balanced:
                break
            time.sleep(1)
            position = audit_tenant(to.connection, to.ledger, tenant_id)
    except LookupError as error:
        raise StackError(str(error)) from None
    return position


def _print_positions(positions: list[LedgerPosition]) -> None:
    table = Table(
        "tenant", "credits", "charges", "open", "balance", "drift", "", box=None, header_style="dim"
    )
    for column in table.columns[1:6]:
        column.justify = "right"
    for found in positions:
        held = found.balance_usd_micros
        amounts = (found.credits_usd_micros, found.charges_usd_micros, found.open_reservations_usd_micros)
        table.add_row(
            found.tenant_id,
            *(format_usd(amount) for amount in amounts),
            "none" if held is None else format_usd(held),
            f"{found.drift_usd_micros:+d} µ" if found.drift_usd_micros else "0",
            "[green]balanced[/]" if found.balanced else "[red]NOT balanced[/]",
        )
    console.print(table)
    wrong = sum(not found.balanced for found in positions)
    console.print(f"{wrong} of {len(positions)} not balanced" if wrong else f"all {len(positions)} balanced")


def print_position(position: LedgerPosition) -> None:
    """Balance = credits − charges − open reservations (D2), as a table."""
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
