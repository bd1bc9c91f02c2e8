"""What the worker is made of, built once a container."""

import os
from functools import cache

from dpp.money.ledger import Ledger
from dpp.packs.contract import PackType
from dpp.packs.outside import OutsidePacks, RoutedPacks
from dpp.packs.process import PackProcess
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.runs.execute import Packs, WorkEffects
from run_worker.settings import RunWorkerSettings


@cache
def wiring() -> WorkEffects:
    """Read the environment, build, and start warming the first pack process."""
    settings = RunWorkerSettings.load(os.environ)
    packs = PackProcess(os.environ)
    packs.prestart()
    return WorkEffects(
        database=Database(settings.database),
        new_database=lambda: Database(settings.database),
        ledger=Ledger.connect(settings.redis, cluster=settings.redis_cluster),
        queue=Queue(settings.run_queue_url),
        storage=ObjectStore(settings.results_bucket),
        packs=_routed(packs, settings),
    )


def _routed(packs: PackProcess, settings: RunWorkerSettings) -> Packs:
    """Packs that meet the internet go to the function outside of the VPC, where there is one."""
    if settings.pack_outside_function is None:
        return packs
    engine = {PackType.DECISION} if settings.meets_the_internet else set[PackType]()
    return RoutedPacks(packs, OutsidePacks(settings.pack_outside_function), {PackType.URL, *engine})
