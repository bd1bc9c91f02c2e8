"""What the authentication errors API is made of, built once a container."""

import os
from dataclasses import dataclass
from functools import cache

from auth_errors_api.settings import AuthErrorsApiSettings
from dpp.auth_errors.outbox.publish import Waker
from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database


@dataclass(frozen=True, slots=True)
class Wiring:
    """The database that knows keys and errors, and what wakes the publisher."""

    database: Database
    waker: Waker


@cache
def wiring() -> Wiring:
    """Read the environment and build; connections open at their first use."""
    settings = AuthErrorsApiSettings.load(os.environ)
    return Wiring(Database(settings.database), Waker(Queue(settings.wake_queue_url)))
