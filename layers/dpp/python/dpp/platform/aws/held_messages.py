"""Messages that an operator's command takes from a queue to look at, and shows to others again when it is done."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from dpp.platform.aws.queue import MAX_BATCH, Queue, ReceivedMessage
from dpp.platform.errors import QueueUnavailable

_LOG = logging.getLogger("dpp.platform.aws.held_messages")
HOLD_SECONDS = 120
"""How long a message is kept from others while it is looked at; it is released as soon as the command is done."""


class Letter(Protocol):
    """A message as an operator may name it."""

    @property
    def ids(self) -> frozenset[str]:
        """By which it can be chosen: its own, and that of what it is about."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which messages are meant: all, or those with one of these ids. `limit`: how many are looked at, at most."""

    limit: int
    ids: frozenset[str] | None = None

    def takes(self, letter: Letter) -> bool:
        """Whether this one is meant."""
        return self.ids is None or bool(self.ids & letter.ids)


class HeldMessages:
    """Messages that this command keeps from others, until they are deleted or it is over."""

    def __init__(self, queue: Queue, wait_seconds: int) -> None:
        self._queue = queue
        self._wait_seconds = wait_seconds
        self._handles: dict[str, str] = {}

    def take(self, limit: int) -> Iterator[ReceivedMessage]:
        """Messages, each once, until there is no more or `limit` is reached."""
        seen: set[str] = set()
        while len(seen) < limit:
            batch = self._queue.receive(
                at_most=min(MAX_BATCH, limit - len(seen)),
                invisible_seconds=HOLD_SECONDS,
                wait_seconds=self._wait_seconds,
            )
            # One that comes again was held for too long; with nothing else there, the round is over.
            fresh = [message for message in batch if message.message_id not in seen]
            self._handles |= {message.message_id: message.receipt_handle for message in batch}
            seen |= {message.message_id for message in batch}
            if not fresh:
                return
            yield from fresh

    def delete(self, message: ReceivedMessage) -> None:
        """Delete one of them."""
        self._queue.delete(self._handles.get(message.message_id, message.receipt_handle))
        self._handles.pop(message.message_id, None)

    def release(self) -> None:
        """Show the rest to others again; without SQS they come back by themselves."""
        try:
            self._queue.release(list(self._handles.values()))
        except QueueUnavailable:
            _LOG.warning("messages stay hidden for up to %d s", HOLD_SECONDS)


@contextmanager
def held(queue: Queue, wait_seconds: int) -> Iterator[HeldMessages]:
    """Hold messages of this queue. `wait_seconds`: how long SQS looks for some before it says that there are none."""
    hold = HeldMessages(queue, wait_seconds)
    try:
        yield hold
    finally:
        hold.release()
