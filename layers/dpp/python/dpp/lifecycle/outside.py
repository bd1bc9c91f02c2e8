"""The function outside of the network, asked by Lambda's own call (PLAT-2)."""

from dpp.lifecycle.errors import WireUnavailable
from dpp.lifecycle.ports import OutsideReply, OutsideRequest


class OutsideFunction:
    """The way to the internet through one Lambda function."""

    def __init__(self, function_name: str) -> None:
        self._function_name = function_name

    def ask(self, request: OutsideRequest) -> OutsideReply:
        """One request, tried once. Raises WireUnavailable where no whole reply came."""
        raise WireUnavailable(f"{self._function_name} can't be asked for {request.target} yet")
