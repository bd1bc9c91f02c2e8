"""How the scheduled jobs go through their rows: bounded in rows and in time, one bad row never costs the rest."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass

from dpp.platform.errors import DependencyUnavailable, PostgresUnavailable
from dpp.runs.model import Run

_LOG = logging.getLogger("dpp.runs.batch")
BATCH_LIMIT = 500
TIME_LIMIT_SECONDS = 20.0


@dataclass(slots=True)
class BatchReport:
    """What one firing of a job did."""

    seen: int = 0
    ended: int = 0
    lost: int = 0
    failed: int = 0
    stopped_early: bool = False

    def as_dict(self) -> dict[str, int | bool]:
        """The figures, for the log."""
        return asdict(self)


def in_time[Item](items: Iterable[Item], report: BatchReport, seconds: float) -> Iterator[Item]:
    """The items, until the time is over."""
    deadline = time.monotonic() + seconds
    for item in items:
        if time.monotonic() > deadline:
            report.stopped_early = True
            return
        yield item


def work_through(
    runs: Iterable[Run],
    step: Callable[[Run], bool],
    report: BatchReport,
    *,
    limit: int = BATCH_LIMIT,
    seconds: float = TIME_LIMIT_SECONDS,
) -> None:
    """Apply `step` to each run; True counts as ended, False as lost to another.

    A dependency that fails one run is logged and the next is tried; losing Postgres ends the batch, and the
    next firing begins again. A later firing continues where the limits stopped this one, since what was done no
    longer matches the scan.
    """
    for run in in_time(runs, report, seconds):
        if report.seen >= limit:
            report.stopped_early = True
            return
        report.seen += 1
        try:
            if step(run):
                report.ended += 1
            else:
                report.lost += 1
        except PostgresUnavailable:
            raise
        except DependencyUnavailable as error:
            report.failed += 1
            _LOG.error(
                "left for the next firing",
                extra={"run_id": run.id, "error": {"dependency": error.dependency}},
            )
