"""What retention reads from its environment."""

from dpp.platform.config import PostgresSettings


class RunRetentionSettings(PostgresSettings):
    """Rows; the objects go by the bucket's own lifecycle."""
