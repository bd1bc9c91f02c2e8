"""The dead-letter queue of runs (RUN-15): what stands in it, sent back or dropped by an operator.

A message comes here after three receives. What it means is decided by its run's row, never by the message:

- a run that is QUEUED waits for nobody but this message: redrive sends it back, drop ends the run with a full
  refund, and if nobody does anything the sweeper ends it after its hour (RUN-21);
- a run that is PROCESSING is the reaper's, one that is CLAIMED reconcile's: their messages are of no use to them;
- a run that has ended leaves a message that nobody misses.

Every step may be repeated, and a crash between two of them harms nothing: the message is deleted last. Sent back
and not yet deleted, a run has two messages, of which the worker's compare-and-swap skips one (RUN-16). Ended and
not yet deleted, a message is deleted by whoever looks next.
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
"""How long SQS looks for messages before it says that there are none."""
_DROPPED = Intent(
    outcome=Status.FAILED,
    money_state=MoneyState.REFUNDED,
    charge_usd_micros=0,
    reason_code=Reason.MESSAGE_DROPPED,
    detail="The run could not be begun and was given up.",
)


class Standing(StrEnum):
    """Where a message's run stands, as far as it matters here."""

    QUEUED = "QUEUED"
    ENDING = "ENDING"
    """Claimed: reconcile, or for a disputed one an operator, has the rest."""
    PROCESSING = "PROCESSING"
    ENDED = "ENDED"
    UNKNOWN = "UNKNOWN"
    """No row: of another deployment, or not from here at all."""
    UNREADABLE = "UNREADABLE"
    """No message of ours, or of a version that this code doesn't know."""


class Action(StrEnum):
    """What was done with a message."""

    SENT_BACK = "SENT_BACK"
    RUN_ENDED = "RUN_ENDED"
    """Its run ended with a full refund, and the message is deleted."""
    DELETED = "DELETED"
    LEFT = "LEFT"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message of the dead-letter queue. `fault` says why it can't be read, without a word of it."""

    message: ReceivedMessage
    content: RunMessage | None
    run: Run | None
    fault: str | None = None

    @property
    def standing(self) -> Standing:
        """Where its run stands."""
        if self.content is None:
            return Standing.UNREADABLE
        if self.run is None:
            return Standing.UNKNOWN
        if self.run.status in TERMINAL:
            return Standing.ENDED
        if self.run.finalize_stage is not None:
            return Standing.ENDING
        return Standing(self.run.status.value)

    @property
    def ids(self) -> frozenset[str]:
        """By which it can be chosen: its run's id and its own."""
        own = {self.message.message_id}
        return frozenset(own if self.content is None else own | {str(self.content.run_id)})


@dataclass(frozen=True, slots=True)
class Handled:
    """A message and what was done with it; `letter.run` is the run as it stands afterwards."""

    letter: DeadLetter
    action: Action


@dataclass(frozen=True, slots=True)
class DeadLetterEffects:
    """What an operator's command touches: the dead-letter queue, and the queue of runs behind it."""

    database: Database
    ledger: Ledger
    dead_letters: Queue
    queue: Queue


def look(effects: DeadLetterEffects, choice: Choice) -> list[DeadLetter]:
    """What stands in the queue, and where its runs stand. Counts as a receive of each, which decides nothing here."""
    with held(effects.dead_letters, WAIT_SECONDS) as hold:
        return [letter for letter in _letters(effects, hold, choice.limit) if choice.takes(letter)]


def redrive(effects: DeadLetterEffects, choice: Choice, *, force: bool = False) -> Iterator[Handled]:
    """Send back the messages whose run is QUEUED, delete those whose run has ended, leave the rest.

    `force` sends the rest back too, word for word: a message that couldn't be read is worth that once the
    worker can read it. Yields each as it is done. Raises DependencyUnavailable; what was yielded is done.
    """
    with held(effects.dead_letters, WAIT_SECONDS) as hold:
        for letter in _letters(effects, hold, choice.limit):
            if choice.takes(letter):
                yield Handled(letter, _redrive(effects, hold, letter, force=force))


def drop(effects: DeadLetterEffects, choice: Choice) -> Iterator[Handled]:
    """Delete messages; a run that is QUEUED ends first, FAILED with a full refund, so that no client waits.

    Yields each as it is done. Raises DependencyUnavailable; a run whose claim stands by then is reconcile's.
    """
    with held(effects.dead_letters, WAIT_SECONDS) as hold:
        for letter in _letters(effects, hold, choice.limit):
            if choice.takes(letter):
                yield _drop(effects, hold, letter)


def _letters(effects: DeadLetterEffects, hold: HeldMessages, limit: int) -> Iterator[DeadLetter]:
    for message in hold.take(limit):
        try:
            content = RunMessage.model_validate_json(message.body)
        except ValidationError as error:
            yield DeadLetter(message, None, None, _fault(error))
            continue
        yield DeadLetter(message, content, _run_of(effects, content))


def _fault(error: ValidationError) -> str:
    """The first fault: which member, and what was expected of it."""
    first = error.errors(include_input=False, include_url=False)[0]
    return ": ".join((*map(str, first["loc"]), first["type"]))


def _run_of(effects: DeadLetterEffects, content: RunMessage) -> Run | None:
    with effects.database.connection() as connection:
        return store.find(connection, content.tenant_id, content.run_id)


def _redrive(effects: DeadLetterEffects, hold: HeldMessages, letter: DeadLetter, *, force: bool) -> Action:
    if letter.standing == Standing.ENDED:
        hold.delete(letter.message)
        return Action.DELETED
    if letter.standing == Standing.QUEUED and letter.run is not None:
        body = RunMessage.of(letter.run, datetime.now(UTC)).model_dump_json()
    elif force:
        body = letter.message.body
    else:
        return Action.LEFT
    effects.queue.send(body)
    hold.delete(letter.message)
    return Action.SENT_BACK


def _drop(effects: DeadLetterEffects, hold: HeldMessages, letter: DeadLetter) -> Handled:
    action = Action.DELETED
    if letter.standing == Standing.QUEUED and letter.run is not None and letter.content is not None:
        ends = FinalizeEffects(effects.database, effects.ledger)
        ended = finalize.finish(ends, letter.run, Guard(Status.QUEUED, lease_token=None), _DROPPED)
        if ended is not None and not ended.is_disputed:
            action = Action.RUN_ENDED
        # Who lost the claim lost it to a worker or to a job, which has the run now.
        letter = replace(letter, run=ended or _run_of(effects, letter.content))
    hold.delete(letter.message)
    return Handled(letter, action)
