"""Operator commands: tenants and their keys; and the connection to database and ledger that other commands use.

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
    """A database connection and the ledger."""

    connection: Connection
    ledger: Ledger


@contextmanager
def backends() -> Iterator[Backends]:
    """Connect. Raises StackError, also for errors of database or ledger inside the block."""
    settings = reach(BackendSettings).settings
    with (
        as_sentences(),
        opened(settings, reply_timeout_seconds=REPLY_SECONDS) as (database, ledger),
        database.connection() as connection,
    ):
        yield Backends(connection, ledger)


@contextmanager
def as_sentences() -> Iterator[None]:
    """Turn errors of database and ledger inside the block into StackError."""
    try:
        yield
    except PostgresNotReached as error:
        raise StackError(f"can't reach Postgres: {str(error.__cause__ or error).splitlines()[0]}") from error
    except psycopg.errors.ForeignKeyViolation:
        raise StackError("the tenant does not exist; create it with `dpp tenant create ID`") from None
    except psycopg.errors.CheckViolation as error:
        raise StackError(f"the database rejects the value (constraint {error.diag.constraint_name})") from None
    except psycopg.DataError as error:  # text that Postgres can't store, such as NUL
        raise StackError(f"the database rejects the value: {str(error).splitlines()[0]}") from None
    except (CreditConflict, ConfigurationError, DependencyUnavailable, LedgerError, ValueError) as error:
        raise StackError(str(error) or type(error).__name__) from error


@tenant_app.command("create")
def create(
    tenant_id: TenantId,
    name: Annotated[str | None, typer.Option(help="Display name; default: the id.")] = None,
    rate_limit: Annotated[int, typer.Option(min=1, help="Requests per minute (RUN-14).")] = 60,
) -> None:
    """Create a tenant. Safe to repeat; an existing tenant is not changed."""
    with backends() as to:
        create_tenant(to.connection, tenant_id, name or tenant_id, rate_limit)
    typer.echo(f"tenant {tenant_id}")


@key_app.command("create")
def create_key(
    tenant_id: TenantId, label: Annotated[str | None, typer.Option(help="What the key is for.")] = None
) -> None:
    """Create an API key and print it. It cannot be shown again."""
    minted = api_keys.mint()
    with backends() as to:
        api_keys.store(to.connection, minted, tenant_id, label)
    typer.echo(minted.token)


@key_app.command("list")
def list_keys(
    tenant_id: TenantId, as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False
) -> None:
    """List a tenant's API keys by id, newest first. The output contains no secret."""
    with backends() as to:
        keys = api_keys.keys_of(to.connection, tenant_id)
    if as_json:
        typer.echo(json.dumps([key_fields(key) for key in keys]))
        return
    if not keys:
        console.print(f"tenant {tenant_id} has no keys or does not exist", highlight=False)
        return
    table = Table("key id", "status", "created", "last used", "label", box=None, header_style="dim")
    table.columns[0].no_wrap = True
    for key in keys:
        table.add_row(str(key.key_id), key.status, *created_and_used(key), Text(key.label or ""))
    console.print(table)


@key_app.command("revoke")
def revoke_key(
    key_id: Annotated[UUID, typer.Argument(help="The key id from `list`; the ID in dpp_ID_SECRET.")],
) -> None:
    """Revoke an API key; its next request gets 401. Safe to repeat."""
    with backends() as to:
        tenant_id = api_keys.revoke(to.connection, key_id)
    if tenant_id is None:
        raise StackError(f"key {key_id} does not exist; `dpp key list TENANT` shows a tenant's keys")
    typer.echo(f"key {key_id} of {tenant_id} is revoked")


def key_fields(key: ApiKey | OperatorKey) -> dict[str, Any]:
    """Return a tenant's or operator's key as JSON fields."""
    return asdict(key) | {
        "key_id": str(key.key_id),
        "created_at": key.created_at.isoformat(),
        "last_used_at": None if key.last_used_at is None else key.last_used_at.isoformat(),
    }


def created_and_used(key: ApiKey | OperatorKey) -> tuple[str, str]:
    """Format the creation time and the last use of a key for a table."""
    used = "never" if key.last_used_at is None else f"{key.last_used_at:%Y-%m-%d %H:%M%z}"
    return f"{key.created_at:%Y-%m-%d %H:%M%z}", used
