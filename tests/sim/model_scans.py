"""The scans of the jobs, as Python, beside the rows in model_postgres."""

from collections.abc import Callable
from datetime import datetime, timedelta

from dpp.runs import store
from tests.sim.model_postgres import (
    Answer,
    Params,
    Tables,
    claimed,
    is_disabled,
    is_no_lease,
    models,
    unclaimed,
)
from tests.sim.schema import COLUMNS, Row


@models(store.QUERIES, "page_expired_leases")
def _page_expired_leases(tables: Tables, p: Params, now: datetime) -> Answer:
    at = p["now"] or now
    return page(
        tables,
        p,
        "lease_expires_at",
        lambda row: unclaimed(row, "PROCESSING") and is_no_lease(row["lease_expires_at"], at),
    )


@models(store.QUERIES, "page_waiting")
def _page_waiting(tables: Tables, p: Params, now: datetime) -> Answer:
    latest = _ago(p, now)
    return page(tables, p, "created_at", lambda row: unclaimed(row, "QUEUED") and row["created_at"] <= latest)


@models(store.QUERIES, "page_stuck_claims")
def _page_stuck_claims(tables: Tables, p: Params, now: datetime) -> Answer:
    latest = _ago(p, now)
    return page(
        tables,
        p,
        "finalize_claimed_at",
        lambda row: claimed(row) and row["finalize_claimed_at"] < latest,
    )


@models(store.QUERIES, "unresolved")
def _unresolved(tables: Tables, p: Params, now: datetime) -> Answer:
    rows, latest = tables.runs.values(), _ago(p, now)
    disputed = sum(row["money_state"] == "DISPUTED" for row in rows)
    stuck = sum(claimed(row) and row["finalize_claimed_at"] < latest for row in rows)
    return Answer(("count", "count"), [(disputed, stuck)], 1)


@models(store.QUERIES, "page_unsent")
def _page_unsent(tables: Tables, p: Params, now: datetime) -> Answer:
    latest = _ago(p, now)
    return page(
        tables,
        p,
        "created_at",
        lambda row: (
            unclaimed(row, "QUEUED")
            and row["enqueued_at"] is None
            and row["created_at"] <= latest
            and not is_disabled(tables.switches, row, now)
        ),
    )


def page(tables: Tables, p: Params, by: str, matches: Callable[[Row], bool]) -> Answer:
    after = (p["after_time"], p["after_id"])
    found = [row for row in tables.runs.values() if matches(row) and (row[by], row["run_id"]) > after]
    found.sort(key=lambda row: (row[by], row["run_id"]))
    rows = [(*row.values(), row[by]) for row in found[: p["limit"]]]
    return Answer((*COLUMNS, "page_time"), rows, len(rows))


def _ago(p: Params, now: datetime) -> datetime:
    at: datetime = p["now"] or now
    return at - timedelta(seconds=p["age_seconds"])
