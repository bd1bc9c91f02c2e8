"""Operator commands: the keys of the operators' HTTP API (TIX-5), a scope apart from tenants' keys."""

import json
from typing import Annotated
from uuid import UUID

import typer
from rich.table import Table

from dpp.platform.config import PostgresSettings
from dpp.platform.keys import operator_keys
from dpp_cli.errors import StackError
from dpp_cli.operator.output import plain, print_table
from dpp_cli.operator.rows import connected_rows, operator_id
from dpp_cli.operator.tenants import console, key_fields, made_and_used

operator_app = typer.Typer(no_args_is_help=True, help="Who may use the operators' API.")


@operator_app.command("add")
def add(
    name: Annotated[
        str, typer.Argument(help="Stands in every record of what is done with the key: A-Z a-z 0-9 _ . @ -")
    ],
    label: Annotated[str | None, typer.Option(help="What the key is for.")] = None,
) -> None:
    """Give an operator a key and print it: the only time that it can be seen. One may have several."""
    minted = operator_keys.mint()
    chosen = operator_id(name)
    with connected_rows(PostgresSettings) as (connection, _):
        operator_keys.store(connection, minted, chosen, label)
    typer.echo(minted.token)


@operator_app.command("list")
def show(as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False) -> None:
    """Show every operator's keys by their ids; nothing here is a secret."""
    with connected_rows(PostgresSettings) as (connection, _):
        keys = operator_keys.all_keys(connection)
    if as_json:
        typer.echo(json.dumps([key_fields(key) for key in keys]))
        return
    if not keys:
        console.print("there is no operator: `dpp operator add` makes one")
        return
    table = Table("operator", "key id", "status", "made", "last used", "label", box=None, header_style="dim")
    table.columns[1].no_wrap = True
    for key in keys:
        cells = (key.operator_id, str(key.key_id), key.status, *made_and_used(key))
        table.add_row(*cells, plain(key.label or ""))
    print_table(table)


@operator_app.command("revoke")
def revoke(
    key_id: Annotated[UUID, typer.Argument(help="As `list` shows it; the ID in a key dppop_ID_SECRET.")],
) -> None:
    """Refuse a key from its next request on (401). Nothing happens if it is revoked already."""
    with connected_rows(PostgresSettings) as (connection, _):
        whose = operator_keys.revoke(connection, key_id)
    if whose is None:
        raise StackError(f"there is no operator's key {key_id}")
    typer.echo(f"key {key_id} of {whose} is revoked")
