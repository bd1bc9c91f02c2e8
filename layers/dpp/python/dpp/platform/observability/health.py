"""Readiness (RUN-32): each dependency is asked one cheap question, all at once, so that the silent hide no other."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from dpp.platform.errors import DependencyUnavailable

_LOG = logging.getLogger("dpp.health")

type Probe = Callable[[], None]


def readiness(probes: Mapping[str, Probe]) -> dict[str, bool]:
    """Whether each dependency answered. A probe raises DependencyUnavailable where it did not, within its timeouts."""
    with ThreadPoolExecutor(len(probes)) as pool:
        return dict(zip(probes, pool.map(_answers, probes, probes.values()), strict=True))


def _answers(name: str, probe: Probe) -> bool:
    try:
        probe()
    except DependencyUnavailable as error:
        _LOG.error("not ready", extra={"dependency": name, "detail": str(error)})
        return False
    return True
