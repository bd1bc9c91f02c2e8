"""The states of an authentication error, of an outbox message and of a ledger row (004 §3; AUTH-3, AUTH-4, AUTH-5).

The tables are the whole machines; triggers refuse any other way, and docs/auth-errors.md is drawn from them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class AuthErrorStatus(StrEnum):
    """Where an authentication error stands."""

    NEW = "NEW"
    RETRY = "RETRY"
    ANALYSIS_REQUESTED = "ANALYSIS_REQUESTED"
    ANALYSIS_COMPLETED = "ANALYSIS_COMPLETED"
    PROCESSED = "PROCESSED"
    FAILED = "FAILED"
    RESOLVED = "RESOLVED"
    IGNORED = "IGNORED"


class OutboxStatus(StrEnum):
    """Where an event stands on its way to the queue."""

    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    PUBLISHED = "PUBLISHED"
    DEAD = "DEAD"


class ProcessedStatus(StrEnum):
    """Where the handling of a message stands."""

    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    RETRY_WAIT = "RETRY_WAIT"
    DONE = "DONE"
    DEAD = "DEAD"


class DecisionType(StrEnum):
    """What may be decided of an error (AUTH-11)."""

    PROCESS = "PROCESS"
    RESOLVE = "RESOLVE"
    IGNORE = "IGNORE"
    FAIL = "FAIL"
    ESCALATE = "ESCALATE"


TERMINAL = frozenset(
    {
        AuthErrorStatus.PROCESSED,
        AuthErrorStatus.FAILED,
        AuthErrorStatus.RESOLVED,
        AuthErrorStatus.IGNORED,
    }
)
"""From here an error goes nowhere: every handler skips it."""

DECIDED: Mapping[DecisionType, AuthErrorStatus] = {
    DecisionType.PROCESS: AuthErrorStatus.PROCESSED,
    DecisionType.RESOLVE: AuthErrorStatus.RESOLVED,
    DecisionType.IGNORE: AuthErrorStatus.IGNORED,
    DecisionType.FAIL: AuthErrorStatus.FAILED,
    DecisionType.ESCALATE: AuthErrorStatus.ANALYSIS_COMPLETED,
}
"""Where a decision leads (AUTH-11). An escalation leaves the error where it is: a person has to look."""


@dataclass(frozen=True, slots=True)
class Transition[Status: StrEnum]:
    """One way: the query that goes it, and who."""

    source: Status | None
    target: Status
    query: str
    by: str


type _Way = Transition[AuthErrorStatus]
_S = AuthErrorStatus


def _decisions() -> tuple[_Way, ...]:
    """The ways of `decide`: whatever is open may be closed; only what was analysed is processed or escalated."""
    open_states = [status for status in _S if status not in TERMINAL]
    closing = (DecisionType.FAIL, DecisionType.RESOLVE, DecisionType.IGNORE)
    early = [(source, DECIDED[kind]) for source in open_states for kind in closing]
    late = [(_S.ANALYSIS_COMPLETED, DECIDED[kind]) for kind in (DecisionType.PROCESS, DecisionType.ESCALATE)]
    return tuple(
        Transition(source, target, "decide", "an operator or a policy") for source, target in (*early, *late)
    )


TRANSITIONS: tuple[_Way, ...] = (
    Transition(None, _S.NEW, "record", "the reporter"),
    Transition(_S.NEW, _S.ANALYSIS_REQUESTED, "request_analysis", "the consumer"),
    Transition(_S.RETRY, _S.ANALYSIS_REQUESTED, "request_analysis", "the consumer"),
    Transition(_S.ANALYSIS_REQUESTED, _S.ANALYSIS_COMPLETED, "complete_analysis", "the consumer"),
    Transition(_S.RETRY, _S.ANALYSIS_COMPLETED, "complete_analysis", "the consumer"),
    Transition(_S.NEW, _S.RETRY, "note_failure", "the consumer"),
    Transition(_S.ANALYSIS_REQUESTED, _S.RETRY, "note_failure", "the consumer"),
    Transition(_S.RETRY, _S.RETRY, "note_failure", "the consumer"),
    *_decisions(),
)

_O = OutboxStatus
OUTBOX_TRANSITIONS: tuple[Transition[OutboxStatus], ...] = (
    Transition(None, _O.PENDING, "enqueue", "whoever changes the error"),
    Transition(_O.PENDING, _O.PROCESSING, "claim", "a publisher"),
    Transition(_O.PROCESSING, _O.PROCESSING, "take_over", "the outbox reaper"),
    Transition(_O.PROCESSING, _O.PUBLISHED, "mark_published", "the owner"),
    Transition(_O.PROCESSING, _O.PENDING, "put_back", "the owner"),
    Transition(_O.PROCESSING, _O.DEAD, "put_back", "the owner"),
    Transition(_O.PUBLISHED, _O.PUBLISHED, "send_again", "the outbox reaper"),
    # A reply that was lost: sent and handled, though the publisher had to think that it was not.
    Transition(_O.PENDING, _O.PENDING, "finish", "the consumer"),
    Transition(_O.DEAD, _O.DEAD, "finish", "the consumer"),
    Transition(_O.DEAD, _O.PENDING, "revive_outbox", "an operator"),
)

_P = ProcessedStatus
PROCESSED_TRANSITIONS: tuple[Transition[ProcessedStatus], ...] = (
    Transition(None, _P.PENDING, "ensure_row_exists", "the consumer"),
    Transition(_P.PENDING, _P.PROCESSING, "take_lease", "the consumer"),
    Transition(_P.RETRY_WAIT, _P.PROCESSING, "take_lease", "the consumer"),
    Transition(_P.PROCESSING, _P.PROCESSING, "take_lease", "a consumer, of one that died"),
    Transition(_P.PROCESSING, _P.DONE, "finish", "the lease's owner"),
    Transition(_P.PROCESSING, _P.RETRY_WAIT, "wait", "the lease's owner"),
    Transition(_P.PROCESSING, _P.DEAD, "bury", "the lease's owner, or who finds it died too often"),
    Transition(_P.PENDING, _P.DEAD, "bury", "the consumer: its message can't be handled"),
    Transition(_P.RETRY_WAIT, _P.DEAD, "bury", "the consumer: its message can't be handled"),
    Transition(_P.DEAD, _P.DEAD, "mark_dead_lettered", "the consumer"),
    Transition(_P.DEAD, _P.PENDING, "revive_processed", "an operator"),
)


def may_go(source: AuthErrorStatus, target: AuthErrorStatus) -> bool:
    """Whether there is such a way."""
    return any(way.source is source and way.target is target for way in TRANSITIONS)
