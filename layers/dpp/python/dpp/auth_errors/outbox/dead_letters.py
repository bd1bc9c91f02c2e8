"""The dead-letter queue of events (AUTH-7, AUTH-8): list, redrive and drop its messages.

A message here is a copy. The event's rows decide what happens, never the message:

- A DEAD event waits for an operator. Redrive revives it with all its retries, and deletes the copy.
- For an event that was handled or is in progress, redrive deletes the copy.
- A message without an event (a header is missing, or the outbox has no such row) is left; if it was an event, the
  outbox sends it again. Drop it after a check.

A crash between two steps is harmless: the message is deleted last, and a repeated redrive finds its event in progress.
Drop deletes the copy only: a DEAD event stays DEAD, and `redrive` by its outbox id still revives it.
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
"""The time that SQS waits for messages."""


class Action(StrEnum):
    """The action on a message."""

    REVIVED = "REVIVED"
    """Its event has all its retries again, and the message is deleted."""
    DELETED = "DELETED"
    LEFT = "LEFT"


@dataclass(frozen=True, slots=True)
class EventDeadLetter:
    """A message of the dead-letter queue, and its event in the outbox, or None."""

    message: ReceivedMessage
    entry: OutboxEntry | None

    @property
    def outbox_id(self) -> int | None:
        """The outbox id in the message's attributes; None if it is missing or invalid."""
        return outbox_id_of(self.message.attributes)

    @property
    def event_type(self) -> str | None:
        """The event type in the message's attributes."""
        return self.message.attributes.get(EVENT_TYPE_HEADER)

    @property
    def reason(self) -> str | None:
        """The reason that the consumer wrote; None if the message came here by another way."""
        return self.message.attributes.get(REASON_HEADER)

    @property
    def detail(self) -> str | None:
        """The details of the reason, as text."""
        return self.message.attributes.get(DETAIL_HEADER)

    @property
    def status(self) -> DeliveryStatus:
        """The delivery status of its event."""
        return delivery_status(self.entry)

    @property
    def ids(self) -> frozenset[str]:
        """The ids that select it: its event's outbox id and its message id."""
        named = self.message.attributes.get(OUTBOX_ID_HEADER)
        return frozenset(one for one in (self.message.message_id, named) if one)


@dataclass(frozen=True, slots=True)
class HandledDeadLetter:
    """A message and the action on it."""

    dead_letter: EventDeadLetter
    action: Action


@dataclass(frozen=True, slots=True)
class EventDeadLetterEffects:
    """Connections and clients that an operator's command uses."""

    database: Database
    dead_letters: Queue
    waker: Waker


def list_dead_letters(effects: EventDeadLetterEffects, choice: Choice) -> list[EventDeadLetter]:
    """List messages of the queue with their events. It counts as a receive of each; this queue has no receive limit."""
    with held(effects.dead_letters, WAIT_SECONDS) as hold:
        return list(_chosen(effects, hold, choice))


def send_again(effects: EventDeadLetterEffects, choice: Choice) -> Iterator[HandledDeadLetter]:
    """Revive DEAD events, delete copies that are no longer needed, and leave messages without an event.

    Yields each message when it is done. Raises DependencyUnavailable.
    """
    with held(effects.dead_letters, WAIT_SECONDS) as hold:
        for dead_letter in _chosen(effects, hold, choice):
            if dead_letter.entry is None:
                yield HandledDeadLetter(dead_letter, Action.LEFT)
                continue
            done = list(redrive([dead_letter.entry.outbox_id], effects.database, effects.waker))
            hold.delete(dead_letter.message)
            revived = any(one.revived for one in done)
            yield HandledDeadLetter(dead_letter, Action.REVIVED if revived else Action.DELETED)


def drop(effects: EventDeadLetterEffects, choice: Choice) -> Iterator[HandledDeadLetter]:
    """Delete messages without changing events. Yields each when it is done. Raises DependencyUnavailable."""
    with held(effects.dead_letters, WAIT_SECONDS) as hold:
        for dead_letter in _chosen(effects, hold, choice):
            hold.delete(dead_letter.message)
            yield HandledDeadLetter(dead_letter, Action.DELETED)


def _chosen(effects: EventDeadLetterEffects, hold: HeldMessages, choice: Choice) -> Iterator[EventDeadLetter]:
    for message in hold.take(choice.limit):
        outbox_id = outbox_id_of(message.attributes)
        entry = None if outbox_id is None else _entry(effects.database, outbox_id)
        dead_letter = EventDeadLetter(message, entry)
        if choice.takes(dead_letter):
            yield dead_letter


def _entry(database: Database, outbox_id: int) -> OutboxEntry | None:
    return next(iter(database.using(tables.entries, [outbox_id])), None)
