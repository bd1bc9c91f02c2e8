"""Messages that an operator's command receives for inspection and returns to the queue when it is done."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from dpp.platform.aws.queue import MAX_BATCH, Queue, ReceivedMessage
from dpp.platform.errors import QueueUnavailable

_LOG = logging.getLogger("dpp.platform.aws.held_messages")
HOLD_SECONDS = 120
"""A message stays invisible to others for this time during inspection; the command releases it when it is done."""


class DeadLetter(Protocol):
    """A message that an operator can choose by an id."""

    @property
    def ids(self) -> frozenset[str]:
        """Its ids: of the message, and of its subject (a run, an event)."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen messages: all, or those with one of these ids. `limit`: the maximum number to inspect."""

    limit: int
    ids: frozenset[str] | None = None

    def takes(self, dead_letter: DeadLetter) -> bool:
        """True if this message is chosen."""
        return self.ids is None or bool(self.ids & dead_letter.ids)


class HeldMessages:
    """Messages that stay invisible to others until they are deleted or the command is done."""

    def __init__(self, queue: Queue, wait_seconds: int) -> None:
        self._queue = queue
        self._wait_seconds = wait_seconds
        self._handles: dict[str, str] = {}

    def take(self, limit: int) -> Iterator[ReceivedMessage]:
        """Receive messages, each once, until there are no more or `limit` is reached."""
        seen: set[str] = set()
        while len(seen) < limit:
            batch = self._queue.receive(
                at_most=min(MAX_BATCH, limit - len(seen)),
                invisible_seconds=HOLD_SECONDS,
                wait_seconds=self._wait_seconds,
            )
            # A message that comes again was held for too long. A batch of only such messages ends the pass.
            fresh = [message for message in batch if message.message_id not in seen]
            self._handles |= {message.message_id: message.receipt_handle for message in batch}
            seen |= {message.message_id for message in batch}
            if not fresh:
                return
            yield from fresh

    def delete(self, message: ReceivedMessage) -> None:
        """Delete a held message."""
        self._queue.delete(self._handles.get(message.message_id, message.receipt_handle))
        self._handles.pop(message.message_id, None)

    def release(self) -> None:
        """Make the rest visible again. If SQS is unavailable, the visibility timeout does it."""
        try:
            self._queue.release(list(self._handles.values()))
        except QueueUnavailable:
            _LOG.warning("messages stay hidden for up to %d s", HOLD_SECONDS)


@contextmanager
def held(queue: Queue, wait_seconds: int) -> Iterator[HeldMessages]:
    """Hold messages of this queue. `wait_seconds`: how long SQS waits for messages before it returns none."""
    hold = HeldMessages(queue, wait_seconds)
    try:
        yield hold
    finally:
        hold.release()
