"""A run as its row holds it, and the values that travel with it. Pure: no clock, no I/O."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

from dpp.money.micros import format_usd
from dpp.packs.contract import PackType
from dpp.runs.machine import FinalizeStage, MoneyState, Status


@dataclass(frozen=True, slots=True)
class ResultPointer:
    """Where a run's envelope stands in S3 and what it hashes to (RUN-18)."""

    bucket: str
    key: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Intent:
    """What a finalize is about to do, recorded by its claim (D3). `charge_usd_micros` is at most the reservation."""

    outcome: Status
    money_state: MoneyState
    charge_usd_micros: int
    tokens_consumed: int = 0
    result: ResultPointer | None = None
    reason_code: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One row of `runs`. Amounts in USD micros."""

    run_id: UUID
    tenant_id: str
    pack_type: PackType
    profile_version: str
    status: Status
    money_state: MoneyState
    version: int
    payload_hash: str
    idempotency_released_at: datetime | None
    reservation_max_cost_usd_micros: int
    minimum_fee_usd_micros: int
    actual_cost_usd_micros: int | None
    tokens_consumed: int
    timebox_sec: int
    min_reliability_score: Decimal
    inline_result: bool
    result_bucket: str | None
    result_key: str | None
    result_sha256: str | None
    retention_until: datetime
    lease_token: str | None
    finalize_stage: FinalizeStage | None
    finalize_token: str | None
    finalize_outcome: Status | None
    finalize_money_state: MoneyState | None
    finalize_charge_usd_micros: int | None
    last_error_reason_code: str | None
    last_error_detail: str | None
    trace_id: str
    created_at: datetime
    updated_at: datetime

    @property
    def id(self) -> str:
        """The run id as text, as keys and messages carry it."""
        return str(self.run_id)

    @property
    def result(self) -> ResultPointer | None:
        """The result pointer, if the run has one."""
        if self.result_bucket is None or self.result_key is None or self.result_sha256 is None:
            return None
        return ResultPointer(self.result_bucket, self.result_key, self.result_sha256)

    @property
    def intent(self) -> Intent:
        """The recorded intent. Raises ValueError for a run that nobody claimed."""
        outcome, money_state, charge = (
            self.finalize_outcome,
            self.finalize_money_state,
            self.finalize_charge_usd_micros,
        )
        if outcome is None or money_state is None or charge is None:
            raise ValueError("the run has no recorded intent")
        return Intent(
            outcome=Status(outcome),
            money_state=MoneyState(money_state),
            charge_usd_micros=charge,
            tokens_consumed=self.tokens_consumed,
            result=self.result,
            reason_code=self.last_error_reason_code,
            detail=self.last_error_detail,
        )

    @property
    def is_disputed(self) -> bool:
        """Whether an operator has to decide about its money (D3)."""
        return self.money_state == MoneyState.DISPUTED


@dataclass(frozen=True, slots=True)
class Costs:
    """The four figures of every answer (RUN-13), in micros; the body and the headers are both made from it."""

    reserved_usd_micros: int = 0
    used_usd_micros: int = 0
    budget_remaining_usd_micros: int = 0
    tokens_consumed: int = 0

    @classmethod
    def of(cls, run: Run, balance_usd_micros: int) -> "Costs":
        """The figures of a run and its tenant's balance."""
        return cls(
            run.reservation_max_cost_usd_micros,
            run.actual_cost_usd_micros or 0,
            balance_usd_micros,
            run.tokens_consumed,
        )

    def headers(self) -> dict[str, str]:
        """The `X-DPP-*` headers."""
        return {
            "X-DPP-Cost-Reserved": format_usd(self.reserved_usd_micros),
            "X-DPP-Cost-Used": format_usd(self.used_usd_micros),
            "X-DPP-Budget-Remaining": format_usd(self.budget_remaining_usd_micros),
            "X-DPP-Tokens-Consumed": str(self.tokens_consumed),
        }


def envelope_key(run: Run) -> str:
    """Where a run's envelope stands (001 §13.1): `dpp/{tenant}/{yyyy}/{mm}/{dd}/{run}/pack_envelope.json`, in UTC."""
    return f"dpp/{run.tenant_id}/{run.created_at.astimezone(UTC):%Y/%m/%d}/{run.run_id}/pack_envelope.json"
