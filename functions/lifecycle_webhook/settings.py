"""What the webhooks read from their environment."""

from dpp.lifecycle.config import SourcesSettings, WakesGeneral, WakesKing, WebhookSecretSettings
from dpp.lifecycle.retention.periods import RetentionSettings
from dpp.platform.config import PostgresSettings


class LifecycleWebhookSettings(
    PostgresSettings, SourcesSettings, WebhookSecretSettings, RetentionSettings, WakesKing, WakesGeneral
):
    """Rows, whom deliveries must concern, what they are signed with, when they are too old, and whom to wake."""
