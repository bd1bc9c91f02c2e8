"""`ops_run_receipt`: what one ops cycle did, step by step (000 §7; TIX-6)."""

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
    """How a cycle ended; RUNNING while it has not, ABANDONED where it never did."""

    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    STOPPED = "STOPPED"
    """The emergency stop was set, before it or under way."""
    FAILED = "FAILED"
    """It came to its end, but one of its steps did not."""
    ABANDONED = "ABANDONED"


class StepOutcome(StrEnum):
    """How a step ended."""

    OK = "OK"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    SKIPPED = "SKIPPED"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class StopStep(_Part):
    """Step 0: whether the emergency stop is set."""

    step: Literal["0"] = "0"
    outcome: StepOutcome
    stopped: bool
    actor: str
    reason: str
    changed_at: Instant


class ReaperStep(_Part):
    """Step 0.25: the reaper. `error` is a word for what failed; its report says the rest."""

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
    """A ticket that was taken."""

    request_id: UUID
    request_type: RequestType
    outcome: TicketOutcome


class TicketsStep(_Part):
    """Step 1: tickets selected and carried out."""

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
    """The whole receipt; a step that is missing was not reached."""

    schema_: Annotated[Literal["OPS_RUN_RECEIPT_V1"], Field(alias="schema")] = "OPS_RUN_RECEIPT_V1"
    run_id: UUID
    started_at: Instant
    finished_at: Instant | None = None
    outcome: CycleOutcome = CycleOutcome.RUNNING
    emergency_stop: StopStep | None = None
    ticket_reaper: ReaperStep | None = None
    tickets: TicketsStep | None = None


def stop_step(found: EmergencyStop, zone: ZoneInfo) -> StopStep:
    """What the flag said, its time in the deployment's zone."""
    return StopStep(
        outcome=StepOutcome.STOPPED if found.stopped else StepOutcome.OK,
        stopped=found.stopped,
        actor=found.actor,
        reason=found.reason,
        changed_at=found.changed_at.astimezone(zone),
    )


def reaper_step(reaped: Reaped) -> ReaperStep:
    """What the reaper did."""
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
    """What became of the tickets that were taken."""
    return TicketsStep(
        outcome=outcome,
        done=report.of(TicketOutcome.DONE),
        failed=report.of(TicketOutcome.FAILED),
        left=report.of(TicketOutcome.LEFT),
        lost=report.of(TicketOutcome.LOST),
        stopped_early=report.stopped_early,
        items=tuple(map(_item, report.processed)),
        error=error,
    )


def _item(one: ProcessedTicket) -> TicketItem:
    return TicketItem(request_id=one.request_id, request_type=one.request_type, outcome=one.outcome)
