"""Readiness (RUN-32): probes all dependencies concurrently, so that a silent one does not hide the others."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from dpp.platform.errors import DependencyUnavailable

_LOG = logging.getLogger("dpp.health")

type Probe = Callable[[], None]


def readiness(probes: Mapping[str, Probe]) -> dict[str, bool]:
    """True for each dependency that answered. A probe raises DependencyUnavailable, within its timeouts."""
    with ThreadPoolExecutor(len(probes)) as pool:
        return dict(zip(probes, pool.map(_answers, probes, probes.values()), strict=True))


def _answers(name: str, probe: Probe) -> bool:
    try:
        probe()
    except DependencyUnavailable as error:
        _LOG.error("not ready", extra={"dependency": name, "detail": str(error)})
        return False
    return True
