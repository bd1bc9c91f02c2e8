"""What the chamberlain is made of, built once a container."""

import os
from functools import cache

from dpp.lifecycle.breaker import Bounds
from dpp.lifecycle.cleanups import ChamberlainEffects
from dpp.platform.postgres import Database
from dpp.platform.storage import ObjectStore
from dpp.registered import registered
from lifecycle_chamberlain.settings import LifecycleChamberlainSettings


@cache
def wiring() -> ChamberlainEffects:
    """Read the environment and build; connections open at their first use."""
    settings = LifecycleChamberlainSettings.load(os.environ)
    return ChamberlainEffects(
        database=Database(settings.database),
        storage=ObjectStore(settings.state_bucket),
        classes=registered(settings.retention, settings.max_retries),
        retention=settings.retention,
        zone=settings.zone,
        bounds=Bounds(settings.max_deletes, settings.breaker_factor, settings.breaker_floor),
    )
