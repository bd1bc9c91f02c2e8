"""What the consumer of authentication errors is made of, built once a container."""

import os
from dataclasses import dataclass
from functools import cache

from auth_errors_consume.settings import AuthErrorsConsumeSettings
from dpp.auth_errors.outbox.consume import ConsumeEffects
from dpp.auth_errors.outbox.publish import Waker
from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database


@dataclass(frozen=True, slots=True)
class Wiring:
    """What consuming touches, and the queue that it consumes."""

    effects: ConsumeEffects
    events: Queue


@cache
def wiring() -> Wiring:
    """Read the environment and build; connections open at their first use."""
    settings = AuthErrorsConsumeSettings.load(os.environ)
    effects = ConsumeEffects.of(
        Database(settings.database),
        Queue(settings.event_dead_letter_queue_url),
        Waker(Queue(settings.wake_queue_url)),
        settings.policy,
    )
    return Wiring(effects, Queue(settings.event_queue_url))
