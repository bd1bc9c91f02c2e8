"""What the general is made of, built once a container."""

import os
from functools import cache

from dpp.lifecycle.general import GeneralEffects
from dpp.lifecycle.wake import WakeByInvocation
from dpp.money.ledger import Ledger
from dpp.platform.postgres import Database
from dpp.platform.queue import Queue
from dpp.platform.storage import ObjectStore
from dpp.runs.submit import SubmitEffects
from lifecycle_general.settings import LifecycleGeneralSettings
from lifecycle_general.soldiers import RunSoldiers


@cache
def wiring() -> GeneralEffects:
    """Read the environment and build; connections open at their first use."""
    settings = LifecycleGeneralSettings.load(os.environ)
    database = Database(settings.database)
    ledger = Ledger.connect(settings.redis, cluster=settings.redis_cluster)
    submits = SubmitEffects(database, ledger, Queue(settings.run_queue_url))
    return GeneralEffects(
        database,
        RunSoldiers(submits, ObjectStore(settings.results_bucket), settings),
        ObjectStore(settings.state_bucket),
        WakeByInvocation(settings.functions),
        settings.max_attempts,
    )
