"""What the authentication errors API reads from its environment."""

from dpp.auth_errors.config import WakeQueueSettings
from dpp.platform.config import PostgresSettings


class AuthErrorsApiSettings(PostgresSettings, WakeQueueSettings):
    """Rows, and the queue that wakes the publisher."""
