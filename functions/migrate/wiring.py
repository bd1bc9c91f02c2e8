"""What the migration is made of. The runner is in a layer of its own, which no other function has."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from dpp.platform.db.postgres import conninfo_of
from migrate.settings import MigrateSettings
from migrations import runner
from migrations.content import content_hash

LOCK_SECONDS = 60
"""For another deployment's migration, and for a table that is in use: then the deployment fails, and is repeated."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The hash of the migrations that came with this function, and what runs them within so many seconds."""

    content_hash: str
    upgrade: Callable[[int], str | None]


def wiring() -> Wiring:
    """Read the environment anew for each request: a deployment has one, and the password may have been rotated."""
    settings = MigrateSettings.load(os.environ)

    def upgrade(seconds: int) -> str | None:
        patience = runner.Patience(lock_seconds=LOCK_SECONDS, statement_seconds=seconds)
        return runner.upgrade(conninfo_of(settings.database, renewed=True), patience=patience)

    return Wiring(content_hash(), upgrade)
