"""The dead-letter queue of events (AUTH-7, AUTH-8): what stands in it, sent again or dropped by an operator.

A message here is a copy. What becomes of the event is decided by its rows, never by the message:

- an event that is DEAD waits for nobody but an operator: redrive gives it all its tries again, and deletes the copy;
- one that was handled since, or is under way again, needs no copy: redrive deletes it;
- a message that names no event of ours (a header is missing, the outbox has no such row) was never an event, or is one
  that the outbox sends again by itself: it is left, and dropped once somebody has looked at it.

A crash between two steps harms nothing: the message is deleted last, and who finds it again finds its event under way.
A drop deletes the copy alone: an event that is DEAD stays so, and `redrive` by its outbox id still revives it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from dpp.auth_errors.model import OutboxEntry
from dpp.auth_errors.outbox import tables
from dpp.auth_errors.outbox.consume import DETAIL_HEADER, REASON_HEADER
from dpp.auth_errors.outbox.events import EVENT_TYPE_HEADER, OUTBOX_ID_HEADER
from dpp.auth_errors.outbox.message import outbox_id_of
from dpp.auth_errors.outbox.publish import Waker
from dpp.auth_errors.outbox.redrive import DeliveryStatus, delivery_status, redrive
from dpp.platform.aws.held_messages import Choice, HeldMessages, held
from dpp.platform.aws.queue import Queue, ReceivedMessage
from dpp.platform.db.postgres import Database

WAIT_SECONDS = 1
"""How long SQS looks for messages before it says that there are none."""


class Action(StrEnum):
    """What was done with a message."""

    REVIVED = "REVIVED"
    """Its event has all its tries again, and the message is deleted."""
    DELETED = "DELETED"
    LEFT = "LEFT"


@dataclass(frozen=True, slots=True)
class EventDeadLetter:
    """A message of the dead-letter queue, and its event as the outbox has it, None where it has none."""

    message: ReceivedMessage
    entry: OutboxEntry | None

    @property
    def outbox_id(self) -> int | None:
        """The event that the message says it is; None where that can't be read."""
        return outbox_id_of(self.message.attributes)

    @property
    def event_type(self) -> str | None:
        """As the message says it."""
        return self.message.attributes.get(EVENT_TYPE_HEADER)

    @property
    def reason(self) -> str | None:
        """Why it is dead; None where it came here by another way than the consumer's."""
        return self.message.attributes.get(REASON_HEADER)

    @property
    def detail(self) -> str | None:
        """The same in words."""
        return self.message.attributes.get(DETAIL_HEADER)

    @property
    def status(self) -> DeliveryStatus:
        """Where its event stands."""
        return delivery_status(self.entry)

    @property
    def ids(self) -> frozenset[str]:
        """By which it can be chosen: its event's outbox id and its own."""
        named = self.message.attributes.get(OUTBOX_ID_HEADER)
        return frozenset(one for one in (self.message.message_id, named) if one)


@dataclass(frozen=True, slots=True)
class HandledDeadLetter:
    """A message and what was done with it."""

    letter: EventDeadLetter
    action: Action


@dataclass(frozen=True, slots=True)
class EventDeadLetterEffects:
    """What an operator's command touches: the rows, the dead-letter queue, and what wakes the publisher."""

    database: Database
    dead_letters: Queue
    waker: Waker


def list_dead_letters(effects: EventDeadLetterEffects, choice: Choice) -> list[EventDeadLetter]:
    """What stands in the queue, and where its events stand. Counts as a receive of each, which decides nothing here."""
    with held(effects.dead_letters, WAIT_SECONDS) as hold:
        return list(_letters(effects, hold, choice))


def send_again(effects: EventDeadLetterEffects, choice: Choice) -> Iterator[HandledDeadLetter]:
    """Revive the events that are DEAD, delete the copies that nobody needs, leave what is no event of ours.

    Yields each as it is done. Raises DependencyUnavailable; what was yielded is done.
    """
    with held(effects.dead_letters, WAIT_SECONDS) as hold:
        for letter in _letters(effects, hold, choice):
            if letter.entry is None:
                yield HandledDeadLetter(letter, Action.LEFT)
                continue
            done = list(redrive([letter.entry.outbox_id], effects.database, effects.waker))
            hold.delete(letter.message)
            revived = any(one.revived for one in done)
            yield HandledDeadLetter(letter, Action.REVIVED if revived else Action.DELETED)


def drop(effects: EventDeadLetterEffects, choice: Choice) -> Iterator[HandledDeadLetter]:
    """Delete messages, and touch no event. Yields each as it is done. Raises DependencyUnavailable."""
    with held(effects.dead_letters, WAIT_SECONDS) as hold:
        for letter in _letters(effects, hold, choice):
            hold.delete(letter.message)
            yield HandledDeadLetter(letter, Action.DELETED)


def _letters(
    effects: EventDeadLetterEffects, hold: HeldMessages, choice: Choice
) -> Iterator[EventDeadLetter]:
    for message in hold.take(choice.limit):
        outbox_id = outbox_id_of(message.attributes)
        entry = None if outbox_id is None else _entry(effects.database, outbox_id)
        letter = EventDeadLetter(message, entry)
        if choice.takes(letter):
            yield letter


def _entry(database: Database, outbox_id: int) -> OutboxEntry | None:
    with database.connection() as connection:
        return next(iter(tables.entries(connection, [outbox_id])), None)
