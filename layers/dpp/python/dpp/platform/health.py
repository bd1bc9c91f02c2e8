"""Readiness (RUN-32): each dependency is asked one cheap question; all are asked, whatever the first says."""

import logging
from collections.abc import Callable, Mapping

from dpp.platform.errors import DependencyUnavailable

_LOG = logging.getLogger("dpp.health")

type Probe = Callable[[], None]


def readiness(probes: Mapping[str, Probe]) -> dict[str, bool]:
    """Whether each dependency answered. A probe raises DependencyUnavailable where it did not."""
    return {name: _answers(name, probe) for name, probe in probes.items()}


def _answers(name: str, probe: Probe) -> bool:
    try:
        probe()
    except DependencyUnavailable as error:
        _LOG.error("not ready", extra={"dependency": name, "detail": str(error)})
        return False
    return True
