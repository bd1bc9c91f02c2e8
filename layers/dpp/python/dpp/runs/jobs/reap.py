"""The reaper (RUN-20): a run whose lease has run out is failed and costs the minimum fee.

Safe when fired twice at once: the claim is a CAS, and its loser does nothing. A crash after a claim is
reconcile's to finish.
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
    """One firing. `scan` reads the pages on a connection of its own."""
    report = BatchReport()
    with scan.connection() as connection:
        expired = store.page_through(connection, "page_expired_leases", now)
        work_through(expired, lambda run: reap_run(effects, run, now), report)
    return report


def reap_run(effects: FinalizeEffects, run: Run, now: datetime | None = None) -> Run | None:
    """End one run whose lease has run out; None for a loser, the worker's late heartbeat among the winners."""
    return finalize.finish(effects, run, expired_lease(run), timed_out(run), now=now)


def expired_lease(run: Run) -> Guard:
    """The claim's condition: the same lease, and run out at the moment of the write (001 §10.2), or longer than any."""
    return Guard(Status.PROCESSING, lease_token=run.lease_token, lease_must_have_expired=True)


def timed_out(run: Run) -> Intent:
    """FAILED with the minimum fee: the worker never came back."""
    return Intent(
        outcome=Status.FAILED,
        money_state=MoneyState.SETTLED,
        charge_usd_micros=charge_within(run.minimum_fee_usd_micros, run.reservation_max_cost_usd_micros),
        reason_code=Reason.WORKER_TIMEOUT,
        detail="The worker did not finish within its lease.",
    )
