"""Operator commands: keys of the operators' HTTP API (TIX-5), separate from tenants' keys."""

import json
from typing import Annotated
from uuid import UUID

import typer

from dpp.platform.config import PostgresSettings
from dpp.platform.keys import operator_keys
from dpp_cli.errors import StackError
from dpp_cli.operator.output import print_rows
from dpp_cli.operator.rows import connected_rows, operator_id
from dpp_cli.operator.tenants import console, created_and_used, key_fields

operator_app = typer.Typer(no_args_is_help=True, help="Manage keys of the operators' API.")


@operator_app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Recorded with every action done with the key: A-Z a-z 0-9 _ . @ -")],
    label: Annotated[str | None, typer.Option(help="What the key is for.")] = None,
) -> None:
    """Create a key for an operator and print it. It cannot be shown again. An operator may have several keys."""
    minted = operator_keys.mint()
    chosen = operator_id(name)
    with connected_rows(PostgresSettings) as (connection, _):
        operator_keys.store(connection, minted, chosen, label)
    typer.echo(minted.token)


@operator_app.command("list")
def show(as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False) -> None:
    """List all operators' keys by id. The output contains no secret."""
    with connected_rows(PostgresSettings) as (connection, _):
        keys = operator_keys.all_keys(connection)
    if as_json:
        typer.echo(json.dumps([key_fields(key) for key in keys]))
        return
    if not keys:
        console.print("no operator keys; create one with `dpp operator add NAME`")
        return
    rows = ((key.operator_id, str(key.key_id), key.status, *created_and_used(key), key.label or "") for key in keys)
    print_rows(("operator", "key id", "status", "created", "last used", "label"), rows, whole=("operator", "key id"))


@operator_app.command("revoke")
def revoke(key_id: Annotated[UUID, typer.Argument(help="The key id from `list`; the ID in dppop_ID_SECRET.")]) -> None:
    """Revoke a key; its next request gets 401. Safe to repeat."""
    with connected_rows(PostgresSettings) as (connection, _):
        owner = operator_keys.revoke(connection, key_id)
    if owner is None:
        raise StackError(f"operator key {key_id} does not exist; `dpp operator list` shows all keys")
    typer.echo(f"key {key_id} of {owner} is revoked")
