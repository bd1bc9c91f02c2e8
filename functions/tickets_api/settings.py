"""What the tickets API reads from its environment."""

from dpp.platform.config import PostgresSettings
from dpp.tickets.config import ReaperSettings, ReportsSettings


class TicketsApiSettings(PostgresSettings, ReportsSettings, ReaperSettings):
    """Rows, the reports bucket and the reaper's rules."""
