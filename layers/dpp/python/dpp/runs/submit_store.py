"""The SQL of a submit, and nothing else. `now` sets the clock in tests; in production Postgres's clock decides (D1)."""

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from uuid import UUID

from psycopg import errors
from psycopg.types.json import Jsonb

from dpp.money.fees import minimum_fee
from dpp.platform.db.postgres import Connection, named_rows
from dpp.platform.db.sql import Queries
from dpp.runs.errors import DuplicateKey, SwitchedOff
from dpp.runs.model import Run, SubmitRequest

QUERIES = Queries("dpp.runs", "submit.sql")


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
    """Record that the run's message was sent (D5), unless the run has changed since `run` was read."""
    params = {"run_id": run.run_id, "version": run.version, "now": now}
    connection.execute(QUERIES["mark_enqueued"], params, prepare=True)


def find_by_key(connection: Connection, tenant_id: str, idempotency_key: str) -> Run | None:
    """The live run of an idempotency key (D4)."""
    return _one(connection, "run_of_key", {"tenant_id": tenant_id, "idempotency_key": idempotency_key})


def find_baseline(connection: Connection, tenant_id: str, run_id: UUID) -> Run | None:
    """The tenant's ended eval run that another is compared with (RUN-28)."""
    return _one(connection, "baseline_run", {"run_id": run_id, "tenant_id": tenant_id, "now": None})


def _one(connection: Connection, query: str, params: Mapping[str, object]) -> Run | None:
    rows = named_rows(connection, QUERIES[query], params, prepare=True)
    return Run.from_row(rows[0]) if rows else None
