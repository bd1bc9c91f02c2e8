"""What the migration reads from its environment."""

from dpp.platform.config import PostgresSettings


class MigrateSettings(PostgresSettings):
    """The database, and nothing else."""
