"""What the function outside of the network reads from its environment."""

from dpp.lifecycle.config import CredentialSettings


class LifecycleOutsideSettings(CredentialSettings):
    """Addresses and credentials alone: there is no database out here."""
