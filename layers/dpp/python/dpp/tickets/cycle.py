"""The ops cycle (000 §7; TIX-6): emergency stop, then step 0.25, the reaper, then tickets; with a receipt.

One cycle at a time, by a lease. The receipt is written from the cycle's first line on and after each step, so that a
crash leaves what was done; the next cycle, which may begin when the lease is over, calls it ABANDONED. A step that
fails is recorded and the next one goes on; the stop ends everything after it.
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
"""Longer than the function that runs it may live (`cdk/dpp_cdk/settings/timings.py`)."""


@dataclass(frozen=True, slots=True)
class CycleEffects:
    """What a cycle touches; its reaper goes by the rules of its processing."""

    reaping: ReapEffects
    processing: ProcessEffects

    @property
    def rules(self) -> ReaperRules:
        """What is stale."""
        return self.processing.rules


@dataclass(slots=True)
class Cycle:
    """What one cycle did, to be measured. `reaped` None: the reaper did not run or failed."""

    receipt: OpsRunReceipt
    reaped: Reaped | None = None
    processed: ProcessReport | None = None
    counters: OpsCounters | None = None


def run_cycle(effects: CycleEffects, now: datetime | None = None) -> Cycle:
    """Run one. Raises CycleRunning, and PostgresUnavailable where not even a receipt can be written."""
    run_id, database = uuid4(), effects.reaping.database
    try:
        with exclusive.held(database, LEASE_NAME, str(run_id), ttl_seconds=LEASE_SECONDS, now=now):
            cycle = Cycle(_begin(database, run_id, effects.reaping.zone, now))
            _steps(cycle, effects, now)
            with database.connection() as connection:
                cycle.counters = counters.count(connection, effects.rules, now)
            return cycle
    except LeaseTaken as taken:
        raise CycleRunning(f"Another ops cycle is under way since {taken.started_at.isoformat()}.") from None


def latest(connection: Connection, limit: int = 1) -> list[dict[str, Any]]:
    """The receipts of the last so many cycles as JSON, the newest first. Raises NoReceiptYet."""
    rows = connection.execute(QUERIES["latest_receipts"], {"limit": limit}).fetchall()
    if not rows:
        raise NoReceiptYet
    return [row[0] for row in rows]


def _begin(database: Database, run_id: UUID, zone: ZoneInfo, now: datetime | None) -> OpsRunReceipt:
    with database.connection() as connection, connection.transaction():
        at = store.clock(connection, now).astimezone(zone)
        over = Jsonb({"outcome": CycleOutcome.ABANDONED, "finished_at": at.isoformat()})
        if abandoned := connection.execute(QUERIES["abandon_receipts"], {"over": over, "now": now}).rowcount:
            _LOG.warning("an earlier cycle never ended", extra={"cycles": abandoned})
        receipt = OpsRunReceipt(run_id=run_id, started_at=at)
        params = {"run_id": run_id, "receipt": _as_json(receipt), "now": now}
        connection.execute(QUERIES["begin_receipt"], params)
    return receipt


def _as_json(receipt: OpsRunReceipt) -> Jsonb:
    return Jsonb(receipt.model_dump(mode="json", by_alias=True, exclude_none=True))


def _steps(cycle: Cycle, effects: CycleEffects, now: datetime | None) -> None:
    with effects.reaping.database.connection() as connection:
        found = stop.read(connection)
    _record(cycle, effects, now, emergency_stop=stop_step(found, effects.reaping.zone))
    if not found.stopped:
        _record(cycle, effects, now, ticket_reaper=_reaper(cycle, effects, now))
    if not _is_stopped(cycle):
        _record(cycle, effects, now, tickets=_tickets(cycle, effects, now))
    outcomes = {step.outcome for step in _taken(cycle)}
    if StepOutcome.STOPPED in outcomes:
        outcome = CycleOutcome.STOPPED
    else:
        outcome = CycleOutcome.FAILED if StepOutcome.FAILED in outcomes else CycleOutcome.COMPLETED
    skipped = {
        "ticket_reaper": cycle.receipt.ticket_reaper or ReaperStep(outcome=StepOutcome.SKIPPED),
        "tickets": cycle.receipt.tickets or TicketsStep(outcome=StepOutcome.SKIPPED),
    }
    _record(cycle, effects, now, outcome=outcome, **skipped)


def _taken(cycle: Cycle) -> list[Any]:
    steps = (cycle.receipt.emergency_stop, cycle.receipt.ticket_reaper, cycle.receipt.tickets)
    return [step for step in steps if step is not None]


def _is_stopped(cycle: Cycle) -> bool:
    return any(step.outcome is StepOutcome.STOPPED for step in _taken(cycle))


def _reaper(cycle: Cycle, effects: CycleEffects, now: datetime | None) -> ReaperStep:
    try:
        cycle.reaped = reap(ReapRequest(LEASE_NAME, effects.rules), effects.reaping, now)
    except EmergencyStopSet:
        return ReaperStep(outcome=StepOutcome.STOPPED)
    except ReaperRunning as running:  # by hand, or by a process that died at it
        return ReaperStep(outcome=StepOutcome.SKIPPED, error=str(running))
    except Exception as error:  # noqa: BLE001 - a failing reaper is recorded and stops nothing (000 §7)
        return ReaperStep(outcome=StepOutcome.FAILED, error=_told("ticket_reaper", error))
    return reaper_step(cycle.reaped)


def _tickets(cycle: Cycle, effects: CycleEffects, now: datetime | None) -> TicketsStep:
    cycle.processed = report = ProcessReport()
    processor_id = f"{LEASE_NAME}/{cycle.receipt.run_id}"
    try:
        process.process_tickets(effects.processing, processor_id, report, now)
    except EmergencyStopSet:
        return tickets_step(report, StepOutcome.STOPPED)
    except Exception as error:  # noqa: BLE001 - recorded; the ticket is taken again, and the next cycle goes on
        return tickets_step(report, StepOutcome.FAILED, _told("tickets", error))
    return tickets_step(report, StepOutcome.OK)


def _told(step: str, error: Exception) -> str:
    """A word for the receipt; the log has where it was."""
    found = where(error)
    _LOG.error("a step of the ops cycle failed", extra={"step": step, "error": found})
    return (
        f"{error.dependency} is unavailable"
        if isinstance(error, DependencyUnavailable)
        else str(found["class"])
    )


def _record(cycle: Cycle, effects: CycleEffects, now: datetime | None, **changes: object) -> None:
    """Take a step into the receipt, and write it; with an outcome, for good."""
    receipt = cycle.receipt.model_copy(update=changes)
    zone = effects.reaping.zone
    with effects.reaping.database.connection() as connection:
        if receipt.outcome is not CycleOutcome.RUNNING:
            ended_at = max(store.clock(connection, now).astimezone(zone), receipt.started_at)
            receipt = receipt.model_copy(update={"finished_at": ended_at})
        params = {
            "run_id": receipt.run_id,
            "receipt": _as_json(receipt),
            "outcome": receipt.outcome,
            "now": now,
        }
        connection.execute(QUERIES["write_receipt"], params)
    cycle.receipt = receipt
