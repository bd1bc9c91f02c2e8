"""A validated submit, the run that it becomes, and the values that travel with them. Pure: no clock, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Self
from uuid import UUID

from dpp.money.micros import format_usd
from dpp.packs.contract import PackType
from dpp.runs.machine import FinalizeStage, MoneyState, Status
from dpp.runs.payload_hash import payload_hash

ENVELOPE_NAME = "pack_envelope.json"
BASELINE_FIELD = "baseline_run_id"
"""The input of an eval run that names an earlier run (RUN-28)."""
NO_BASELINE = "no ended eval run of this tenant has a result by this id"


@dataclass(frozen=True, slots=True)
class SubmitRequest:
    """A tenant's request for a run, validated. The same request may be submitted again (RUN-4)."""

    tenant_id: str
    rate_limit_per_minute: int
    idempotency_key: str
    pack_type: PackType
    inputs: Mapping[str, object]
    reserved_usd_micros: int
    timebox_sec: int
    min_reliability_score: float
    inline_result: bool
    profile_version: str
    trace_id: str
    payload_hash: str = field(init=False)
    """Equal for two requests that buy the same (RUN-5)."""

    def __post_init__(self) -> None:
        hashed = payload_hash(self.pack_type, self.inputs, self.timebox_sec, self.reserved_usd_micros)
        object.__setattr__(self, "payload_hash", hashed)


@dataclass(frozen=True, slots=True)
class ResultPart:
    """A part of a large envelope that is an object of its own, of UTF-8 JSON (RUN-18)."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ResultPointer:
    """The place of a run's envelope in S3, its hash, and the parts that are objects beside it (RUN-18)."""

    bucket: str
    key: str
    sha256: str
    parts: tuple[ResultPart, ...] = ()

    def part_key(self, part: ResultPart) -> str:
        """The key of a part's object."""
        return f"{self.key.removesuffix(ENVELOPE_NAME)}artifacts/{part.name}.json"


@dataclass(frozen=True, slots=True)
class Intent:
    """The planned end of a run, recorded by its claim (D3). `charge_usd_micros` is at most the reservation."""

    outcome: Status
    money_state: MoneyState
    charge_usd_micros: int
    tokens_consumed: int = 0
    result: ResultPointer | None = None
    reason_code: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A run, as stored in the `runs` table. Amounts in USD micros."""

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
    result_parts: tuple[ResultPart, ...]
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

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """The run of a row that has at least these columns."""
        values = {column.name: row[column.name] for column in fields(cls)}
        for name, kind in _ENUMS.items():
            if values[name] is not None:
                values[name] = kind(values[name])
        values["result_parts"] = tuple(ResultPart(**part) for part in values["result_parts"])
        return cls(**values)

    @property
    def id(self) -> str:
        """The run id as text, for keys and messages."""
        return str(self.run_id)

    @property
    def result(self) -> ResultPointer | None:
        """The result pointer, if the run has one."""
        if self.result_bucket is None or self.result_key is None or self.result_sha256 is None:
            return None
        return ResultPointer(self.result_bucket, self.result_key, self.result_sha256, self.result_parts)

    @property
    def intent(self) -> Intent:
        """The recorded intent. Raises ValueError for a run that was never claimed."""
        outcome, money_state, charge = (
            self.finalize_outcome,
            self.finalize_money_state,
            self.finalize_charge_usd_micros,
        )
        if outcome is None or money_state is None or charge is None:
            raise ValueError("the run has no recorded intent")
        return Intent(
            outcome=outcome,
            money_state=money_state,
            charge_usd_micros=charge,
            tokens_consumed=self.tokens_consumed,
            result=self.result,
            reason_code=self.last_error_reason_code,
            detail=self.last_error_detail,
        )

    @property
    def is_disputed(self) -> bool:
        """True if an operator has to decide about its money (D3)."""
        return self.money_state == MoneyState.DISPUTED

    def log_fields(self, version_before: int | None) -> dict[str, object]:
        """The fields that RUN-31 locks, after a change of the run that had this version before it."""
        return {
            "run_id": self.id,
            "tenant_id": self.tenant_id,
            "trace_id": self.trace_id,
            "status": self.status,
            "version_before": version_before,
            "version_after": self.version,
            "finalize_stage": self.finalize_stage,
            "money_state": self.money_state,
            "reserved_usd_micros": self.reservation_max_cost_usd_micros,
        }


_ENUMS: Mapping[str, type[PackType | Status | MoneyState | FinalizeStage]] = {
    "pack_type": PackType,
    "status": Status,
    "money_state": MoneyState,
    "finalize_stage": FinalizeStage,
    "finalize_outcome": Status,
    "finalize_money_state": MoneyState,
}


@dataclass(frozen=True, slots=True)
class Costs:
    """The four cost figures of every response (RUN-13), in micros; its body and its headers both use them."""

    reserved_usd_micros: int = 0
    used_usd_micros: int = 0
    budget_remaining_usd_micros: int = 0
    tokens_consumed: int = 0

    @classmethod
    def of(cls, run: Run, balance_usd_micros: int) -> Self:
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
    """The key of a run's envelope (001 §13.1): `dpp/{tenant}/{yyyy}/{mm}/{dd}/{run}/pack_envelope.json`, in UTC."""
    return f"dpp/{run.tenant_id}/{run.created_at.astimezone(UTC):%Y/%m/%d}/{run.run_id}/{ENVELOPE_NAME}"
