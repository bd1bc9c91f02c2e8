"""What the sweeper reads from its environment."""

from dpp.platform.config import PostgresSettings, RedisSettings


class RunSweeperSettings(PostgresSettings, RedisSettings):
    """Rows and budgets."""
