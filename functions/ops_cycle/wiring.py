"""What the ops cycle is made of, built once a container."""

import os
from functools import cache

from dpp.money.ledger import Ledger
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.tickets.cycle import CycleEffects
from dpp.tickets.process import ProcessEffects
from dpp.tickets.reap import ReapEffects
from ops_cycle.executors import Owners, executors
from ops_cycle.settings import OpsCycleSettings


@cache
def wiring() -> CycleEffects:
    """Read the environment and build; connections open at their first use."""
    settings = OpsCycleSettings.load(os.environ)
    database = Database(settings.database)
    owners = Owners(
        database,
        Ledger.connect(settings.redis, cluster=settings.redis_cluster),
        Queue(settings.run_queue_url),
        Queue(settings.run_dead_letter_queue_url),
    )
    return CycleEffects(
        ReapEffects(database, ObjectStore(settings.reports_bucket), settings.zone),
        ProcessEffects(database, executors(owners), settings.rules),
    )
