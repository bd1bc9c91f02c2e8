"""What the envoy reads from his environment."""

from dpp.lifecycle.config import ChannelSettings, OutsideSettings
from dpp.platform.config import PostgresSettings


class LifecycleEnvoySettings(PostgresSettings, OutsideSettings, ChannelSettings):
    """Rows, the way outside, and the channel."""
