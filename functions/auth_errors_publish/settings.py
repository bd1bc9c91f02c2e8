"""What the outbox's publisher reads from its environment."""

from dpp.auth_errors.config import EventQueueSettings, RetrySettings
from dpp.platform.config import PostgresSettings


class AuthErrorsPublishSettings(PostgresSettings, EventQueueSettings, RetrySettings):
    """Rows, the queue of events, and how often to try."""
