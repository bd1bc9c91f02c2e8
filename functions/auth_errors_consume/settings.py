"""What the consumer of authentication errors reads from its environment."""

from dpp.auth_errors.config import (
    EventDeadLetterSettings,
    EventQueueSettings,
    RetrySettings,
    WakeQueueSettings,
)
from dpp.platform.config import PostgresSettings


class AuthErrorsConsumeSettings(
    PostgresSettings, EventQueueSettings, EventDeadLetterSettings, WakeQueueSettings, RetrySettings
):
    """Rows, the queue of events (to say when a message comes again), its dead letters, the publisher's, the retries."""
