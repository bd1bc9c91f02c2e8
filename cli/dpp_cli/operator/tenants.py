"""Operator commands: tenants and keys, and how every operator command reaches the rows and the ledger.

They work on the database and the Redis that the environment names, else on the running local stack.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Annotated, Any
from uuid import UUID

import psycopg
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpp.money.credits import CreditConflict, create_tenant
from dpp.money.ledger import Ledger, LedgerError
from dpp.platform.config import ConfigurationError
from dpp.platform.db.postgres import Connection
from dpp.platform.errors import DependencyUnavailable, PostgresNotReached
from dpp.platform.keys import api_keys
from dpp.platform.keys.api_keys import ApiKey
from dpp.platform.keys.operator_keys import OperatorKey
from dpp_cli.errors import StackError
from dpp_cli.operator.connect import BackendSettings, opened, reach

console = Console()
tenant_app = typer.Typer(no_args_is_help=True, help="Tenants.")
key_app = typer.Typer(no_args_is_help=True, help="API keys.")

REPLY_SECONDS = 60.0  # an operator's statement may read every run of a tenant; a function's takes 5 s at most

TenantId = Annotated[str, typer.Argument(help="The tenant's id: 1 to 64 of A-Z, a-z, 0-9, _ and -.")]


@dataclass(frozen=True)
class Backends:
    """An open connection to where the rows are, and the ledger beside it."""

    connection: Connection
    ledger: Ledger


@contextmanager
def backends() -> Iterator[Backends]:
    """Connect; raises StackError, also for what the database or the ledger refuses inside the block."""
    settings = reach(BackendSettings).settings
    with (
        as_sentences(),
        opened(settings, reply_timeout_seconds=REPLY_SECONDS) as (database, ledger),
        database.connection() as connection,
    ):
        yield Backends(connection, ledger)


@contextmanager
def as_sentences() -> Iterator[None]:
    """Raises StackError for what the database or the ledger refuses inside the block."""
    try:
        yield
    except PostgresNotReached as error:
        raise StackError(f"can't reach Postgres: {str(error.__cause__ or error).splitlines()[0]}") from error
    except psycopg.errors.ForeignKeyViolation:
        raise StackError("there is no such tenant: `dpp tenant create` makes one") from None
    except psycopg.errors.CheckViolation as error:
        raise StackError(f"the database refuses it: {error.diag.constraint_name}") from None
    except psycopg.DataError as error:  # text that it can't keep, such as NUL
        raise StackError(f"the database refuses it: {str(error).splitlines()[0]}") from None
    except (CreditConflict, ConfigurationError, DependencyUnavailable, LedgerError, ValueError) as error:
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


@key_app.command("list")
def list_keys(
    tenant_id: TenantId,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """Show a tenant's API keys by their ids, the newest first; nothing here is a secret."""
    with backends() as to:
        keys = api_keys.keys_of(to.connection, tenant_id)
    if as_json:
        typer.echo(json.dumps([key_fields(key) for key in keys]))
        return
    if not keys:
        console.print(f"{tenant_id} has no key, or there is no such tenant", highlight=False)
        return
    table = Table("key id", "status", "made", "last used", "label", box=None, header_style="dim")
    table.columns[0].no_wrap = True
    for key in keys:
        table.add_row(str(key.key_id), key.status, *made_and_used(key), Text(key.label or ""))
    console.print(table)


@key_app.command("revoke")
def revoke_key(
    key_id: Annotated[UUID, typer.Argument(help="As `list` shows it; the ID in a key dpp_ID_SECRET.")],
) -> None:
    """Refuse an API key from its next request on (401). Nothing happens if it is revoked already."""
    with backends() as to:
        tenant_id = api_keys.revoke(to.connection, key_id)
    if tenant_id is None:
        raise StackError(f"there is no key {key_id}")
    typer.echo(f"key {key_id} of {tenant_id} is revoked")


def key_fields(key: ApiKey | OperatorKey) -> dict[str, Any]:
    """A key of either scope as JSON."""
    return asdict(key) | {
        "key_id": str(key.key_id),
        "created_at": key.created_at.isoformat(),
        "last_used_at": None if key.last_used_at is None else key.last_used_at.isoformat(),
    }


def made_and_used(key: ApiKey | OperatorKey) -> tuple[str, str]:
    """Since when there is a key, and when it was last used, for a table."""
    used = "never" if key.last_used_at is None else f"{key.last_used_at:%Y-%m-%d %H:%M%z}"
    return f"{key.created_at:%Y-%m-%d %H:%M%z}", used
