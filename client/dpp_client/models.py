"""Responses of the API (docs/openapi.json). Unknown members are ignored, and an unknown status
is kept as text, so that a newer platform breaks no older client.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from dpp_client.money import Usd

POLL_INTERVAL_MS = 1_500
"""The API's recommended poll interval, for callers that have a run's id but not its receipt."""

COMPLETED, FAILED, EXPIRED = "COMPLETED", "FAILED", "EXPIRED"
_OVER = frozenset({COMPLETED, FAILED, EXPIRED})


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class Reservation(_Answer):
    """The reservation of a run."""

    max_cost_usd: Usd
    timebox_sec: int
    min_reliability_score: float


class Poll(_Answer):
    """Polling instructions."""

    href: str = ""
    recommended_interval_ms: int = POLL_INTERVAL_MS


class ReceiptMeta(_Answer):
    """Identifiers of the run."""

    trace_id: str = ""
    profile_version: str = ""


class Receipt(_Answer):
    """An accepted run. `replayed`: accepted before, by the same idempotency key."""

    run_id: str
    status: str
    reservation: Reservation
    poll: Poll = Poll()
    meta: ReceiptMeta = ReceiptMeta()
    idempotency_key: str = ""
    replayed: bool = False


class Cost(_Answer):
    """The run's money, and what is left of the budget."""

    reserved_usd: Usd
    used_usd: Usd
    minimum_fee_usd: Usd
    budget_remaining_usd: Usd


class StoredPart(_Answer):
    """A member of a large envelope that is stored by itself, such as `data.texts`."""

    name: str
    presigned_url: str = Field(repr=False)
    sha256: str


class StoredResult(_Answer):
    """The envelope of an ended run. The URL grants access to anyone, so it is not part of `repr`."""

    presigned_url: str = Field(repr=False)
    sha256: str
    expires_at: datetime
    inline: dict[str, Any] | None = Field(default=None, repr=False)
    inline_omitted: str | None = None
    parts: list[StoredPart] = []


class Problem(_Answer):
    """The problem of a failed run."""

    reason_code: str
    detail: str = ""


class RunMeta(_Answer):
    """Timestamps of the run."""

    created_at: datetime
    updated_at: datetime
    trace_id: str = ""
    profile_version: str = ""


class Run(_Answer):
    """A run as it stood when it was asked for."""

    run_id: str
    pack_type: str
    status: str
    money_state: str
    cost: Cost
    tokens_consumed: int = 0
    result: StoredResult | None = None
    problem: Problem | None = None
    meta: RunMeta

    @property
    def is_over(self) -> bool:
        """Return whether it changes no more. A status that is not known is not the end."""
        return self.status in _OVER


@dataclass(frozen=True, slots=True)
class Result:
    """An ended run's envelope, its SHA-256 verified. `raw` has the bytes as stored, `envelope` also has its parts."""

    run_id: str
    sha256: str
    raw: bytes = field(repr=False)
    envelope: Mapping[str, Any] = field(repr=False)

    @property
    def data(self) -> Any:
        """The pack's data (docs/packs.md)."""
        return self.envelope.get("data")
