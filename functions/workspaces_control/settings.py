"""What the control of workspaces reads from its environment."""

from dpp.platform.config import PostgresSettings
from dpp.workspaces.config import LookQueueSettings, WorkQueueSettings
from dpp.workspaces.providers.settings import ProviderSettings


class WorkspacesControlSettings(PostgresSettings, LookQueueSettings, WorkQueueSettings, ProviderSettings):
    """Rows, the queues of looks and of long work, and the provider."""
