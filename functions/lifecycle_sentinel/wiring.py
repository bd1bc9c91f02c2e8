"""What the sentinel is made of, built once a container."""

import os
from functools import cache

from dpp.lifecycle.flow.intake.poller import PollerEffects
from dpp.lifecycle.flow.outside import OutsideFunction
from dpp.lifecycle.flow.wake import WakeByInvocation
from dpp.platform.db.postgres import Database
from lifecycle_sentinel.settings import LifecycleSentinelSettings


@cache
def wiring() -> PollerEffects:
    """Read the environment and build; connections open at their first use."""
    settings = LifecycleSentinelSettings.load(os.environ)
    return PollerEffects(
        database=Database(settings.database),
        outside=OutsideFunction(settings.outside_function),
        wake=WakeByInvocation(settings.functions),
        github_login=settings.github_login,
        jira_jql=settings.jira_jql,
        horizon_days=settings.retention.horizon_days,
    )
