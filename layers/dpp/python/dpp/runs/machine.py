"""The states of a run and every transition between them (001 §0.2, §5.2; RUN-24).

A run's state is three columns together: status, money state and finalize stage. The schema's checks reject any
other combination, and docs/state-machine.md is generated from `MACHINE`.
"""

from dataclasses import dataclass
from enum import StrEnum

from dpp.platform.state_machine import StateMachine, Transition


class Status(StrEnum):
    """The state of the execution."""

    QUEUED = "QUEUED"
    PROCESSING = "PROCESSING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"


class MoneyState(StrEnum):
    """The state of the money. NONE is before the reservation, so no stored run has it."""

    NONE = "NONE"
    RESERVED = "RESERVED"
    SETTLED = "SETTLED"
    REFUNDED = "REFUNDED"
    DISPUTED = "DISPUTED"


class FinalizeStage(StrEnum):
    """The stage of the two-stage finalize (RUN-19); None before the claim."""

    CLAIMED = "CLAIMED"
    COMMITTED = "COMMITTED"


class Reason(StrEnum):
    """The reason of a failed run, in addition to the reasons of the packs (dpp/packs/contract.py)."""

    QUEUE_ENQUEUE_FAILED = "QUEUE_ENQUEUE_FAILED"
    WORKER_TIMEOUT = "WORKER_TIMEOUT"
    RESERVATION_EXPIRED = "RESERVATION_EXPIRED"
    RESULT_MISSING = "RESULT_MISSING"
    MESSAGE_DROPPED = "MESSAGE_DROPPED"


@dataclass(frozen=True, slots=True)
class State:
    """One legal combination of the three columns."""

    status: Status
    money: MoneyState
    stage: FinalizeStage | None = None

    def __str__(self) -> str:
        stage = f" · {self.stage}" if self.stage else ""
        return f"{self.status} · {self.money}{stage}"


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

_TRANSITIONS: tuple[Transition[State], ...] = (
    Transition(None, _QUEUED, "insert_run", "submit"),
    Transition(_QUEUED, _PROCESSING, "start_processing", "worker"),
    Transition(_QUEUED, _QUEUED, "park", "worker"),
    Transition(_QUEUED, _QUEUED_CLAIMED, "claim", "submit, sweeper, operator"),
    Transition(_PROCESSING, _PROCESSING_CLAIMED, "claim", "worker, reaper, reconcile"),
    Transition(_QUEUED_CLAIMED, _QUEUED_CLAIMED, "reclaim", "reconcile"),
    Transition(_PROCESSING_CLAIMED, _PROCESSING_CLAIMED, "reclaim", "reconcile"),
    Transition(_QUEUED_CLAIMED, _FAILED_REFUNDED, "commit", "submit, sweeper, operator, reconcile"),
    Transition(_PROCESSING_CLAIMED, _COMPLETED, "commit", "worker, reconcile"),
    Transition(_PROCESSING_CLAIMED, _FAILED_SETTLED, "commit", "worker, reaper, reconcile"),
    Transition(_QUEUED_CLAIMED, _QUEUED_DISPUTED, "dispute", "submit, sweeper, operator, reconcile"),
    Transition(_PROCESSING_CLAIMED, _PROCESSING_DISPUTED, "dispute", "worker, reaper, reconcile"),
    Transition(_QUEUED_DISPUTED, _QUEUED_CLAIMED, "resolve", "operator"),
    Transition(_PROCESSING_DISPUTED, _PROCESSING_CLAIMED, "resolve", "operator"),
    Transition(_COMPLETED, _EXPIRED_SETTLED, "expire", "retention"),
    Transition(_FAILED_SETTLED, _EXPIRED_SETTLED, "expire", "retention"),
    Transition(_FAILED_REFUNDED, _EXPIRED_REFUNDED, "expire", "retention"),
)

MACHINE = StateMachine(
    _TRANSITIONS,
    terminal=frozenset({_COMPLETED, _FAILED_SETTLED, _FAILED_REFUNDED, _EXPIRED_SETTLED, _EXPIRED_REFUNDED}),
)
"""Its states are the legal combinations; the schema accepts these and no other."""
