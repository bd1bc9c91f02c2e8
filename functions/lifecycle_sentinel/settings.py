"""What the sentinel reads from his environment."""

from dpp.lifecycle.config import OutsideSettings, SourcesSettings, WakesKing
from dpp.lifecycle.retention.periods import RetentionSettings
from dpp.platform.config import PostgresSettings


class LifecycleSentinelSettings(
    PostgresSettings, SourcesSettings, OutsideSettings, WakesKing, RetentionSettings
):
    """Rows, what to ask of whom, the way outside, whom to wake, and from when on an event is too old."""
