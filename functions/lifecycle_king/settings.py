"""What the king reads from his environment."""

from dpp.lifecycle.config import WakeSettings
from dpp.platform.config import PostgresSettings


class LifecycleKingSettings(PostgresSettings, WakeSettings):
    """Rows, and whom he wakes."""
