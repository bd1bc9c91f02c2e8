"""What the outbox's publisher is made of, built once a container."""

import os
from functools import cache

from auth_errors_publish.settings import AuthErrorsPublishSettings
from dpp.auth_errors.outbox.publish import PublishEffects
from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database


@cache
def wiring() -> PublishEffects:
    """Read the environment and build; connections open at their first use."""
    settings = AuthErrorsPublishSettings.load(os.environ)
    return PublishEffects(Database(settings.database), Queue(settings.event_queue_url), settings.policy)
