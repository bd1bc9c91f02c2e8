"""What the workspaces API reads from its environment."""

from dpp.platform.config import PostgresSettings
from dpp.workspaces.config import LimitSettings, LookQueueSettings


class WorkspacesApiSettings(PostgresSettings, LookQueueSettings, LimitSettings):
    """Rows, the queue of looks, and how many workspaces a tenant may have."""
