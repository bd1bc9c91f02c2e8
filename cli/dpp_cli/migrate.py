"""Migrations of the database (RUN-29): Alembic orders and records them, the SQL is plain.

Two that run at once are safe: a transaction-level advisory lock makes the second wait and find nothing to do.
A migration that fails leaves the database as it was, since all of them run in one transaction.
"""

from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

_MIGRATIONS = Path(__file__).parents[2] / "migrations"
_LOCK_KEY = 0x6470_705F  # "dpp_"


def upgrade(database_url: str, revision: str = "head") -> None:
    """Bring the database at `database_url` (`postgresql://…`) up to `revision`."""
    _run(database_url, lambda config: command.upgrade(config, revision))


def downgrade(database_url: str, revision: str = "base") -> None:
    """Take the database at `database_url` back to `revision`; rows of dropped tables are lost."""
    _run(database_url, lambda config: command.downgrade(config, revision))


def _run(database_url: str, action: Callable[[Config], None]) -> None:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.set_main_option("prepend_sys_path", str(_MIGRATIONS.parent).replace("%", "%%"))
    _, _, rest = database_url.partition("://")
    engine = create_engine(f"postgresql+psycopg://{rest}", poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        config.attributes["connection"] = connection
        action(config)
