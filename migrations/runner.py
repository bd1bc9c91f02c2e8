"""Runs the migrations (RUN-29): Alembic orders and records them, the SQL is plain.

Two that run at once are safe: a transaction-level advisory lock makes the second wait and find nothing to do.
A migration that fails leaves the database as it was, since all of them run in one transaction.
"""

from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import NullPool

from migrations.content import FOLDER

_LOCK_KEY = 0x6470_705F  # "dpp_"
_CONNECT_SECONDS = 10


@dataclass(frozen=True)
class Patience:
    """Maximum waits in seconds; 0 means forever. `lock` counts for the other migration, and for each table."""

    lock_seconds: int = 0
    statement_seconds: int = 0


FOR_EVER = Patience()


def upgrade(conninfo: str, revision: str = "head", patience: Patience = FOR_EVER) -> str | None:
    """Bring a database up to `revision`; the revision it then has.

    `conninfo` is a libpq URL or key/value string. A database that has a revision which these migrations
    don't know was migrated by a later release: it is left as it is, and None is answered. Raises
    SQLAlchemy's DBAPIError, having changed nothing.
    """
    return _run(conninfo, patience, lambda config: command.upgrade(config, revision))


def downgrade(conninfo: str, revision: str = "base", patience: Patience = FOR_EVER) -> str | None:
    """Take a database back to `revision`; rows of dropped tables are lost. Answers and raises as `upgrade`."""
    return _run(conninfo, patience, lambda config: command.downgrade(config, revision))


def _run(conninfo: str, patience: Patience, action: Callable[[Config], None]) -> str | None:
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.set_main_option("prepend_sys_path", str(FOLDER.parent).replace("%", "%%"))
    engine = create_engine(
        "postgresql+psycopg://",
        poolclass=NullPool,
        creator=lambda: psycopg.connect(conninfo, connect_timeout=_CONNECT_SECONDS),
    )
    with engine.begin() as connection:
        _be_patient(connection, patience)
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        if not known.issuperset(MigrationContext.configure(connection).get_current_heads()):
            return None
        config.attributes["connection"] = connection
        action(config)
        return MigrationContext.configure(connection).get_current_revision() or "base"


def _be_patient(connection: Connection, patience: Patience) -> None:
    """For this transaction only. A lock that isn't got soon holds up everybody who wants the table after us."""
    for setting, seconds in (
        ("lock_timeout", patience.lock_seconds),
        ("statement_timeout", patience.statement_seconds),
    ):
        connection.execute(
            text("SELECT set_config(:setting, :value, true)"), {"setting": setting, "value": f"{seconds}s"}
        )
