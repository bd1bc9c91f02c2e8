"""What the envoy is made of, built once a container."""

import os
from functools import cache

from dpp.lifecycle.flow.notifier import NotifierEffects
from dpp.lifecycle.flow.outside import OutsideFunction
from dpp.platform.db.postgres import Database
from lifecycle_envoy.settings import LifecycleEnvoySettings


@cache
def wiring() -> NotifierEffects:
    """Read the environment and build; connections open at their first use."""
    settings = LifecycleEnvoySettings.load(os.environ)
    outside = OutsideFunction(settings.outside_function)
    return NotifierEffects(Database(settings.database), outside, settings.slack_channel)
