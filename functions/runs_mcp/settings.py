"""What the function of the MCP endpoint reads from its environment."""

from dpp.platform.config import PostgresSettings, QueueSettings, RedisSettings


class RunsMcpSettings(PostgresSettings, RedisSettings, QueueSettings):
    """Rows, budgets and the run queue: a call is a submit."""
