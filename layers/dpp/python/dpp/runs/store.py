"""The SQL of runs after their submit, and nothing else. A compare-and-swap that matches no row returns None.

`now` sets the clock in tests; in production it is None, and Postgres's clock decides (D1).
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from dpp.platform.db.postgres import Connection, named_rows
from dpp.platform.db.sql import Queries
from dpp.runs.machine import FinalizeStage, Status
from dpp.runs.model import Intent, Run

QUERIES = Queries("dpp.runs", "submit.sql", "queries.sql")
LEASE_TTL_SECONDS = 120
_PAGE_SIZE = 100
_BEFORE_ALL = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Guard:
    """The row that a claim expects, besides its version; worker, reaper and sweeper each have their condition."""

    status: Status
    lease_token: str | None
    lease_must_have_expired: bool = False
    minimum_age_seconds: int = 0


@dataclass(slots=True)
class Unresolved:
    """Runs that the jobs could not end. `disputed_runs`: their money waits for an operator (D3). `stuck_claims`: never
    committed, although old enough (RUN-22)."""

    disputed_runs: int = 0
    stuck_claims: int = 0

    def as_dict(self) -> dict[str, int]:
        """The figures, for the log."""
        return asdict(self)


def find(connection: Connection, tenant_id: str, run_id: UUID) -> Run | None:
    """A tenant's run."""
    return _one(connection, "run", {"run_id": run_id, "tenant_id": tenant_id})


def find_by_id(connection: Connection, run_id: UUID) -> Run | None:
    """A run of any tenant: for operators, never for a request (RUN-11)."""
    return _one(connection, "run_by_id", {"run_id": run_id})


def find_for_owner(
    connection: Connection, tenant_id: str, run_id: UUID, now: datetime | None = None
) -> tuple[Run, bool] | None:
    """A tenant's run, and True if its retention is over (RUN-11, RUN-12)."""
    row = _row(connection, "run_of_owner", {"run_id": run_id, "tenant_id": tenant_id, "now": now})
    return None if row is None else (Run.from_row(row), bool(row["is_past_retention"]))


def find_with_inputs(connection: Connection, tenant_id: str, run_id: UUID) -> tuple[Run, dict[str, Any] | None] | None:
    """A tenant's run and its inputs; the inputs are None after their deletion (D8)."""
    row = _row(connection, "run_with_inputs", {"run_id": run_id, "tenant_id": tenant_id})
    return None if row is None else (Run.from_row(row), row["inputs"])


def runs_among(connection: Connection, tenant_id: str, run_ids: list[UUID]) -> list[Run]:
    """The tenant's runs among `run_ids`."""
    return _runs(connection, "runs_among", {"tenant_id": tenant_id, "run_ids": run_ids})


def disputed(connection: Connection, limit: int) -> list[Run]:
    """Up to `limit` runs that wait for an operator."""
    return _runs(connection, "disputed", {"limit": limit})


def start_processing(connection: Connection, run: Run, lease_token: str, now: datetime | None = None) -> Run | None:
    """Lease a queued run; None if it has changed (RUN-16) or its execution is disabled (TIX-1)."""
    params = _version_params(run, now) | _lease_params(lease_token)
    return _one(connection, "start_processing", params)


def park(connection: Connection, run: Run, now: datetime | None = None) -> Run | None:
    """Park a run that `start_processing` did not start, as if it was never sent (D5); None if it has changed.

    Does not test the switch again: the caller found this version disabled. If the switch was enabled in between, a
    second test would leave the run neither started nor sent again.
    """
    return _one(connection, "park", _version_params(run, now))


def extend_lease(connection: Connection, run: Run, now: datetime | None = None) -> bool:
    """Extend the lease of `run`; False if it is lost."""
    params = {"run_id": run.run_id, "now": now} | _lease_params(run.lease_token)
    return connection.execute(QUERIES["extend_lease"], params).rowcount == 1


def claim(
    connection: Connection, run: Run, guard: Guard, intent: Intent, *, finalize_token: str, now: datetime | None = None
) -> Run | None:
    """Claim the end of a run and record the intent; None for every loser (RUN-19).

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
    """Take over a stuck claim; None if it has changed meanwhile (RUN-22)."""
    params = _intent_params(run, intent, finalize_token, now)
    return _one(connection, "reclaim", params | {"stuck_after_seconds": stuck_after_seconds})


def commit(
    connection: Connection, run: Run, *, release_idempotency_key: bool, now: datetime | None = None
) -> Run | None:
    """End a claimed run as its intent says; None if the claim was taken over. Repeatable."""
    params = _claim_params(run, now) | {"release_idempotency_key": release_idempotency_key}
    committed = _one(connection, "commit", params)
    return committed or _of_token(connection, run, run.finalize_token, FinalizeStage.COMMITTED)


def dispute(connection: Connection, run: Run, detail: str, now: datetime | None = None) -> Run | None:
    """Leave a claimed run to an operator; None if the claim was taken over (D3)."""
    return _one(connection, "dispute", _claim_params(run, now) | {"detail": detail})


def resolve(
    connection: Connection, run: Run, intent: Intent, *, finalize_token: str, now: datetime | None = None
) -> Run | None:
    """Claim a disputed run again, with an operator's intent; None if it is no longer disputed (D3)."""
    return _one(connection, "resolve", _intent_params(run, intent, finalize_token, now))


def expire(connection: Connection, run: Run, now: datetime | None = None) -> Run | None:
    """Make an ended run past its retention a tombstone (D7); None if it is not due, or is a tombstone already."""
    return _one(connection, "expire", _version_params(run, now))


def purge_inputs(connection: Connection, *, limit: int, now: datetime | None = None) -> int:
    """Delete at most `limit` inputs of runs that ended an hour ago, and return how many (D8)."""
    return connection.execute(QUERIES["purge_inputs"], {"limit": limit, "now": now}).rowcount


def unresolved(connection: Connection, age_seconds: int, now: datetime | None = None) -> Unresolved:
    """Count what is left to an operator; a claim older than `age_seconds` should have been finished by reconcile."""
    row = connection.execute(QUERIES["unresolved"], {"now": now, "age_seconds": age_seconds}).fetchone()
    return Unresolved() if row is None else Unresolved(int(row[0]), int(row[1]))


def page_through(
    connection: Connection, query: str, now: datetime | None = None, age_seconds: int = 0
) -> Iterator[Run]:
    """Every run of a scan, oldest first, page by page: a run that can't be moved hides none behind it."""
    after_time, after_id = _BEFORE_ALL, UUID(int=0)
    while True:
        params = {
            "now": now,
            "age_seconds": age_seconds,
            "after_time": after_time,
            "after_id": after_id,
            "limit": _PAGE_SIZE,
        }
        rows = named_rows(connection, QUERIES[query], params)
        yield from map(Run.from_row, rows)
        if len(rows) < _PAGE_SIZE:
            return
        after_time, after_id = rows[-1]["page_time"], rows[-1]["run_id"]


def _version_params(run: Run, now: datetime | None) -> dict[str, object]:
    return {"run_id": run.run_id, "version": run.version, "now": now}


def _lease_params(lease_token: str | None) -> dict[str, object]:
    return {"lease_token": lease_token, "lease_ttl_seconds": LEASE_TTL_SECONDS}


def _claim_params(run: Run, now: datetime | None) -> dict[str, object]:
    return _version_params(run, now) | {"finalize_token": run.finalize_token}


def _intent_params(run: Run, intent: Intent, finalize_token: str, now: datetime | None) -> dict[str, object]:
    result = intent.result
    return _version_params(run, now) | {
        "finalize_token": finalize_token,
        "outcome": intent.outcome,
        "money_state": intent.money_state,
        "charge": intent.charge_usd_micros,
        "tokens_consumed": intent.tokens_consumed,
        "result_bucket": result.bucket if result else None,
        "result_key": result.key if result else None,
        "result_sha256": result.sha256 if result else None,
        "result_parts": Jsonb([asdict(part) for part in result.parts] if result else []),
        "reason_code": intent.reason_code,
        "detail": intent.detail,
    }


def _of_token(connection: Connection, run: Run, finalize_token: str | None, stage: FinalizeStage) -> Run | None:
    params = {"run_id": run.run_id, "finalize_token": finalize_token, "stage": stage}
    return _one(connection, "of_finalize_token", params)


def _one(connection: Connection, query: str, params: Mapping[str, object]) -> Run | None:
    row = _row(connection, query, params)
    return None if row is None else Run.from_row(row)


def _row(connection: Connection, query: str, params: Mapping[str, object]) -> dict[str, Any] | None:
    rows = named_rows(connection, QUERIES[query], params, prepare=True)
    return rows[0] if rows else None


def _runs(connection: Connection, query: str, params: Mapping[str, object]) -> list[Run]:
    return [Run.from_row(row) for row in named_rows(connection, QUERIES[query], params)]
