"""What the outbox's publisher reads from its environment."""

from dpp.auth_errors.config import EventQueueSettings, LedgerSettings
from dpp.platform.config import PostgresSettings


class AuthErrorsPublishSettings(PostgresSettings, EventQueueSettings, LedgerSettings):
    """Rows, the queue of events, how often to try and how long to remember."""
