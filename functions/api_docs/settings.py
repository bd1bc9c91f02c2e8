"""What the function of the API's description reads from its environment."""

from dpp.platform.config import Settings


class ApiDocsSettings(Settings):
    """Nothing: what it serves is in its layer."""
