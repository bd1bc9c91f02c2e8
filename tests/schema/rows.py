"""Rows of `runs` that tests insert directly, to test what the schema accepts."""

from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql

from dpp.platform.db.postgres import Connection
from dpp.runs.machine import FinalizeStage, MoneyState, Status

TENANT_ID = "t_schema"
HASH = "ab" * 32


def add_tenant(connection: Connection, tenant_id: str = TENANT_ID) -> None:
    connection.execute("INSERT INTO tenants (tenant_id, display_name) VALUES (%s, 'A tenant')", (tenant_id,))


def queued(**changes: Any) -> dict[str, Any]:
    row = {
        "run_id": uuid4(),
        "tenant_id": TENANT_ID,
        "pack_type": "decision",
        "profile_version": "v0.4.2.2",
        "status": Status.QUEUED,
        "money_state": MoneyState.RESERVED,
        "idempotency_key": f"key-{uuid4()}",
        "payload_hash": HASH,
        "reservation_max_cost_usd_micros": 250_000,
        "minimum_fee_usd_micros": 5_000,
        "timebox_sec": 90,
        "min_reliability_score": "0.8",
        "retention_until": "2030-01-01T00:00:00Z",
        "trace_id": "t_schema",
    }
    return row | changes


def processing(**changes: Any) -> dict[str, Any]:
    """A leased run."""
    return queued(status=Status.PROCESSING, **LEASE) | changes


def claimed(**changes: Any) -> dict[str, Any]:
    """A run that its worker has claimed."""
    return processing(**intent("COMPLETED", "SETTLED", 50_000), **RESULT) | changes


def completed(**changes: Any) -> dict[str, Any]:
    ended = {
        "status": Status.COMPLETED,
        "money_state": MoneyState.SETTLED,
        "finalize_stage": FinalizeStage.COMMITTED,
        "actual_cost_usd_micros": 50_000,
    }
    return claimed(**ended) | changes


def refunded(**changes: Any) -> dict[str, Any]:
    """A run that was refunded without a start."""
    ended = {
        "status": Status.FAILED,
        "money_state": MoneyState.REFUNDED,
        "actual_cost_usd_micros": 0,
        "last_error_reason_code": "RESERVATION_EXPIRED",
    }
    return queued(**intent("FAILED", "REFUNDED", 0) | {"finalize_stage": "COMMITTED"}, **ended) | changes


def tombstone(**changes: Any) -> dict[str, Any]:
    """A tombstone (D7) of a completed run."""
    row = completed(status=Status.EXPIRED, **NO_RESULT, idempotency_released_at="2026-01-01T00:00:00Z")
    return row | changes


def refunded_tombstone(**changes: Any) -> dict[str, Any]:
    return refunded(status=Status.EXPIRED, idempotency_released_at="2026-01-01T00:00:00Z") | changes


LEASE = {"lease_token": "lease", "lease_expires_at": "2026-01-01T00:00:00Z"}
RESULT = {"result_bucket": "bucket", "result_key": "key", "result_sha256": HASH}
NO_RESULT = dict.fromkeys(RESULT)


def intent(outcome: str, money_state: str, charge: int) -> dict[str, Any]:
    """The columns that a claim writes."""
    return {
        "finalize_stage": "CLAIMED",
        "finalize_token": "token",
        "finalize_claimed_at": "2026-01-01T00:00:00Z",
        "finalize_outcome": outcome,
        "finalize_money_state": money_state,
        "finalize_charge_usd_micros": charge,
    }


def insert(connection: Connection, row: dict[str, Any]) -> None:
    statement = sql.SQL("INSERT INTO runs ({}) VALUES ({})").format(
        sql.SQL(", ").join(map(sql.Identifier, row)), sql.SQL(", ").join(map(sql.Placeholder, row))
    )
    connection.execute(statement, row)


def refusal(connection: Connection, row: dict[str, Any]) -> str | None:
    """The constraint that rejects the row, None if it is accepted. Nothing is kept."""
    with connection.transaction(force_rollback=True):
        try:
            insert(connection, row)
        except psycopg.IntegrityError as error:
            return error.diag.constraint_name or error.diag.column_name
    return None
