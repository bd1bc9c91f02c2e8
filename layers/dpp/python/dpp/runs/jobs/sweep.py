"""The sweeper (RUN-21): a run that waited in the queue for over an hour is refunded in full.

Two ticks at once are safe. After a crash behind a claim, reconcile finishes.
"""

from datetime import datetime

from dpp.money.ledger import RESERVATION_TTL_SECONDS
from dpp.platform.db.postgres import Database
from dpp.runs import finalize, store
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.jobs.batch import BatchReport, work_through
from dpp.runs.machine import MoneyState, Reason, Status
from dpp.runs.model import Intent, Run
from dpp.runs.store import Guard

_EXPIRED = Intent(
    outcome=Status.FAILED,
    money_state=MoneyState.REFUNDED,
    charge_usd_micros=0,
    reason_code=Reason.RESERVATION_EXPIRED,
    detail="The run waited for longer than its reservation lasts.",
)
_STILL_WAITING = Guard(Status.QUEUED, lease_token=None, minimum_age_seconds=RESERVATION_TTL_SECONDS)


def sweep(effects: FinalizeEffects, scan: Database, now: datetime | None = None) -> BatchReport:
    """One tick. `scan` reads the pages on its own connection."""
    report = BatchReport()
    with scan.connection() as connection:
        waiting = store.page_through(connection, "page_waiting", now, RESERVATION_TTL_SECONDS)
        work_through(waiting, lambda run: sweep_run(effects, run, now), report)
    return report


def sweep_run(effects: FinalizeEffects, run: Run, now: datetime | None = None) -> Run | None:
    """Refund one run that is still waiting; None if a worker was first."""
    return finalize.finish(effects, run, _STILL_WAITING, _EXPIRED, now=now)
