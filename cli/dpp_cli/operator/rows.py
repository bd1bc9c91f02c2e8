"""Connects commands that need only Postgres: operator keys, tickets, the emergency stop, workspaces and others.

They do not need the ledger, so the emergency stop can be set while Redis is down.
"""

import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer

from dpp.auth_errors.errors import AuthErrorsError
from dpp.lifecycle.flow.errors import LifecycleError
from dpp.platform.config import PostgresSettings, TimeZoneSettings
from dpp.platform.db.postgres import Connection, Database
from dpp.tickets.cycle import LEASE_NAME
from dpp.tickets.errors import TicketsError
from dpp.tickets.model import REAPER
from dpp.workspaces.errors import WorkspacesError
from dpp_cli.errors import StackError
from dpp_cli.operator.connect import Reach, reach
from dpp_cli.operator.tenants import REPLY_SECONDS, as_sentences

_OPERATOR = re.compile(r"[A-Za-z0-9_.@-]{1,64}", re.ASCII)
_RESERVED_NAMES = frozenset({REAPER, LEASE_NAME, "MIGRATION"})

Who = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="NAME",
        help="Your name, recorded with the action: 1 to 64 of A-Z, a-z, 0-9, _, ., @ and -. Default: the user name;"
        " required on a deployment.",
        show_default=False,
    ),
]


class RowSettings(PostgresSettings, TimeZoneSettings):
    """Settings of the database and the time zone of the output."""


@dataclass(frozen=True)
class Rows[Needed: PostgresSettings]:
    """A located deployment and its database, which connects at its first use."""

    at: Reach[Needed]
    database: Database

    @property
    def settings(self) -> Needed:
        """The loaded settings."""
        return self.at.settings


@contextmanager
def opened_rows[Needed: PostgresSettings](needed: type[Needed]) -> Iterator[Rows[Needed]]:
    """Locate the deployment and load the needed settings. Raises StackError, also for errors inside the block."""
    at = reach(needed)
    with (
        as_sentences(),
        _refusals(),
        closing(Database(at.settings.database, reply_timeout_seconds=REPLY_SECONDS)) as database,
    ):
        yield Rows(at, database)


@contextmanager
def connected_rows[Needed: PostgresSettings](needed: type[Needed]) -> Iterator[tuple[Connection, Needed]]:
    """Like `opened_rows`, with a connection."""
    with opened_rows(needed) as rows, rows.database.connection() as connection:
        yield connection, rows.settings


def operator_id(name: str) -> str:
    """Validate an operator's name. Raises StackError; names of the platform's own processors are reserved."""
    if not _OPERATOR.fullmatch(name):
        raise StackError("an operator's name must have 1 to 64 of A-Z, a-z, 0-9, _, ., @ and -")
    if name in _RESERVED_NAMES:
        raise StackError(f"{name} is reserved for the platform's own records: choose another name")
    return name


def actor(given: str | None) -> str:
    """Return the name for the records: the given one, else the user's. Raises StackError if there is none.

    In a Lambda function there is no user, so the caller must pass --as.
    """
    name = given or os.environ.get("LOGNAME") or os.environ.get("USER")
    if not name:
        raise StackError("no user name: add --as NAME")
    return operator_id(name)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (TicketsError, AuthErrorsError, WorkspacesError, LifecycleError) as refused:
        raise StackError(str(refused)) from None
