"""Bodies of requests and responses (RUN-2, RUN-3, RUN-10); the OpenAPI document is generated from these models."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from dpp.money.micros import positive_usd
from dpp.packs.contract import PackType
from dpp.platform.ids import TRACE_ID_PATTERN
from dpp.runs.machine import MoneyState, Status

PROFILE_VERSION: Literal["PROFILE_DPP_0_4_2_2"] = "PROFILE_DPP_0_4_2_2"
POLL_INTERVAL_MS = 1_500
INLINE_LIMIT_BYTES = 262_144
PRESIGNED_URL_TTL_SECONDS = 600


UsdAmount = Annotated[
    str,
    Field(
        max_length=15,
        description="US dollars as a decimal string with at most 4 places.",
        examples=["0.2500"],
        # The parser's rule, for clients generated from the schema, except for the last 7 of 9 007 million US dollars.
        json_schema_extra={"pattern": r"^(?!0(\.0+)?$)(0|[1-9][0-9]{0,8}|[1-8][0-9]{9})(\.[0-9]{1,4})?$"},
    ),
    AfterValidator(positive_usd),
]
Usd = Annotated[str, Field(pattern=r"^-?[0-9]+\.[0-9]{4}$", description="US dollars with 4 places.")]
TraceId = Annotated[str, Field(pattern=f"^{TRACE_ID_PATTERN}$")]


# Models are built at their first use (defer_build): otherwise a cold start would build those of every response.
class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, defer_build=True)


class ReservationRequest(_Model):
    """The maximum cost and duration of the run."""

    max_cost_usd: UsdAmount
    timebox_sec: int = Field(default=90, ge=1, le=90, description="Seconds the pack may run.")
    min_reliability_score: float = Field(
        default=0.8,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="A result below it is FAILED at the minimum fee; docs/packs.md says what each pack measures.",
    )


class RunOptions(_Model):
    """Options of the result."""

    # Not a Literal: `true` equals 1 in Python, and would be accepted.
    inline: int = Field(
        default=0, ge=0, le=1, description="1: the response also contains the result, if it has at most 256 KB."
    )


class RunMetaRequest(_Model):
    """Metadata that the responses repeat."""

    trace_id: TraceId | None = None
    profile_version: Literal["PROFILE_DPP_0_4_2_2"] = PROFILE_VERSION


class RunCreateRequest(_Model):
    """The body of POST /v1/runs (RUN-3). `inputs` is validated against the schema of its pack."""

    pack_type: PackType = Field(strict=False)
    inputs: dict[str, Any] = Field(description="By pack_type; see docs/packs.md.")
    reservation: ReservationRequest
    options: RunOptions = RunOptions()
    meta: RunMetaRequest = RunMetaRequest()


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, defer_build=True)


class Reservation(_Answer):
    """The reservation of the run."""

    max_cost_usd: Usd
    timebox_sec: int
    min_reliability_score: float


class Poll(_Answer):
    """The URL to poll for the run, and the recommended interval."""

    href: str
    recommended_interval_ms: int = POLL_INTERVAL_MS


class ReceiptMeta(_Answer):
    """Metadata of the submit."""

    trace_id: str
    profile_version: str


class RunReceipt(_Answer):
    """The response to an accepted submit, and the same to every repetition of it (RUN-4)."""

    run_id: str
    status: Literal["QUEUED"] = "QUEUED"
    reservation: Reservation
    poll: Poll
    meta: ReceiptMeta


class Cost(_Answer):
    """The run's costs, as in the X-DPP-* headers (RUN-13)."""

    reserved_usd: Usd
    used_usd: Usd
    minimum_fee_usd: Usd
    budget_remaining_usd: Usd


class RunResultPart(_Answer):
    """A member of a large envelope that is an object of its own: UTF-8 JSON."""

    name: str = Field(description="Its place in the envelope, such as `data.texts`.")
    presigned_url: str
    sha256: str
    size_bytes: int
    expires_at: datetime


class RunResult(_Answer):
    """The envelope of an ended run: its URL and its hash. A failed run's has what the pack found nevertheless."""

    presigned_url: str
    sha256: str
    expires_at: datetime
    inline: dict[str, Any] | None = Field(
        default=None, description="The envelope itself, if requested and small enough."
    )
    inline_omitted: Literal["TOO_LARGE"] | None = None
    parts: list[RunResultPart] | None = Field(
        default=None, description='The parts of a large envelope, in which `{"part": …}` stands for each.'
    )


class RunProblem(_Answer):
    """The reason that the run failed."""

    reason_code: str
    detail: str


class RunMeta(_Answer):
    """Times of creation and last change, and the trace id."""

    created_at: datetime
    updated_at: datetime
    trace_id: str
    profile_version: str


class RunView(_Answer):
    """The response to GET /v1/runs/{run_id} (RUN-10)."""

    run_id: str
    pack_type: PackType
    status: Status
    money_state: MoneyState
    cost: Cost
    tokens_consumed: int
    result: RunResult | None = None
    problem: RunProblem | None = None
    meta: RunMeta
