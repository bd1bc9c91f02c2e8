"""Send hints: request an immediate observation (WS-5). Sent by the API, the tick and the pages of the fleet.

A separate module, so that the API's function, which only sends hints, does not import what observing needs.
"""

import logging
from collections.abc import Sequence
from uuid import UUID

from dpp.platform.aws.queue import MAX_BATCH, OutgoingMessage, Queue
from dpp.platform.errors import QueueUnavailable
from dpp.workspaces.control.message import Observe, body_of

_LOG = logging.getLogger("dpp.workspaces.control.hints")


def send_hints(queue: Queue, workspace_ids: Sequence[UUID]) -> None:
    """Request an immediate observation of these. If SQS is unavailable, a tick does it within half a minute."""
    try:
        send_all(queue, [body_of(Observe(one)) for one in workspace_ids])
    except QueueUnavailable:
        _LOG.warning("hint not sent", extra={"workspaces": len(workspace_ids)})


def send_all(queue: Queue, bodies: Sequence[str]) -> None:
    """Send messages, ten per call. Raises QueueUnavailable if a call fails or SQS refuses a message."""
    for start in range(0, len(bodies), MAX_BATCH):
        batch = [OutgoingMessage(body, {}) for body in bodies[start : start + MAX_BATCH]]
        refused = [code for code in queue.send_batch(batch) if code is not None]
        if refused:
            raise QueueUnavailable(refused[0])
