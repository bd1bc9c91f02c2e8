"""`ops_run_receipt`: the steps of one ops cycle and their outcomes (000 §7; TIX-6)."""

from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field

from dpp.tickets.model import RequestType
from dpp.tickets.process import ProcessedTicket, ProcessReport, TicketOutcome
from dpp.tickets.reap import Reaped
from dpp.tickets.report import Decision, Instant, RawPath
from dpp.tickets.stop import EmergencyStop


class CycleOutcome(StrEnum):
    """The outcome of a cycle. ABANDONED: it crashed, or its function timed out."""

    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    STOPPED = "STOPPED"
    """The emergency stop was set before the cycle or during it."""
    FAILED = "FAILED"
    """The cycle finished, but one of its steps failed."""
    ABANDONED = "ABANDONED"


class StepOutcome(StrEnum):
    """The outcome of a step."""

    OK = "OK"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    SKIPPED = "SKIPPED"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class StopStep(_Part):
    """Step 0: the emergency stop."""

    step: Literal["0"] = "0"
    outcome: StepOutcome
    stopped: bool
    actor: str
    reason: str
    changed_at: Instant


class ReaperStep(_Part):
    """Step 0.25: the reaper. `error` describes a failure; the reaper's report has the details of a run."""

    step: Literal["0.25"] = "0.25"
    outcome: StepOutcome
    decision: Decision | None = None
    threshold_seconds: int | None = None
    stale_count: int | None = None
    cleaned_count: int | None = None
    evidence_refs: tuple[RawPath, ...] = ()
    breaker_tripped: bool = False
    published: bool = False
    error: str | None = None


class TicketItem(_Part):
    """A processed ticket."""

    request_id: UUID
    request_type: RequestType
    outcome: TicketOutcome


class TicketsStep(_Part):
    """Step 1: the processed tickets."""

    step: Literal["1"] = "1"
    outcome: StepOutcome
    done: int = 0
    failed: int = 0
    left: int = 0
    lost: int = 0
    stopped_early: bool = False
    items: tuple[TicketItem, ...] = ()
    error: str | None = None


class OpsRunReceipt(_Part):
    """The receipt of a cycle. A missing step was not reached."""

    schema_: Annotated[Literal["OPS_RUN_RECEIPT_V1"], Field(alias="schema")] = "OPS_RUN_RECEIPT_V1"
    run_id: UUID
    started_at: Instant
    finished_at: Instant | None = None
    outcome: CycleOutcome = CycleOutcome.RUNNING
    emergency_stop: StopStep | None = None
    ticket_reaper: ReaperStep | None = None
    tickets: TicketsStep | None = None


def stop_step(found: EmergencyStop, zone: ZoneInfo) -> StopStep:
    """Step 0, with its time in the deployment's time zone."""
    return StopStep(
        outcome=StepOutcome.STOPPED if found.stopped else StepOutcome.OK,
        stopped=found.stopped,
        actor=found.actor,
        reason=found.reason,
        changed_at=found.changed_at.astimezone(zone),
    )


def reaper_step(reaped: Reaped) -> ReaperStep:
    """Step 0.25, from the reaper's result."""
    report = reaped.report
    return ReaperStep(
        outcome=StepOutcome.OK,
        decision=report.decision,
        threshold_seconds=report.threshold_seconds,
        stale_count=report.stale_count,
        cleaned_count=report.cleaned_count,
        evidence_refs=report.evidence_refs,
        breaker_tripped=reaped.breaker_tripped,
        published=reaped.published,
    )


def tickets_step(report: ProcessReport, outcome: StepOutcome, error: str | None = None) -> TicketsStep:
    """Step 1, from the report of the processing."""
    return TicketsStep(
        outcome=outcome,
        done=report.count(TicketOutcome.DONE),
        failed=report.count(TicketOutcome.FAILED),
        left=report.count(TicketOutcome.LEFT),
        lost=report.count(TicketOutcome.LOST),
        stopped_early=report.stopped_early,
        items=tuple(map(_item, report.processed)),
        error=error,
    )


def _item(one: ProcessedTicket) -> TicketItem:
    return TicketItem(request_id=one.request_id, request_type=one.request_type, outcome=one.outcome)
