"""Patience with a dependency: a step that may be repeated is tried again after short pauses."""

import time
from collections.abc import Callable, Sequence

from dpp.platform.errors import DependencyUnavailable

PAUSES_SECONDS = (0.2, 1.0, 3.0)
"""Long enough for a failover of a connection, short enough for a function that is about to be killed."""


def patiently[Result](
    step: Callable[[], Result],
    *,
    pauses_seconds: Sequence[float] = PAUSES_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """The step's result, from its first try that a dependency answered.

    The step must be repeatable: a lost reply means that it may have taken effect already. Raises the last
    DependencyUnavailable when every try failed.
    """
    for pause in pauses_seconds:
        try:
            return step()
        except DependencyUnavailable:
            sleep(pause)
    return step()
