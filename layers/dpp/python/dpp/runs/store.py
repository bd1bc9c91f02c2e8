"""The SQL of runs, and nothing else. A compare-and-swap that matches no row returns None; it raises nothing.

`now` sets the clock in tests; in production it is None, and Postgres's clock decides (D1).
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from psycopg import errors
from psycopg.types.json import Jsonb

from dpp.money.fees import minimum_fee
from dpp.platform.db.postgres import Connection, named_rows
from dpp.platform.db.sql import Queries
from dpp.runs.errors import DuplicateKey, SwitchedOff
from dpp.runs.machine import FinalizeStage, Status
from dpp.runs.model import Intent, Run, SubmitRequest

QUERIES = Queries("dpp.runs", "queries.sql")
LEASE_TTL_SECONDS = 120
_PAGE_SIZE = 100
_BEFORE_ALL = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Guard:
    """What a claim expects of the row besides its version; worker, reaper and sweeper each have their condition."""

    status: Status
    lease_token: str | None
    lease_must_have_expired: bool = False
    minimum_age_seconds: int = 0


def insert(connection: Connection, request: SubmitRequest, run_id: UUID, now: datetime | None = None) -> Run:
    """Insert a run with its inputs.

    Raises DuplicateKey if the tenant's idempotency key is taken (D4), and SwitchedOff if execution of the pack is
    disabled, even if the key is taken (TIX-1).
    """
    params = {field.name: getattr(request, field.name) for field in fields(request)} | {
        "run_id": run_id,
        "minimum_fee_usd_micros": minimum_fee(request.reserved_usd_micros),
        "inputs": Jsonb(request.inputs),
        "now": now,
    }
    try:
        run = _one(connection, "insert_run", params)
    except errors.UniqueViolation as error:
        if error.diag.constraint_name == "runs_idempotency":
            raise DuplicateKey from None
        raise
    if run is None:
        raise SwitchedOff
    return run


def mark_enqueued(connection: Connection, run: Run, now: datetime | None = None) -> None:
    """Record that the message of the run was sent (D5), unless it has moved on since it was seen as `run`."""
    params = {"run_id": run.run_id, "version": run.version, "now": now}
    connection.execute(QUERIES["mark_enqueued"], params, prepare=True)


def find(connection: Connection, tenant_id: str, run_id: UUID) -> Run | None:
    """A tenant's run."""
    return _one(connection, "run", {"run_id": run_id, "tenant_id": tenant_id})


def find_for_owner(
    connection: Connection, tenant_id: str, run_id: UUID, now: datetime | None = None
) -> tuple[Run, bool] | None:
    """A tenant's run and whether its retention is over (RUN-11, RUN-12)."""
    row = _row(connection, "run_of_owner", {"run_id": run_id, "tenant_id": tenant_id, "now": now})
    return None if row is None else (Run.from_row(row), bool(row["is_past_retention"]))


def find_by_key(connection: Connection, tenant_id: str, idempotency_key: str) -> Run | None:
    """The living run of an idempotency key (D4)."""
    return _one(connection, "run_of_key", {"tenant_id": tenant_id, "idempotency_key": idempotency_key})


def find_with_inputs(
    connection: Connection, tenant_id: str, run_id: UUID
) -> tuple[Run, dict[str, Any] | None] | None:
    """A tenant's run and its inputs, None once they were deleted (D8)."""
    row = _row(connection, "run_with_inputs", {"run_id": run_id, "tenant_id": tenant_id})
    return None if row is None else (Run.from_row(row), row["inputs"])


def start_processing(
    connection: Connection, run: Run, lease_token: str, now: datetime | None = None
) -> Run | None:
    """Lease a queued run; None where it has moved on (RUN-16) or its execution is disabled (TIX-1)."""
    params = {
        "run_id": run.run_id,
        "version": run.version,
        "lease_token": lease_token,
        "lease_ttl_seconds": LEASE_TTL_SECONDS,
        "now": now,
    }
    return _one(connection, "start_processing", params)


def park(connection: Connection, run: Run, now: datetime | None = None) -> Run | None:
    """Put back a run that `start_processing` did not take, as if never sent (D5); None where it has moved on.

    It doesn't ask the switch once more: who could not start this version found it disabled, and one that was enabled
    in between would else be left by everyone, neither started nor sent again.
    """
    return _one(connection, "park", {"run_id": run.run_id, "version": run.version, "now": now})


def extend_lease(connection: Connection, run: Run, now: datetime | None = None) -> bool:
    """Extend the lease that `run` holds; False where it is lost."""
    params = {
        "run_id": run.run_id,
        "lease_token": run.lease_token,
        "lease_ttl_seconds": LEASE_TTL_SECONDS,
        "now": now,
    }
    return connection.execute(QUERIES["extend_lease"], params).rowcount == 1


def claim(
    connection: Connection,
    run: Run,
    guard: Guard,
    intent: Intent,
    *,
    finalize_token: str,
    now: datetime | None = None,
) -> Run | None:
    """Claim the end of a run, recording the intent; None for every loser (RUN-19).

    Repeatable with the same token: a claim whose reply was lost is found again.
    """
    params = _intent_params(run, intent, finalize_token, now) | {
        "expected_status": guard.status,
        "lease_token": guard.lease_token,
        "lease_must_have_expired": guard.lease_must_have_expired,
        "minimum_age_seconds": guard.minimum_age_seconds,
    }
    claimed = _one(connection, "claim", params)
    return claimed or _of_token(connection, run, finalize_token, FinalizeStage.CLAIMED)


def reclaim(
    connection: Connection,
    run: Run,
    intent: Intent,
    *,
    finalize_token: str,
    stuck_after_seconds: int,
    now: datetime | None = None,
) -> Run | None:
    """Take over a stuck claim; None where it moved meanwhile (RUN-22)."""
    params = _intent_params(run, intent, finalize_token, now)
    return _one(connection, "reclaim", params | {"stuck_after_seconds": stuck_after_seconds})


def commit(
    connection: Connection, run: Run, *, release_idempotency_key: bool, now: datetime | None = None
) -> Run | None:
    """End a claimed run as its intent says; None where the claim was taken over. Repeatable."""
    params = _claim_params(run, now) | {"release_idempotency_key": release_idempotency_key}
    committed = _one(connection, "commit", params)
    return committed or _of_token(connection, run, run.finalize_token, FinalizeStage.COMMITTED)


def dispute(connection: Connection, run: Run, detail: str, now: datetime | None = None) -> Run | None:
    """Hand a claimed run to an operator; None where the claim was taken over (D3)."""
    return _one(connection, "dispute", _claim_params(run, now) | {"detail": detail})


def resolve(
    connection: Connection, run: Run, intent: Intent, *, finalize_token: str, now: datetime | None = None
) -> Run | None:
    """Claim a disputed run anew with an operator's intent; None where it is disputed no more (D3)."""
    return _one(connection, "resolve", _intent_params(run, intent, finalize_token, now))


def disputed(connection: Connection, limit: int) -> list[Run]:
    """Up to `limit` runs that wait for an operator."""
    return [Run.from_row(row) for row in _rows(connection, "disputed", {"limit": limit})]


def find_by_id(connection: Connection, run_id: UUID) -> Run | None:
    """The run, whoever's it is: for operators, never for a request (RUN-11)."""
    return _one(connection, "run_by_id", {"run_id": run_id})


def expire(connection: Connection, run: Run, now: datetime | None = None) -> Run | None:
    """Make a tombstone of an ended run past its retention (D7); None where it is not, or is one already."""
    return _one(connection, "expire", {"run_id": run.run_id, "version": run.version, "now": now})


def purge_inputs(connection: Connection, *, limit: int, now: datetime | None = None) -> int:
    """Delete inputs of runs that ended an hour ago, at most `limit`; how many (D8)."""
    return connection.execute(QUERIES["purge_inputs"], {"limit": limit, "now": now}).rowcount


def page_through(
    connection: Connection, query: str, now: datetime | None = None, age_seconds: int = 0
) -> Iterator[Run]:
    """Every run of a scan, oldest first, page by page: a run that can't move never hides those behind it."""
    after_time, after_id = _BEFORE_ALL, UUID(int=0)
    while True:
        params = {
            "now": now,
            "age_seconds": age_seconds,
            "after_time": after_time,
            "after_id": after_id,
            "limit": _PAGE_SIZE,
        }
        rows = _rows(connection, query, params)
        for row in rows:
            yield Run.from_row(row)
        if len(rows) < _PAGE_SIZE:
            return
        after_time, after_id = rows[-1]["page_time"], rows[-1]["run_id"]


@dataclass(slots=True)
class Unresolved:
    """What the jobs could not bring to an end."""

    disputed_runs: int = 0
    """Runs whose money waits for an operator (D3)."""
    stuck_claims: int = 0
    """Claims of a certain age that were never committed (RUN-22)."""

    def as_dict(self) -> dict[str, int]:
        """The figures, for the log."""
        return asdict(self)


def unresolved(connection: Connection, age_seconds: int, now: datetime | None = None) -> Unresolved:
    """Count what is left to an operator; `age_seconds` is that of a claim which reconcile should have finished."""
    row = connection.execute(QUERIES["unresolved"], {"now": now, "age_seconds": age_seconds}).fetchone()
    return Unresolved() if row is None else Unresolved(int(row[0]), int(row[1]))


def runs_among(connection: Connection, tenant_id: str, run_ids: list[UUID]) -> list[Run]:
    """Those of `run_ids` that are runs of the tenant."""
    params = {"tenant_id": tenant_id, "run_ids": run_ids}
    return [Run.from_row(row) for row in _rows(connection, "runs_among", params)]


def _intent_params(run: Run, intent: Intent, finalize_token: str, now: datetime | None) -> dict[str, object]:
    result = intent.result
    return {
        "run_id": run.run_id,
        "version": run.version,
        "finalize_token": finalize_token,
        "outcome": intent.outcome,
        "money_state": intent.money_state,
        "charge": intent.charge_usd_micros,
        "tokens_consumed": intent.tokens_consumed,
        "result_bucket": result.bucket if result else None,
        "result_key": result.key if result else None,
        "result_sha256": result.sha256 if result else None,
        "reason_code": intent.reason_code,
        "detail": intent.detail,
        "now": now,
    }


def _of_token(
    connection: Connection, run: Run, finalize_token: str | None, stage: FinalizeStage
) -> Run | None:
    params = {"run_id": run.run_id, "finalize_token": finalize_token, "stage": stage}
    return _one(connection, "of_finalize_token", params)


def _claim_params(run: Run, now: datetime | None) -> dict[str, object]:
    return {"run_id": run.run_id, "version": run.version, "finalize_token": run.finalize_token, "now": now}


def _one(connection: Connection, query: str, params: Mapping[str, object]) -> Run | None:
    row = _row(connection, query, params)
    return None if row is None else Run.from_row(row)


def _row(connection: Connection, query: str, params: Mapping[str, object]) -> dict[str, Any] | None:
    rows = named_rows(connection, QUERIES[query], params, prepare=True)
    return rows[0] if rows else None


def _rows(connection: Connection, query: str, params: Mapping[str, object]) -> list[dict[str, Any]]:
    return named_rows(connection, QUERIES[query], params)
