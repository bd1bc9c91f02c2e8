"""Operator commands: tenants and keys, and how every operator command reaches the rows and the ledger.

They work on `DATABASE_URL` and `REDIS_URL` where set, else on the running local stack.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import psycopg
import typer
from rich.console import Console

from dpp.money.credits import CreditConflict, create_tenant
from dpp.money.ledger import Ledger, LedgerError
from dpp.platform import api_keys
from dpp.platform.errors import DependencyUnavailable
from dpp.platform.postgres import Connection
from dpp_cli.local.state import StackError
from dpp_cli.reach import DATABASE, REDIS, reach

console = Console()
tenant_app = typer.Typer(no_args_is_help=True, help="Tenants.")
key_app = typer.Typer(no_args_is_help=True, help="API keys.")

TenantId = Annotated[str, typer.Argument(help="The tenant's id: 1 to 64 of A-Z, a-z, 0-9, _ and -.")]


@dataclass(frozen=True)
class Backends:
    """An open connection to where the rows are, and the ledger beside it."""

    connection: Connection
    ledger: Ledger


@contextmanager
def backends() -> Iterator[Backends]:
    """Connect; raises StackError, also for what the database or the ledger refuses inside the block."""
    at = reach({**DATABASE, **REDIS})
    ledger = Ledger.connect(at["REDIS_URL"], cluster=os.environ.get("DPP_REDIS_CLUSTER") == "1")
    try:
        connection = psycopg.connect(at["DATABASE_URL"], autocommit=True, connect_timeout=5)
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
