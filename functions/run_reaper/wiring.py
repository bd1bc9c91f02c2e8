"""What the reaper is made of, built once a container."""

import os
from dataclasses import dataclass
from functools import cache

from dpp.money.ledger import Ledger
from dpp.platform.db.postgres import Database
from dpp.runs.finalize import FinalizeEffects
from run_reaper.settings import RunReaperSettings


@dataclass(frozen=True, slots=True)
class Wiring:
    """What ending runs touches, and a second connection for the scan."""

    effects: FinalizeEffects
    scan: Database


@cache
def wiring() -> Wiring:
    """Read the environment and build; connections open at their first use."""
    settings = RunReaperSettings.load(os.environ)
    ledger = Ledger.connect(settings.redis, cluster=settings.redis_cluster)
    effects = FinalizeEffects(Database(settings.database), ledger)
    return Wiring(effects, scan=Database(settings.database))
