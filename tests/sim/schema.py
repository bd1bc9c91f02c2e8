"""The table `runs` and its CHECK constraints (migrations/sql/0001_metered_runs.up.sql) as Python."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from psycopg import errors

type Row = dict[str, Any]

COLUMNS = (
    "run_id",
    "tenant_id",
    "pack_type",
    "profile_version",
    "status",
    "money_state",
    "version",
    "idempotency_key",
    "idempotency_released_at",
    "payload_hash",
    "reservation_max_cost_usd_micros",
    "minimum_fee_usd_micros",
    "actual_cost_usd_micros",
    "tokens_consumed",
    "timebox_sec",
    "min_reliability_score",
    "inline_result",
    "result_bucket",
    "result_key",
    "result_sha256",
    "retention_until",
    "lease_token",
    "lease_expires_at",
    "finalize_stage",
    "finalize_token",
    "finalize_claimed_at",
    "finalize_outcome",
    "finalize_money_state",
    "finalize_charge_usd_micros",
    "last_error_reason_code",
    "last_error_detail",
    "trace_id",
    "enqueued_at",
    "created_at",
    "updated_at",
)
"""The columns of `runs`, in the order of the table."""

_MAX_AMOUNT = 2**53 - 1
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
_LEASE = ("lease_token", "lease_expires_at")
_RESULT = ("result_bucket", "result_key", "result_sha256")
_INTENT = (
    "finalize_stage",
    "finalize_token",
    "finalize_claimed_at",
    "finalize_outcome",
    "finalize_money_state",
    "finalize_charge_usd_micros",
)
_ENDS = ("COMPLETED", "FAILED", "EXPIRED")


class ViolatedCheck(errors.CheckViolation):
    """A CHECK constraint of the schema, by its name."""

    def __init__(self, constraint: str) -> None:
        super().__init__(f"new row violates check constraint {constraint}")
        self.constraint = constraint

    diag = property(lambda self: SimpleNamespace(constraint_name=self.constraint))


class ViolatedUnique(errors.UniqueViolation):
    """A unique index, by its name."""

    def __init__(self, constraint: str) -> None:
        super().__init__(f"duplicate key value violates unique constraint {constraint}")
        self.constraint = constraint

    diag = property(lambda self: SimpleNamespace(constraint_name=self.constraint))


def check(row: Row) -> None:
    """Raise ViolatedCheck for the first constraint, by name, that the row breaks (as Postgres does)."""
    for name, holds in _CHECKS.items():
        if not holds(row):
            raise ViolatedCheck(name)


def _whole(row: Row, columns: tuple[str, ...]) -> bool:
    return sum(row[column] is not None for column in columns) in (0, len(columns))


def _intent_is_payable(row: Row) -> bool:
    if row["finalize_stage"] is None:
        return True
    charge: int | None = row["finalize_charge_usd_micros"]
    outcome, money = row["finalize_outcome"], row["finalize_money_state"]
    return (
        charge is not None
        and 0 <= charge <= row["reservation_max_cost_usd_micros"]
        and (outcome != "COMPLETED" or money == "SETTLED")
        and (money != "REFUNDED" or charge == 0)
    )


def _status_and_money_agree(row: Row) -> bool:
    money, reason = row["money_state"], row["last_error_reason_code"]
    match row["status"]:
        case "QUEUED":
            return money in ("RESERVED", "DISPUTED") and row["lease_token"] is None
        case "PROCESSING":
            return money in ("RESERVED", "DISPUTED") and row["lease_token"] is not None
        case "COMPLETED":
            return money == "SETTLED" and row["result_key"] is not None and reason is None
        case "FAILED":
            return money in ("SETTLED", "REFUNDED") and reason is not None
        case _:
            released = row["idempotency_released_at"] is not None
            return money in ("SETTLED", "REFUNDED") and row["result_key"] is None and released


def _commit_follows_intent(row: Row) -> bool:
    if row["status"] not in _ENDS:
        return row["finalize_stage"] != "COMMITTED" and row["actual_cost_usd_micros"] is None
    return (
        row["finalize_stage"] == "COMMITTED"
        and row["status"] in ("EXPIRED", row["finalize_outcome"])
        and row["money_state"] == row["finalize_money_state"]
        and row["actual_cost_usd_micros"] == row["finalize_charge_usd_micros"]
    )


def _intent_fits_status(row: Row) -> bool:
    if row["finalize_stage"] is None:
        return True
    if row["status"] == "QUEUED":
        return (row["finalize_outcome"], row["finalize_money_state"]) == ("FAILED", "REFUNDED")
    return bool(row["status"] != "PROCESSING" or row["finalize_money_state"] == "SETTLED")


def _release_is_final(row: Row) -> bool:
    if row["idempotency_released_at"] is None or row["status"] == "EXPIRED":
        return True
    return (row["status"], row["money_state"]) == ("FAILED", "REFUNDED")


_CHECKS: dict[str, Callable[[Row], bool]] = {
    "runs_commit_follows_intent": _commit_follows_intent,
    "runs_dispute_has_an_intent": lambda row: (
        row["money_state"] != "DISPUTED" or row["finalize_stage"] == "CLAIMED"
    ),
    "runs_idempotency_key_check": lambda row: 8 <= len(row["idempotency_key"]) <= 64,
    "runs_intent_fits_status": _intent_fits_status,
    "runs_intent_is_payable": _intent_is_payable,
    "runs_intent_is_whole": lambda row: _whole(row, _INTENT),
    "runs_last_error_detail_check": lambda row: len(row["last_error_detail"] or "") <= 1000,
    "runs_last_error_reason_code_check": lambda row: len(row["last_error_reason_code"] or "") <= 64,
    "runs_lease_is_whole": lambda row: _whole(row, _LEASE),
    "runs_minimum_fee_usd_micros_check": lambda row: 5_000 <= row["minimum_fee_usd_micros"] <= 100_000,
    "runs_payload_hash_check": lambda row: _HASH.fullmatch(row["payload_hash"]) is not None,
    "runs_release_is_final": _release_is_final,
    "runs_reservation_max_cost_usd_micros_check": lambda row: (
        1 <= row["reservation_max_cost_usd_micros"] <= _MAX_AMOUNT
    ),
    "runs_result_is_whole": lambda row: _whole(row, _RESULT),
    "runs_result_sha256_check": lambda row: (
        row["result_sha256"] is None or _HASH.fullmatch(row["result_sha256"]) is not None
    ),
    "runs_status_and_money_agree": _status_and_money_agree,
    "runs_timebox_sec_check": lambda row: 1 <= row["timebox_sec"] <= 90,
    "runs_tokens_consumed_check": lambda row: row["tokens_consumed"] >= 0,
}
"""The CHECK constraints of `runs` that a use case could break, in the order in which Postgres tries them: by name."""
