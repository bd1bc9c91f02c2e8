"""The states of an authentication error, an outbox message and a processed message (004 §3; AUTH-3, AUTH-4, AUTH-5).

Triggers of the tables reject any other transition, and docs/auth-errors.md is generated from these machines.
"""

from collections.abc import Mapping
from enum import StrEnum

from dpp.platform.state_machine import StateMachine, Transition


class AuthErrorStatus(StrEnum):
    """The state of an authentication error."""

    NEW = "NEW"
    RETRY = "RETRY"
    ANALYSIS_REQUESTED = "ANALYSIS_REQUESTED"
    ANALYSIS_COMPLETED = "ANALYSIS_COMPLETED"
    PROCESSED = "PROCESSED"
    FAILED = "FAILED"
    RESOLVED = "RESOLVED"
    IGNORED = "IGNORED"


class OutboxStatus(StrEnum):
    """The state of an event on its way to the queue."""

    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    PUBLISHED = "PUBLISHED"
    DEAD = "DEAD"


class ProcessedStatus(StrEnum):
    """The state of the handling of a message."""

    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    RETRY_WAIT = "RETRY_WAIT"
    DONE = "DONE"
    DEAD = "DEAD"


class DecisionType(StrEnum):
    """A decision on an error (AUTH-11)."""

    PROCESS = "PROCESS"
    RESOLVE = "RESOLVE"
    IGNORE = "IGNORE"
    FAIL = "FAIL"
    ESCALATE = "ESCALATE"


TERMINAL = frozenset(
    {AuthErrorStatus.PROCESSED, AuthErrorStatus.FAILED, AuthErrorStatus.RESOLVED, AuthErrorStatus.IGNORED}
)
"""An error in one of these states never changes again; every handler skips it."""

DECIDED: Mapping[DecisionType, AuthErrorStatus] = {
    DecisionType.PROCESS: AuthErrorStatus.PROCESSED,
    DecisionType.RESOLVE: AuthErrorStatus.RESOLVED,
    DecisionType.IGNORE: AuthErrorStatus.IGNORED,
    DecisionType.FAIL: AuthErrorStatus.FAILED,
    DecisionType.ESCALATE: AuthErrorStatus.ANALYSIS_COMPLETED,
}
"""The state that each decision leads to (AUTH-11). An escalation leaves the state as it is: a person must decide."""

DECIDED_BY = "an operator or a policy"
_S = AuthErrorStatus


def _decisions() -> tuple[Transition[AuthErrorStatus], ...]:
    """The transitions of `decide`: any open error may be closed; PROCESS and ESCALATE need a completed analysis."""
    open_states = [status for status in _S if status not in TERMINAL]
    closing = (DecisionType.FAIL, DecisionType.RESOLVE, DecisionType.IGNORE)
    early = [(source, DECIDED[kind]) for source in open_states for kind in closing]
    late = [(_S.ANALYSIS_COMPLETED, DECIDED[kind]) for kind in (DecisionType.PROCESS, DecisionType.ESCALATE)]
    return tuple(Transition(source, target, "decide", DECIDED_BY) for source, target in (*early, *late))


ERROR_MACHINE = StateMachine(
    (
        Transition(None, _S.NEW, "record", "the reporter"),
        Transition(_S.NEW, _S.ANALYSIS_REQUESTED, "request_analysis", "the consumer"),
        Transition(_S.RETRY, _S.ANALYSIS_REQUESTED, "request_analysis", "the consumer"),
        Transition(_S.ANALYSIS_REQUESTED, _S.ANALYSIS_COMPLETED, "complete_analysis", "the consumer"),
        Transition(_S.RETRY, _S.ANALYSIS_COMPLETED, "complete_analysis", "the consumer"),
        Transition(_S.NEW, _S.RETRY, "note_failure", "the consumer"),
        Transition(_S.ANALYSIS_REQUESTED, _S.RETRY, "note_failure", "the consumer"),
        Transition(_S.RETRY, _S.RETRY, "note_failure", "the consumer"),
        *_decisions(),
    ),
    terminal=TERMINAL,
)

_O = OutboxStatus
_FINISHED = "the reply to the publisher was lost, and the message was handled"
OUTBOX_MACHINE = StateMachine(
    (
        Transition(None, _O.PENDING, "enqueue", "the transaction that changes the error"),
        Transition(_O.PENDING, _O.PROCESSING, "claim", "a publisher"),
        Transition(_O.PROCESSING, _O.PROCESSING, "take_over", "the outbox reaper"),
        Transition(_O.PROCESSING, _O.PUBLISHED, "mark_published", "the lease holder"),
        Transition(_O.PROCESSING, _O.PENDING, "put_back", "the lease holder"),
        Transition(_O.PROCESSING, _O.DEAD, "put_back", "the lease holder"),
        Transition(_O.PUBLISHED, _O.PUBLISHED, "send_again", "the outbox reaper"),
        Transition(_O.PENDING, _O.PENDING, "finish", "the consumer", _FINISHED),
        Transition(_O.DEAD, _O.DEAD, "finish", "the consumer", _FINISHED),
        Transition(_O.DEAD, _O.PENDING, "revive_outbox", "an operator"),
    ),
    terminal=frozenset(),
)

_P = ProcessedStatus
_UNREADABLE = "the message can't be handled"
PROCESSED_MACHINE = StateMachine(
    (
        Transition(None, _P.PENDING, "ensure_row_exists", "the consumer"),
        Transition(_P.PENDING, _P.PROCESSING, "take_lease", "the consumer"),
        Transition(_P.RETRY_WAIT, _P.PROCESSING, "take_lease", "the consumer"),
        Transition(_P.PROCESSING, _P.PROCESSING, "take_lease", "the consumer", "the lease has expired"),
        Transition(_P.PROCESSING, _P.DONE, "finish", "the lease holder"),
        Transition(_P.PROCESSING, _P.RETRY_WAIT, "wait", "the lease holder"),
        Transition(
            _P.PROCESSING,
            _P.DEAD,
            "mark_dead",
            "the lease holder, or the consumer",
            "attempts are exhausted, or leases expired too often",
        ),
        Transition(_P.PENDING, _P.DEAD, "mark_dead", "the consumer", _UNREADABLE),
        Transition(_P.RETRY_WAIT, _P.DEAD, "mark_dead", "the consumer", _UNREADABLE),
        Transition(_P.DEAD, _P.DEAD, "mark_dead_lettered", "the consumer"),
        Transition(_P.DEAD, _P.PENDING, "revive_processed", "an operator"),
    ),
    terminal=frozenset({_P.DONE}),
)
