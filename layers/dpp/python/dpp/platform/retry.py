"""Retry a repeatable step after short pauses while its dependency is unavailable."""

import time
from collections.abc import Callable, Sequence

from dpp.platform.errors import DependencyUnavailable

PAUSES_SECONDS = (0.2, 1.0, 3.0)
"""Long enough for a connection to fail over, short enough for a function that is near its timeout."""


def with_retries[Result](
    step: Callable[[], Result],
    *,
    pauses_seconds: Sequence[float] = PAUSES_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """Return the result of the first attempt that does not raise DependencyUnavailable.

    The step must be repeatable: after a lost reply it may already have taken effect. Raises the last
    DependencyUnavailable when every attempt failed.
    """
    for pause in pauses_seconds:
        try:
            return step()
        except DependencyUnavailable:
            sleep(pause)
    return step()
