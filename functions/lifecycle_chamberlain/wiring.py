"""What the chamberlain is made of, built once a container."""

import os
from dataclasses import dataclass
from functools import cache

from dpp.lifecycle.flow.ports import Wake
from dpp.lifecycle.flow.wake import WakeByInvocation
from dpp.lifecycle.retention.breaker import Bounds
from dpp.lifecycle.retention.control import CleanerEffects
from dpp.lifecycle.retention.daily_report import announce
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.registered import registered
from lifecycle_chamberlain.settings import LifecycleChamberlainSettings


@dataclass(frozen=True, slots=True)
class Wiring:
    """What the chamberlain touches, and how to wake the envoy."""

    effects: CleanerEffects
    wake: Wake


@cache
def wiring() -> Wiring:
    """Read the environment and build; connections open at their first use.

    Where nobody sends messages none is written, which would wait for ever.
    """
    settings = LifecycleChamberlainSettings.load(os.environ)
    effects = CleanerEffects(
        database=Database(settings.database),
        storage=ObjectStore(settings.state_bucket),
        classes=registered(settings.retention, settings.max_retries),
        retention=settings.retention,
        zone=settings.zone,
        bounds=Bounds(settings.max_deletes, settings.breaker_factor, settings.breaker_floor),
        announce=announce if settings.functions else None,
    )
    return Wiring(effects, WakeByInvocation(settings.functions))
