"""The states of a run and every way between them (001 §0.2, §5.2; RUN-24).

A run's state is three columns together: status, money state and finalize stage. `TRANSITIONS` is the whole
machine; the schema's checks refuse any other combination, and docs/state-machine.md is drawn from this table.
"""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Where the execution stands."""

    QUEUED = "QUEUED"
    PROCESSING = "PROCESSING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"


class MoneyState(StrEnum):
    """Where the money stands. NONE is before the reservation, so no stored run has it."""

    NONE = "NONE"
    RESERVED = "RESERVED"
    SETTLED = "SETTLED"
    REFUNDED = "REFUNDED"
    DISPUTED = "DISPUTED"


class FinalizeStage(StrEnum):
    """How far the two-stage finalize is (RUN-19); None before the claim."""

    CLAIMED = "CLAIMED"
    COMMITTED = "COMMITTED"


class Reason(StrEnum):
    """Why a run failed, beside the reasons of the packs (dpp/packs/contract.py)."""

    QUEUE_ENQUEUE_FAILED = "QUEUE_ENQUEUE_FAILED"
    WORKER_TIMEOUT = "WORKER_TIMEOUT"
    RESERVATION_EXPIRED = "RESERVATION_EXPIRED"
    RESULT_MISSING = "RESULT_MISSING"
    MESSAGE_DROPPED = "MESSAGE_DROPPED"


@dataclass(frozen=True, slots=True)
class State:
    """One legal combination."""

    status: Status
    money: MoneyState
    stage: FinalizeStage | None = None

    def __str__(self) -> str:
        stage = f" · {self.stage}" if self.stage else ""
        return f"{self.status} · {self.money}{stage}"


@dataclass(frozen=True, slots=True)
class Transition:
    """A way from one state to another: who takes it, in which query of `queries.sql`."""

    source: State | None
    target: State
    query: str
    by: tuple[str, ...]


TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.EXPIRED})

_QUEUED = State(Status.QUEUED, MoneyState.RESERVED)
_QUEUED_CLAIMED = State(Status.QUEUED, MoneyState.RESERVED, FinalizeStage.CLAIMED)
_QUEUED_DISPUTED = State(Status.QUEUED, MoneyState.DISPUTED, FinalizeStage.CLAIMED)
_PROCESSING = State(Status.PROCESSING, MoneyState.RESERVED)
_PROCESSING_CLAIMED = State(Status.PROCESSING, MoneyState.RESERVED, FinalizeStage.CLAIMED)
_PROCESSING_DISPUTED = State(Status.PROCESSING, MoneyState.DISPUTED, FinalizeStage.CLAIMED)
_COMPLETED = State(Status.COMPLETED, MoneyState.SETTLED, FinalizeStage.COMMITTED)
_FAILED_SETTLED = State(Status.FAILED, MoneyState.SETTLED, FinalizeStage.COMMITTED)
_FAILED_REFUNDED = State(Status.FAILED, MoneyState.REFUNDED, FinalizeStage.COMMITTED)
_EXPIRED_SETTLED = State(Status.EXPIRED, MoneyState.SETTLED, FinalizeStage.COMMITTED)
_EXPIRED_REFUNDED = State(Status.EXPIRED, MoneyState.REFUNDED, FinalizeStage.COMMITTED)

TRANSITIONS: tuple[Transition, ...] = (
    Transition(None, _QUEUED, "insert_run", ("submit",)),
    Transition(_QUEUED, _PROCESSING, "start_processing", ("worker",)),
    Transition(_QUEUED, _QUEUED, "park", ("worker",)),
    Transition(_QUEUED, _QUEUED_CLAIMED, "claim", ("submit", "sweeper", "operator")),
    Transition(_PROCESSING, _PROCESSING_CLAIMED, "claim", ("worker", "reaper", "reconcile")),
    Transition(_QUEUED_CLAIMED, _QUEUED_CLAIMED, "reclaim", ("reconcile",)),
    Transition(_PROCESSING_CLAIMED, _PROCESSING_CLAIMED, "reclaim", ("reconcile",)),
    Transition(_QUEUED_CLAIMED, _FAILED_REFUNDED, "commit", ("submit", "sweeper", "operator", "reconcile")),
    Transition(_PROCESSING_CLAIMED, _COMPLETED, "commit", ("worker", "reconcile")),
    Transition(_PROCESSING_CLAIMED, _FAILED_SETTLED, "commit", ("worker", "reaper", "reconcile")),
    Transition(_QUEUED_CLAIMED, _QUEUED_DISPUTED, "dispute", ("submit", "sweeper", "operator", "reconcile")),
    Transition(_PROCESSING_CLAIMED, _PROCESSING_DISPUTED, "dispute", ("worker", "reaper", "reconcile")),
    Transition(_QUEUED_DISPUTED, _QUEUED_CLAIMED, "resolve", ("operator",)),
    Transition(_PROCESSING_DISPUTED, _PROCESSING_CLAIMED, "resolve", ("operator",)),
    Transition(_COMPLETED, _EXPIRED_SETTLED, "expire", ("retention",)),
    Transition(_FAILED_SETTLED, _EXPIRED_SETTLED, "expire", ("retention",)),
    Transition(_FAILED_REFUNDED, _EXPIRED_REFUNDED, "expire", ("retention",)),
)

STATES = frozenset(transition.target for transition in TRANSITIONS)
"""Every legal combination; the schema takes these and no other."""
