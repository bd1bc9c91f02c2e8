"""How the commands reach what stands in Postgres alone: operators, tickets, the stop, workspaces and the like.

They ask for no ledger, so that the stop can be set whatever else is down.
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
_OURS = frozenset({REAPER, LEASE_NAME, "MIGRATION"})

Who = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="NAME",
        help="Who asks, kept with it: 1 to 64 of A-Z, a-z, 0-9, _, ., @ and -. The user's name if not given;"
        " on a deployment it must be.",
        show_default=False,
    ),
]


class RowSettings(PostgresSettings, TimeZoneSettings):
    """The rows, and the zone that times are shown in."""


@dataclass(frozen=True)
class Rows[Wanted: PostgresSettings]:
    """Where everything that was wanted is, and the database, connected when it is first asked."""

    at: Reach[Wanted]
    database: Database

    @property
    def settings(self) -> Wanted:
        """What was wanted."""
        return self.at.settings


@contextmanager
def opened_rows[Wanted: PostgresSettings](wanted: type[Wanted]) -> Iterator[Rows[Wanted]]:
    """Find everything that is wanted. Raises StackError, also for what is refused inside the block."""
    at = reach(wanted)
    with (
        as_sentences(),
        _refusals(),
        closing(Database(at.settings.database, reply_timeout_seconds=REPLY_SECONDS)) as database,
    ):
        yield Rows(at, database)


@contextmanager
def connected_rows[Wanted: PostgresSettings](wanted: type[Wanted]) -> Iterator[tuple[Connection, Wanted]]:
    """As `opened_rows`, with a connection."""
    with opened_rows(wanted) as rows, rows.database.connection() as connection:
        yield connection, rows.settings


def operator_id(name: str) -> str:
    """A name that an operator may have. Raises StackError: those of the platform's own processors are none."""
    if not _OPERATOR.fullmatch(name):
        raise StackError("an operator's name has 1 to 64 of A-Z, a-z, 0-9, _, ., @ and -")
    if name in _OURS:
        raise StackError(f"{name} is the platform's own name in its records: take another")
    return name


def actor(given: str | None) -> str:
    """Who stands in the records: who says so, else the user of this machine. Raises StackError where there is none.

    A function runs as nobody: IAM knows who invoked it, and the caller says so with --as.
    """
    name = given or os.environ.get("LOGNAME") or os.environ.get("USER")
    if not name:
        raise StackError("say who asks: add --as NAME")
    return operator_id(name)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (TicketsError, AuthErrorsError, WorkspacesError, LifecycleError) as refused:
        raise StackError(str(refused)) from None
