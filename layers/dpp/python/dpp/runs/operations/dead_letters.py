"""The dead-letter queue of runs (RUN-15): list, redrive and drop its messages.

A message comes here after three receives. Its run's row decides what happens, never the message:

- A QUEUED run waits only for this message. Redrive sends the message back; drop ends the run with a full refund. If
  neither is done, the sweeper ends the run after its hour (RUN-21).
- The reaper ends a PROCESSING run, reconcile a CLAIMED one; neither needs the message.
- The message of a run that has ended is not needed.

Every step may be repeated, and a crash between two steps is harmless, because the message is deleted last. If it was
sent back and not yet deleted, the run has two messages, of which the worker skips one by compare-and-swap (RUN-16).
If the run was ended and the message not yet deleted, the next command deletes it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from pydantic import ValidationError

from dpp.money.ledger import Ledger
from dpp.platform.aws.held_messages import Choice, HeldMessages, held
from dpp.platform.aws.queue import Queue, ReceivedMessage
from dpp.platform.db.postgres import Database
from dpp.runs import finalize, store
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.machine import TERMINAL, MoneyState, Reason, Status
from dpp.runs.message import RunMessage
from dpp.runs.model import Intent, Run
from dpp.runs.store import Guard

WAIT_SECONDS = 1
"""The time that SQS waits for messages."""
_DROPPED = Intent(
    outcome=Status.FAILED,
    money_state=MoneyState.REFUNDED,
    charge_usd_micros=0,
    reason_code=Reason.MESSAGE_DROPPED,
    detail="The run could not be started, and an operator dropped it.",
)


class MessageStatus(StrEnum):
    """The status of a message's run, as far as it matters here."""

    QUEUED = "QUEUED"
    ENDING = "ENDING"
    """Claimed: reconcile finishes it, or for a disputed run an operator."""
    PROCESSING = "PROCESSING"
    ENDED = "ENDED"
    UNKNOWN = "UNKNOWN"
    """There is no row: the message is from another deployment, or from another program."""
    UNREADABLE = "UNREADABLE"
    """Not a run message, or of a version that this code doesn't know."""


class Action(StrEnum):
    """The action on a message."""

    SENT_BACK = "SENT_BACK"
    RUN_ENDED = "RUN_ENDED"
    """Its run ended with a full refund, and the message is deleted."""
    DELETED = "DELETED"
    LEFT = "LEFT"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message of the dead-letter queue and its run. `fault` says why it can't be read, without quoting it."""

    message: ReceivedMessage
    content: RunMessage | None
    run: Run | None
    fault: str | None = None

    @property
    def status(self) -> MessageStatus:
        """The status of its run."""
        if self.content is None:
            return MessageStatus.UNREADABLE
        if self.run is None:
            return MessageStatus.UNKNOWN
        if self.run.status in TERMINAL:
            return MessageStatus.ENDED
        if self.run.finalize_stage is not None:
            return MessageStatus.ENDING
        return MessageStatus(self.run.status.value)

    @property
    def ids(self) -> frozenset[str]:
        """The ids that select it: its run's id and its message id."""
        own = {self.message.message_id}
        return frozenset(own if self.content is None else own | {str(self.content.run_id)})


@dataclass(frozen=True, slots=True)
class HandledDeadLetter:
    """A message and the action on it; its run is as it is afterwards."""

    dead_letter: DeadLetter
    action: Action


@dataclass(frozen=True, slots=True)
class DeadLetterEffects:
    """Connections and clients that an operator's command uses: also the dead-letter queue and the run queue."""

    database: Database
    ledger: Ledger
    dead_letters: Queue
    queue: Queue


def list_dead_letters(effects: DeadLetterEffects, choice: Choice) -> list[DeadLetter]:
    """List messages of the queue with their runs. It counts as a receive of each; this queue has no receive limit."""
    with held(effects.dead_letters, WAIT_SECONDS) as hold:
        return list(_chosen(effects, hold, choice))


def redrive(effects: DeadLetterEffects, choice: Choice, *, force: bool = False) -> Iterator[HandledDeadLetter]:
    """Send back messages whose run is QUEUED, delete those whose run has ended, and leave the others.

    `force` sends back the others too, unchanged: a message that couldn't be read helps once the worker can read it.
    Yields each message when it is done. Raises DependencyUnavailable; the yielded messages are done.
    """
    with held(effects.dead_letters, WAIT_SECONDS) as hold:
        for dead_letter in _chosen(effects, hold, choice):
            yield HandledDeadLetter(dead_letter, _redrive(effects, hold, dead_letter, force=force))


def drop(effects: DeadLetterEffects, choice: Choice) -> Iterator[HandledDeadLetter]:
    """Delete messages; a QUEUED run first ends as FAILED with a full refund, so that no client waits for it.

    Yields each message when it is done. Raises DependencyUnavailable; reconcile finishes a run that is claimed by then.
    """
    with held(effects.dead_letters, WAIT_SECONDS) as hold:
        for dead_letter in _chosen(effects, hold, choice):
            yield _drop(effects, hold, dead_letter)


def _chosen(effects: DeadLetterEffects, hold: HeldMessages, choice: Choice) -> Iterator[DeadLetter]:
    for message in hold.take(choice.limit):
        try:
            content = RunMessage.model_validate_json(message.body)
            dead_letter = DeadLetter(message, content, _run_of(effects, content))
        except ValidationError as error:
            dead_letter = DeadLetter(message, None, None, _fault(error))
        if choice.takes(dead_letter):
            yield dead_letter


def _fault(error: ValidationError) -> str:
    """The first fault: the member, and what was expected of it."""
    first = error.errors(include_input=False, include_url=False)[0]
    return ": ".join((*map(str, first["loc"]), first["type"]))


def _run_of(effects: DeadLetterEffects, content: RunMessage) -> Run | None:
    return effects.database.using(store.find, content.tenant_id, content.run_id)


def _redrive(effects: DeadLetterEffects, hold: HeldMessages, dead_letter: DeadLetter, *, force: bool) -> Action:
    if dead_letter.status == MessageStatus.ENDED:
        hold.delete(dead_letter.message)
        return Action.DELETED
    if dead_letter.status == MessageStatus.QUEUED and dead_letter.run is not None:
        body = RunMessage.of(dead_letter.run, datetime.now(UTC)).model_dump_json()
    elif force:
        body = dead_letter.message.body
    else:
        return Action.LEFT
    effects.queue.send(body)
    hold.delete(dead_letter.message)
    return Action.SENT_BACK


def _drop(effects: DeadLetterEffects, hold: HeldMessages, dead_letter: DeadLetter) -> HandledDeadLetter:
    action, run, content = Action.DELETED, dead_letter.run, dead_letter.content
    if dead_letter.status == MessageStatus.QUEUED and run is not None and content is not None:
        ends = FinalizeEffects(effects.database, effects.ledger)
        ended = finalize.finish(ends, run, Guard(Status.QUEUED, lease_token=None), _DROPPED)
        if ended is not None and not ended.is_disputed:
            action = Action.RUN_ENDED
        # If the claim was lost, a worker or a job has the run now.
        dead_letter = replace(dead_letter, run=ended or _run_of(effects, content))
    hold.delete(dead_letter.message)
    return HandledDeadLetter(dead_letter, action)
