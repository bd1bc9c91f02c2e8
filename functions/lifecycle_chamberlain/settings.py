"""What the chamberlain reads from his environment."""

from dpp.auth_errors.config import RetrySettings
from dpp.lifecycle.config import CleanerSettings, StateSettings, WakesEnvoy
from dpp.lifecycle.retention.periods import RetentionSettings
from dpp.platform.config import PostgresSettings, TimeZoneSettings


class LifecycleChamberlainSettings(
    PostgresSettings,
    StateSettings,
    RetentionSettings,
    RetrySettings,
    CleanerSettings,
    TimeZoneSettings,
    WakesEnvoy,
):
    """Rows, the bucket of what tasks leave, for how long what is kept, his bounds, the zone of three o'clock,
    and the envoy, where the deployment has one to tell of it."""
