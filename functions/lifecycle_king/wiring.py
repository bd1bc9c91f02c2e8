"""What the king is made of, built once a container."""

import os
from functools import cache

from dpp.lifecycle.flow.dispatcher import DispatcherEffects
from dpp.lifecycle.flow.wake import WakeByInvocation
from dpp.platform.db.postgres import Database
from lifecycle_king.settings import LifecycleKingSettings


@cache
def wiring() -> DispatcherEffects:
    """Read the environment and build; connections open at their first use."""
    settings = LifecycleKingSettings.load(os.environ)
    return DispatcherEffects(Database(settings.database), WakeByInvocation(settings.functions))
