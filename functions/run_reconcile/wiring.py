"""What reconcile is made of, built once a container."""

import os
from dataclasses import dataclass
from functools import cache

from dpp.money.ledger import Ledger
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.runs.jobs.reconcile import ReconcileEffects
from run_reconcile.settings import RunReconcileSettings


@dataclass(frozen=True, slots=True)
class Wiring:
    """What reconcile touches, and a second connection for the scans."""

    effects: ReconcileEffects
    scan: Database


@cache
def wiring() -> Wiring:
    """Read the environment and build; connections open at their first use."""
    settings = RunReconcileSettings.load(os.environ)
    effects = ReconcileEffects(
        database=Database(settings.database),
        ledger=Ledger.connect(settings.redis, cluster=settings.redis_cluster),
        storage=ObjectStore(settings.results_bucket),
        queue=Queue(settings.run_queue_url),
    )
    return Wiring(effects, scan=Database(settings.database))
