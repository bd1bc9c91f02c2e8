"""Ask for a look at once (WS-5): what the API, the beat and the fleet's pages send.

A module of its own, so that the API's functions, who ask for looks and take none, load nothing of what looking needs.
"""

import logging
from collections.abc import Sequence
from uuid import UUID

from dpp.platform.aws.queue import MAX_BATCH, OutgoingMessage, Queue
from dpp.platform.errors import QueueUnavailable
from dpp.workspaces.control.message import Look, body_of

_LOG = logging.getLogger("dpp.workspaces.control.hints")


def hint(looks: Queue, workspace_ids: Sequence[UUID]) -> None:
    """Have these looked at without delay; where the queue doesn't take it, the beat does within half a minute."""
    try:
        send_all(looks, [body_of(Look(one)) for one in workspace_ids])
    except QueueUnavailable:
        _LOG.warning("hint not sent", extra={"workspaces": len(workspace_ids)})


def send_all(queue: Queue, bodies: Sequence[str]) -> None:
    """Send messages, ten a call. Raises QueueUnavailable for a call that fails, and for a message that is refused."""
    for start in range(0, len(bodies), MAX_BATCH):
        batch = [OutgoingMessage(body, {}) for body in bodies[start : start + MAX_BATCH]]
        refused = [code for code in queue.send_batch(batch) if code is not None]
        if refused:
            raise QueueUnavailable(refused[0])
