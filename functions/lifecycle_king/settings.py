"""What the king reads from his environment."""

from dpp.lifecycle.config import WakesEnvoy, WakesGeneral
from dpp.platform.config import PostgresSettings


class LifecycleKingSettings(PostgresSettings, WakesGeneral, WakesEnvoy):
    """Rows, and whom he wakes."""
