"""What the function outside of the VPC reads from its environment."""

from dpp.platform.config import DecisionEngineSettings


class PackOutsideSettings(DecisionEngineSettings):
    """The decision engine alone: there is no database, no cache, no queue and no bucket out here."""
