"""The floor of bench/outbox: our own SQL for one error, one statement after another on one connection."""

import statistics
import time
from collections.abc import Callable, Sequence
from uuid import UUID, uuid4

import psycopg

from bench.outbox.posts import report_of
from bench.support.servers import TENANT
from dpp.auth_errors import store
from dpp.auth_errors.api.sanitize import payload_hash
from dpp.auth_errors.model import ClaimedEvent
from dpp.auth_errors.outbox import events, handlers, tables
from dpp.platform.db.postgres import Connection

_BATCH, _ROUNDS = 10, 30


def measured(url: str) -> dict[str, float]:
    """Medians in ms an error, for batches of ten."""
    taken: dict[str, list[float]] = {}

    def timed[T](name: str, act: Callable[[], T]) -> T:
        begun = time.perf_counter()
        found = act()
        taken.setdefault(name, []).append(1_000 * (time.perf_counter() - begun) / _BATCH)
        return found

    with psycopg.connect(url, autocommit=True) as connection:
        for number in range(_ROUNDS):
            names = [f"floor-{number}-{one}" for one in range(_BATCH)]
            timed("post: error and event, 1 commit", lambda: _record(connection, names))  # noqa: B023
            for step, kind in (("first", "asks for the analysis"), ("second", "analyses")):
                sent = timed(f"publish the {step}, 2 commits for ten", lambda: _publish(connection))
                leased = timed(f"lease the {step}, 1 commit", lambda: _lease(connection, sent))  # noqa: B023
                timed(f"handle the {step}: {kind}, 1 commit", lambda: _handle(connection, sent, leased))  # noqa: B023
    return {name: statistics.median(times) for name, times in taken.items()}


def _record(connection: Connection, request_ids: Sequence[str]) -> None:
    for report in map(report_of, request_ids):
        with connection.transaction():
            error = store.record(connection, uuid4(), report, reported_by=TENANT, payload_hash=payload_hash(report))
            assert error is not None
            tables.enqueue(connection, events.recorded(error.auth_error_id, error.dedup_key, error.occurred_at))


def _publish(connection: Connection) -> list[ClaimedEvent]:
    owner = uuid4()
    claimed = tables.claim(connection, owner, _BATCH)
    assert len(claimed) == _BATCH
    tables.mark_published(connection, owner, [event.outbox_id for event in claimed])
    return claimed


def _lease(connection: Connection, sent: Sequence[ClaimedEvent]) -> list[UUID]:
    owners = []
    for event in sent:
        owner = uuid4()
        named = tables.EventRef(event.outbox_id, event.event_type, UUID(event.payload["authErrorId"]))
        with connection.transaction():
            tables.ensure_row_exists(connection, named)
            assert tables.take_lease(connection, named, owner, lease_seconds=60, max_retries=5) == 1
        owners.append(owner)
    return owners


def _handle(connection: Connection, sent: Sequence[ClaimedEvent], owners: Sequence[UUID]) -> None:
    for event, owner in zip(sent, owners, strict=True):
        with connection.transaction():
            error = store.lock(connection, UUID(event.payload["authErrorId"]))
            assert error is not None
            handlers.HANDLERS[event.event_type](connection, error, None)
            assert tables.finish(connection, event.outbox_id, owner) is not None
