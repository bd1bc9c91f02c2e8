"""Batches of the jobs: bounded in rows and time, and a row that fails does not stop the others."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields

from dpp.platform.errors import DependencyUnavailable, PostgresNotReached
from dpp.runs.endings import Ending, ending_of
from dpp.runs.model import Run

_LOG = logging.getLogger("dpp.runs.jobs.batch")
BATCH_LIMIT = 500
TIME_LIMIT_SECONDS = 20.0


@dataclass(slots=True)
class BatchReport:
    """The work of one tick of a job."""

    seen: int = 0
    ended: int = 0
    lost: int = 0
    failed: int = 0
    stopped_early: bool = False
    endings: list[Ending] = field(default_factory=list)
    """The runs among `ended` that came to their end, to be counted."""

    def as_dict(self) -> dict[str, int | bool]:
        """The figures, for the log."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "endings"}


def in_time[Item](items: Iterable[Item], report: BatchReport, seconds: float) -> Iterator[Item]:
    """The items, until `seconds` have passed."""
    deadline = time.monotonic() + seconds
    for item in items:
        if time.monotonic() > deadline:
            report.stopped_early = True
            return
        yield item


def work_through(
    runs: Iterable[Run],
    step: Callable[[Run], Run | None],
    report: BatchReport,
    *,
    limit: int = BATCH_LIMIT,
    seconds: float = TIME_LIMIT_SECONDS,
) -> None:
    """Apply `step` to each run; it returns the changed run, or None if another process was first.

    If a dependency fails for a run, the failure is logged and the next run is tried. That applies to Postgres too, as
    it may fail for this row only (a lock); without a connection the batch ends. A later tick continues where the
    limits stopped this one, because processed runs no longer match the scan. Failed runs still match it, and don't
    count against `limit`: otherwise enough of them would starve the runs behind them.
    """
    for run in in_time(runs, report, seconds):
        if report.seen - report.failed >= limit:
            report.stopped_early = True
            return
        report.seen += 1
        try:
            moved = step(run)
            if moved is None:
                report.lost += 1
                continue
            report.ended += 1
            if (ending := ending_of(moved)) is not None:
                report.endings.append(ending)
        except PostgresNotReached:
            raise
        except DependencyUnavailable as error:
            report.failed += 1
            _LOG.error("left for the next tick", extra={"run_id": run.id, "error": {"dependency": error.dependency}})
