"""Requests to packs and their results (RUN-18, RUN-25, RUN-26).

A pack is a function from `PackRequest` to `PackResult`. It knows nothing of money reservations, queues or
tables; its caller decides what the answer is worth. All three models are frozen and survive a trip
through JSON, because a pack runs in another process (D6).
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

MAX_EXACT_MICROS = 2**53
"""Amounts stay within what a double, and so Lua and JavaScript, holds exactly (D2)."""


class PackType(StrEnum):
    """The packs the API names (RUN-3); which of them a deployment has is `registry.available_packs`."""

    OCR = "ocr"
    URL = "url"
    DECISION = "decision"
    COMPLIANCE = "compliance"
    EVAL = "eval"


class ObjectRefusedError(Exception):
    """The inputs name what is not the tenant's; the message says where in the inputs, and quotes nothing."""


class PackReason(StrEnum):
    """Reasons for a missing result. A run that ends with one of these costs the minimum fee (RUN-17)."""

    PACK_TIMEBOX_EXCEEDED = "PACK_TIMEBOX_EXCEEDED"
    PACK_FAILED = "PACK_FAILED"
    PACK_CRASHED = "PACK_CRASHED"
    PACK_OUTPUT_TOO_LARGE = "PACK_OUTPUT_TOO_LARGE"
    PACK_MEMORY_EXCEEDED = "PACK_MEMORY_EXCEEDED"
    PACK_DISK_EXCEEDED = "PACK_DISK_EXCEEDED"
    PACK_CANCELLED = "PACK_CANCELLED"
    PACK_INPUTS_INVALID = "PACK_INPUTS_INVALID"
    PACK_NOT_AVAILABLE = "PACK_NOT_AVAILABLE"
    PACK_PROVIDER_FAILED = "PACK_PROVIDER_FAILED"
    PACK_PROVIDER_TIMEOUT = "PACK_PROVIDER_TIMEOUT"
    PACK_COST_ABOVE_MAXIMUM = "PACK_COST_ABOVE_MAXIMUM"
    PACK_RELIABILITY_BELOW_MINIMUM = "PACK_RELIABILITY_BELOW_MINIMUM"


class _Message(BaseModel):
    # Validation errors of these models must not carry a client's words into a log (RUN-31).
    # Built when first used: the API functions import this module for the names of the packs alone.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False, defer_build=True
    )


class PackRequest(_Message):
    """One job for a pack. `inputs` are as the client sent them, and private (D8): kept out of `repr`."""

    run_id: str = Field(min_length=1, max_length=64)
    pack_type: PackType
    inputs: dict[str, JsonValue] = Field(repr=False)
    timebox_sec: int = Field(ge=1, le=90)
    max_cost_usd_micros: int = Field(ge=0, le=MAX_EXACT_MICROS)
    trace_id: str = Field(default="", max_length=128)
    object_urls: dict[str, str] = Field(
        default_factory=dict, repr=False, description="A signed URL for each object that the inputs name."
    )


class _Findings(_Message):
    # What a pack found: the parts of the envelope that are the pack's (RUN-18), and the tokens that finding it took.
    data: dict[str, JsonValue] = Field(default_factory=dict, repr=False)
    artifacts: dict[str, JsonValue] = Field(default_factory=dict, repr=False)
    discard_log: list[dict[str, JsonValue]] = Field(default_factory=list, repr=False)
    blocked_log: list[dict[str, JsonValue]] = Field(default_factory=list, repr=False)
    tokens_consumed: int = Field(default=0, ge=0, le=MAX_EXACT_MICROS)


class PackFailure(_Findings):
    """No result, or one that doesn't suffice. The findings are what the pack found nevertheless; often nothing.

    `detail` is a fixed phrase (a class name, a signal, a limit), never a client's input.
    """

    outcome: Literal["failure"] = "failure"
    reason_code: PackReason
    detail: str = Field(default="", max_length=200)
    reliability_score: float | None = Field(default=None, ge=0, le=1)


class PackSuccess(_Findings):
    """A pack's result, and its cost.

    `cost_usd_micros` follows `prices` and may exceed the run's maximum; charging at most what was
    reserved is the caller's rule (RUN-24). `reliability_score` is the pack's own measure of how far its answer
    can be relied on, 0 to 1 (docs/packs.md says what each measures); whether that is enough for the run
    (`min_reliability_score`, RUN-3) is the caller's rule too.
    """

    outcome: Literal["success"] = "success"
    data: dict[str, JsonValue] = Field(repr=False)
    reliability_score: float = Field(ge=0, le=1)
    cost_usd_micros: int = Field(ge=0, le=MAX_EXACT_MICROS, multiple_of=100)

    def failed(self, reason: PackReason, detail: str) -> PackFailure:
        """The same findings as a failure."""
        findings = {name: getattr(self, name) for name in (*_Findings.model_fields, "reliability_score")}
        return PackFailure(reason_code=reason, detail=detail, **findings)


PackResult = PackSuccess | PackFailure

PACK_RESULT: TypeAdapter[PackResult] = TypeAdapter(
    Annotated[PackResult, Field(discriminator="outcome")], config=ConfigDict(defer_build=True)
)
"""Reads a `PackResult` back from JSON."""
