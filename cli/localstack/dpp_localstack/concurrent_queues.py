"""Lets LocalStack work on several messages of a queue at once, as AWS does.

LocalStack's poller hands a batch to the function and waits for its end before it looks at the queue again,
so with batches of one message a run would wait for all before it. Here a poller goes on while up to
`WORKERS` batches are under way; it receives only what it can hand on at once, since visibility runs from the
receive. For standard queues: a FIFO queue would lose its order.
"""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from localstack.runtime import hooks
from localstack.services.lambda_.event_source_mapping.pollers.sqs_poller import SqsPoller

LOG = logging.getLogger(__name__)
WORKERS = 4  # AWS starts with five; each is a process here


class _Gate:
    """The batches of one poller that are under way."""

    def __init__(self) -> None:
        self.free = threading.BoundedSemaphore(WORKERS)
        self.pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="sqs-batch")
        self.handed_on = False  # by the poll under way; one thread polls


@hooks.on_infra_start()  # type: ignore[untyped-decorator]  # LocalStack ships no types
def let_pollers_go_on() -> None:
    """Replace the two methods that wait; called once, by LocalStack at its start."""
    poll_events, handle_messages = SqsPoller.poll_events, SqsPoller.handle_messages

    def poll(self: SqsPoller) -> None:
        gate = _gate(self)
        gate.free.acquire()
        gate.handed_on = False
        try:
            poll_events(self)
        finally:
            if not gate.handed_on:
                gate.free.release()

    def hand_on(self: SqsPoller, messages: list[Any]) -> None:
        gate = _gate(self)
        gate.handed_on = True
        gate.pool.submit(work, self, gate, messages)

    def work(self: SqsPoller, gate: _Gate, messages: list[Any]) -> None:
        try:
            handle_messages(self, messages)
        except Exception as error:  # noqa: BLE001  # as in LocalStack's own loop: the messages come again
            LOG.warning("a batch of %s failed: %s", self.source_arn, error)
        finally:
            gate.free.release()

    SqsPoller.poll_events, SqsPoller.handle_messages = poll, hand_on


def _gate(poller: SqsPoller) -> _Gate:
    gate: _Gate | None = getattr(poller, "_dpp_gate", None)
    if gate is None:
        gate = poller._dpp_gate = _Gate()
    return gate
