"""The ops cycle (000 §7; TIX-6): emergency stop, step 0.25 (the reaper), tickets; with a receipt.

A lease allows one cycle at a time. The receipt is written at the start and after each step, so that it shows the
progress after a crash. The next cycle, which starts after the lease has expired, marks such a receipt ABANDONED. A
failed step is recorded, and the next step runs; a set emergency stop ends the cycle.
"""

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

from psycopg.types.json import Jsonb

from dpp.platform.db import exclusive
from dpp.platform.db.exclusive import LeaseTaken
from dpp.platform.db.postgres import Connection, Database
from dpp.platform.errors import DependencyUnavailable
from dpp.platform.observability.logging import where
from dpp.tickets import counters, process, stop, store
from dpp.tickets.counters import OpsCounters
from dpp.tickets.errors import CycleRunning, EmergencyStopSet, NoReceiptYet, ReaperRunning
from dpp.tickets.process import ProcessEffects, ProcessReport
from dpp.tickets.reap import Reaped, ReapEffects, ReapRequest, reap
from dpp.tickets.receipt import (
    CycleOutcome,
    OpsRunReceipt,
    ReaperStep,
    StepOutcome,
    TicketsStep,
    reaper_step,
    stop_step,
    tickets_step,
)
from dpp.tickets.staleness import ReaperRules
from dpp.tickets.store import QUERIES

_LOG = logging.getLogger("dpp.tickets.cycle")
LEASE_NAME = "OPS_CYCLE"
LEASE_SECONDS = 90
"""Longer than the timeout of the function that runs the cycle (`cdk/dpp_cdk/settings/timings.py`)."""


@dataclass(frozen=True, slots=True)
class CycleEffects:
    """Connections and clients that a cycle uses; the reaper uses the rules of the processing."""

    reaping: ReapEffects
    processing: ProcessEffects

    @property
    def rules(self) -> ReaperRules:
        return self.processing.rules


@dataclass(slots=True)
class Cycle:
    """The results of one cycle, for metrics. `reaped` is None if the reaper did not run or failed."""

    receipt: OpsRunReceipt
    reaped: Reaped | None = None
    processed: ProcessReport | None = None
    counters: OpsCounters | None = None


def run_cycle(effects: CycleEffects, now: datetime | None = None) -> Cycle:
    """Run one cycle. Raises CycleRunning, and PostgresUnavailable if no receipt can be written."""
    run_id, database = uuid4(), effects.reaping.database
    try:
        with exclusive.held(database, LEASE_NAME, str(run_id), ttl_seconds=LEASE_SECONDS, now=now):
            cycle = Cycle(_begin(database, run_id, effects.reaping.zone, now))
            _steps(cycle, effects, now)
            cycle.counters = database.using(counters.count, effects.rules, now)
            return cycle
    except LeaseTaken as taken:
        raise CycleRunning(taken.started_at, taken.holder) from None


def latest(connection: Connection, limit: int = 1) -> list[dict[str, Any]]:
    """The receipts of the last `limit` cycles as JSON, the newest first. Raises NoReceiptYet."""
    rows = connection.execute(QUERIES["latest_receipts"], {"limit": limit}).fetchall()
    if not rows:
        raise NoReceiptYet
    return [row[0] for row in rows]


def _begin(database: Database, run_id: UUID, zone: ZoneInfo, now: datetime | None) -> OpsRunReceipt:
    with database.connection() as connection, connection.transaction():
        at = store.clock(connection, now).astimezone(zone)
        changes = Jsonb({"outcome": CycleOutcome.ABANDONED, "finished_at": at.isoformat()})
        params = {"changes": changes, "now": now}
        if abandoned := connection.execute(QUERIES["abandon_receipts"], params).rowcount:
            _LOG.warning("an earlier ops cycle did not finish", extra={"cycles": abandoned})
        receipt = OpsRunReceipt(run_id=run_id, started_at=at)
        begun = {"run_id": run_id, "receipt": _as_json(receipt), "now": now}
        connection.execute(QUERIES["begin_receipt"], begun)
    return receipt


def _as_json(receipt: OpsRunReceipt) -> Jsonb:
    return Jsonb(receipt.model_dump(mode="json", by_alias=True, exclude_none=True))


def _steps(cycle: Cycle, effects: CycleEffects, now: datetime | None) -> None:
    found = effects.reaping.database.using(stop.read)
    _record(cycle, effects, now, emergency_stop=stop_step(found, effects.reaping.zone))
    if not found.stopped:
        _record(cycle, effects, now, ticket_reaper=_reaper(cycle, effects, now))
    if not _is_stopped(cycle):
        _record(cycle, effects, now, tickets=_tickets(cycle, effects, now))
    outcomes = {step.outcome for step in _finished(cycle)}
    if StepOutcome.STOPPED in outcomes:
        outcome = CycleOutcome.STOPPED
    else:
        outcome = CycleOutcome.FAILED if StepOutcome.FAILED in outcomes else CycleOutcome.COMPLETED
    skipped = {
        "ticket_reaper": cycle.receipt.ticket_reaper or ReaperStep(outcome=StepOutcome.SKIPPED),
        "tickets": cycle.receipt.tickets or TicketsStep(outcome=StepOutcome.SKIPPED),
    }
    _record(cycle, effects, now, outcome=outcome, **skipped)


def _finished(cycle: Cycle) -> list[Any]:
    steps = (cycle.receipt.emergency_stop, cycle.receipt.ticket_reaper, cycle.receipt.tickets)
    return [step for step in steps if step is not None]


def _is_stopped(cycle: Cycle) -> bool:
    return any(step.outcome is StepOutcome.STOPPED for step in _finished(cycle))


def _reaper(cycle: Cycle, effects: CycleEffects, now: datetime | None) -> ReaperStep:
    try:
        cycle.reaped = reap(ReapRequest(LEASE_NAME, effects.rules), effects.reaping, now)
    except EmergencyStopSet:
        return ReaperStep(outcome=StepOutcome.STOPPED)
    except ReaperRunning as running:  # started by an operator, or by a process that crashed
        return ReaperStep(outcome=StepOutcome.SKIPPED, error=str(running))
    except Exception as error:  # noqa: BLE001 - a failed reaper is recorded and does not stop the cycle (000 §7)
        return ReaperStep(outcome=StepOutcome.FAILED, error=_failure("ticket_reaper", error))
    return reaper_step(cycle.reaped)


def _tickets(cycle: Cycle, effects: CycleEffects, now: datetime | None) -> TicketsStep:
    cycle.processed = report = ProcessReport()
    processor_id = f"{LEASE_NAME}/{cycle.receipt.run_id}"
    try:
        process.process_tickets(effects.processing, processor_id, report, now)
    except EmergencyStopSet:
        return tickets_step(report, StepOutcome.STOPPED)
    except Exception as error:  # noqa: BLE001 - recorded; a later cycle takes the ticket again
        return tickets_step(report, StepOutcome.FAILED, _failure("tickets", error))
    return tickets_step(report, StepOutcome.OK)


def _failure(step: str, error: Exception) -> str:
    """Log the failure with its place in the code, and return a short description for the receipt."""
    found = where(error)
    _LOG.error("a step of the ops cycle failed", extra={"step": step, "error": found})
    return f"{error.dependency} is unavailable" if isinstance(error, DependencyUnavailable) else str(found["class"])


def _record(cycle: Cycle, effects: CycleEffects, now: datetime | None, **changes: object) -> None:
    """Add a step to the receipt and write it; a receipt with an outcome is final."""
    receipt = cycle.receipt.model_copy(update=changes)
    zone = effects.reaping.zone
    with effects.reaping.database.connection() as connection:
        if receipt.outcome is not CycleOutcome.RUNNING:
            ended_at = max(store.clock(connection, now).astimezone(zone), receipt.started_at)
            receipt = receipt.model_copy(update={"finished_at": ended_at})
        params = {"run_id": receipt.run_id, "receipt": _as_json(receipt), "outcome": receipt.outcome, "now": now}
        connection.execute(QUERIES["write_receipt"], params)
    cycle.receipt = receipt
