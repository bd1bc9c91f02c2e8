"""Operator commands: tenants, keys, credits, and a tenant's ledger.

They work on `DATABASE_URL` and `REDIS_URL` where set, else on the running local stack.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID, uuid4

import psycopg
import typer
from rich.console import Console
from rich.table import Table

from dpp.money.audit import LedgerPosition, audit_tenant
from dpp.money.credits import CreditConflict, create_tenant, credit
from dpp.money.ledger import Ledger, LedgerError
from dpp.money.micros import AmountError, format_usd, parse_usd
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
