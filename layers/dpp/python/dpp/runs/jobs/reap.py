"""The reaper (RUN-20): a run whose lease has expired is FAILED and costs the minimum fee.

Two ticks at once are safe: the claim is a CAS, and its loser does nothing. After a crash behind a claim, reconcile
finishes.
"""

from datetime import datetime

from dpp.money.fees import charge_within
from dpp.platform.db.postgres import Database
from dpp.runs import finalize, store
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.jobs.batch import BatchReport, work_through
from dpp.runs.machine import MoneyState, Reason, Status
from dpp.runs.model import Intent, Run
from dpp.runs.store import Guard


def reap(effects: FinalizeEffects, scan: Database, now: datetime | None = None) -> BatchReport:
    """One tick. `scan` reads the pages on its own connection."""
    report = BatchReport()
    with scan.connection() as connection:
        expired = store.page_through(connection, "page_expired_leases", now)
        work_through(expired, lambda run: reap_run(effects, run, now), report)
    return report


def reap_run(effects: FinalizeEffects, run: Run, now: datetime | None = None) -> Run | None:
    """End one run whose lease has expired; None for a loser, also against a late heartbeat of the worker."""
    return finalize.finish(effects, run, expired_lease(run), timed_out(run), now=now)


def expired_lease(run: Run) -> Guard:
    """The claim's condition: the same lease, expired when the claim is written (001 §10.2), or longer than is valid."""
    return Guard(Status.PROCESSING, lease_token=run.lease_token, lease_must_have_expired=True)


def timed_out(run: Run) -> Intent:
    """FAILED with the minimum fee, as the worker did not finish."""
    return Intent(
        outcome=Status.FAILED,
        money_state=MoneyState.SETTLED,
        charge_usd_micros=charge_within(run.minimum_fee_usd_micros, run.reservation_max_cost_usd_micros),
        reason_code=Reason.WORKER_TIMEOUT,
        detail="The worker did not finish within its lease.",
    )
