"""What the API answers (docs/openapi.json). Members that are not known here are ignored, and a status, reason or pack
that is not known stays as the text it is: a newer platform breaks no older client.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from dpp_client.money import Usd

POLL_INTERVAL_MS = 1_500
"""What the API recommends, for those who have a run's id and not its receipt."""

COMPLETED, FAILED, EXPIRED = "COMPLETED", "FAILED", "EXPIRED"
_OVER = frozenset({COMPLETED, FAILED, EXPIRED})


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class Reservation(_Answer):
    """What was reserved."""

    max_cost_usd: Usd
    timebox_sec: int
    min_reliability_score: float


class Poll(_Answer):
    """Where and how often to ask for the run."""

    href: str = ""
    recommended_interval_ms: int = POLL_INTERVAL_MS


class ReceiptMeta(_Answer):
    """What the run is found again by."""

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


class StoredResult(_Answer):
    """Where a completed run's envelope is. Whoever has the URL can read it: it is no part of `repr`."""

    presigned_url: str = Field(repr=False)
    sha256: str
    expires_at: datetime
    inline: dict[str, Any] | None = Field(default=None, repr=False)
    inline_omitted: str | None = None


class Problem(_Answer):
    """Why a run failed."""

    reason_code: str
    detail: str = ""


class RunMeta(_Answer):
    """When the run was made and last changed."""

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
        """Whether it changes no more. A status that is not known is not the end."""
        return self.status in _OVER


@dataclass(frozen=True, slots=True)
class Result:
    """A completed run's envelope, byte for byte as it is stored, its SHA-256 verified."""

    run_id: str
    sha256: str
    raw: bytes = field(repr=False)
    envelope: Mapping[str, Any] = field(repr=False)

    @property
    def data(self) -> Any:
        """What the pack answered (docs/packs.md)."""
        return self.envelope.get("data")
