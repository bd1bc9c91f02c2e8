"""The base of every pack's inputs.

The API's cold start imports this folder, so it imports nothing but pydantic: no pack, no HTTP, no parser.
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict


class PackInputs(BaseModel):
    """Inputs of a pack, validated strictly."""

    # Strict, so that "10" is not taken for 10: the payload hash (RUN-5) is over what the client wrote.
    # Built when first used: a cold start would else build the models of every pack for a request that has one.
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, hide_input_in_errors=True, allow_inf_nan=False, defer_build=True
    )


def check_distinct(names: Sequence[str], what: str) -> None:
    """Raise `ValueError` if a name occurs twice."""
    # The message names no value: ids are the client's words.
    if len(set(names)) != len(names):
        raise ValueError(f"{what} must be distinct")
