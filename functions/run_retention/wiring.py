"""What retention is made of, built once a container."""

import os
from dataclasses import dataclass
from functools import cache

from dpp.platform.db.postgres import Database
from run_retention.settings import RunRetentionSettings


@dataclass(frozen=True, slots=True)
class Wiring:
    """A connection for the writes, and a second one for the scan."""

    database: Database
    scan: Database


@cache
def wiring() -> Wiring:
    """Read the environment and build; connections open at their first use."""
    settings = RunRetentionSettings.load(os.environ)
    return Wiring(Database(settings.database), scan=Database(settings.database))
