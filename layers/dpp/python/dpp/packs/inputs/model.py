"""The base of every pack's inputs.

The API's cold start imports this folder, so it imports nothing but pydantic: no pack, no HTTP, no parser.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict


class PackInputs(BaseModel, ABC):
    """Inputs of a pack, or a part of them, validated strictly."""

    # Strict, so that "10" is not taken for 10: the payload hash (RUN-5) is over what the client wrote.
    # Built when first used: a cold start would else build the models of every pack for a request that has one.
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, hide_input_in_errors=True, allow_inf_nan=False, defer_build=True
    )


class PricedInputs(PackInputs):
    """All inputs of a run."""

    @abstractmethod
    def least_cost_usd_micros(self) -> int:
        """The least that a successful run of these inputs costs (docs/packs.md#prices). A run must reserve it."""


def check_distinct(names: Sequence[str], what: str) -> None:
    """Raise `ValueError` if a name occurs twice."""
    # The message names no value: ids are the client's words.
    if len(set(names)) != len(names):
        raise ValueError(f"{what} must be distinct")
