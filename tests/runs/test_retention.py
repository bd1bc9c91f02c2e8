"""Retention (RUN-12, D7, D8, LIFE-8): tombstones after 30 days, kept for 400; inputs deleted after an hour."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from dpp.money.drift import Verdict, audit
from dpp.money.rebuild import RebuildReason, rebuild
from dpp.platform.db.postgres import Connection
from dpp.runs import execute, store
from dpp.runs.jobs import retention
from dpp.runs.jobs.retain import RetentionReport, retain
from dpp.runs.jobs.sweep import sweep
from dpp.runs.machine import MoneyState, Status
from tests.schema import rows
from tests.support.api import ApiClient, a_body
from tests.support.retention_batches import NO_RIGHT, ROLE, batches, deleted, named, refusal
from tests.support.world import A_COST, A_CREDIT, Tenant, World, message_of


def _retain(world: World, now: datetime) -> RetentionReport:
    return retain(world.database, world.new_database(), now)


def _has_inputs(world: World, run_id: object) -> bool:
    return bool(world.sql("SELECT 1 FROM run_inputs WHERE run_id = %s", (run_id,)))


def test_run_12_a_run_becomes_a_tombstone_after_30_days_and_keeps_its_money_state(world: World) -> None:
    """RUN-12, D7: the result pointer is deleted, the charge stays in the books."""
    tenant, run = world.new_run()
    execute.execute(message_of(run), "receipt", world.work_effects())
    assert _retain(world, world.later(days=29, hours=23)).expired.seen == 0
    assert _retain(world, world.later(days=30, minutes=1)).expired.ended == 1
    left = world.run(run)
    assert (left.status, left.money_state, left.result) == (Status.EXPIRED, MoneyState.SETTLED, None)
    assert world.position(tenant).balanced
    assert _retain(world, world.later(days=31)).expired.seen == 0


def test_d7_the_idempotency_key_of_a_tombstone_is_free(world: World, api: ApiClient) -> None:
    """D7, RUN-4: the same key creates a new run, although the old mapping may still be in Redis."""
    tenant = world.tenant()
    first = api.submit(tenant, a_body(), key="the-same-key").body["run_id"]
    [message] = world.messages()
    execute.execute(message, "receipt", world.work_effects())
    _retain(world, world.later(days=30, minutes=1))
    again = api.submit(tenant, a_body(), key="the-same-key")
    assert again.status == 202
    assert again.body["run_id"] != first
    assert world.position(tenant).balanced


def test_run_12_the_owner_of_a_tombstone_reads_410_and_others_404(world: World, api: ApiClient) -> None:
    """RUN-12, RUN-11: only its owner can distinguish a tombstone from an unknown id."""
    owner, other = world.tenant(), world.tenant()
    run_id = api.submit(owner, a_body()).body["run_id"]
    [message] = world.messages()
    execute.execute(message, "receipt", world.work_effects())
    _retain(world, world.later(days=30, minutes=1))
    assert (api.read(owner, run_id).status, api.read(other, run_id).status) == (410, 404)


def test_d8_inputs_are_deleted_an_hour_after_the_end_and_not_earlier(world: World) -> None:
    """D8: private inputs are kept until an hour after their run has ended."""
    tenant = world.tenant()
    ended, waiting = world.submit(tenant).run, world.submit(tenant).run
    execute.execute(message_of(ended), "receipt", world.work_effects())
    assert _retain(world, world.later(minutes=59)).purged_inputs == 0
    assert _retain(world, world.later(minutes=61)).purged_inputs == 1
    assert (_has_inputs(world, ended.run_id), _has_inputs(world, waiting.run_id)) == (False, True)


def test_an_open_run_is_never_expired(world: World) -> None:
    """RUN-12: the other jobs end QUEUED and PROCESSING runs, however old they are."""
    tenant: Tenant = world.tenant()
    runs = [world.submit(tenant).run, world.leased(tenant)]
    late = runs[0].retention_until
    assert [world.using(store.expire, run, late) for run in runs] == [None, None]
    assert _retain(world, world.later(days=40)).expired.seen == 0


TOMBSTONES = named(retention.CLASSES, "tombstones")


def test_an_owner_reads_404_after_the_tombstone_is_deleted(world: World, api: ApiClient) -> None:
    """D13: as for an id that never existed."""
    owner, other = world.tenant(), world.tenant()
    run_id = api.submit(owner, a_body()).body["run_id"]
    [message] = world.messages()
    execute.execute(message, "receipt", world.work_effects())
    _retain(world, world.later(days=30, minutes=1))
    assert world.using(deleted, TOMBSTONES, world.later(days=30)) == 0
    assert world.using(deleted, TOMBSTONES, world.later(days=31)) == 1
    assert [api.read(tenant, run_id).status for tenant in (owner, other)] == [404, 404]
    assert api.read(owner, run_id).body["title"] == api.read(owner, str(uuid4())).body["title"]


def test_d2_audit_and_rebuild_include_charges_of_deleted_runs(world: World) -> None:
    """D2: with settled, refunded and open runs; then Redis is lost and restored to the micro."""
    tenant, never_charged = world.tenant(), world.tenant()
    for _ in range(3):
        execute.execute(message_of(world.submit(tenant).run), "receipt", world.work_effects())
    world.submit(tenant)
    world.submit(never_charged)
    sweep(world.finalize_effects(), world.new_database(), world.later(hours=2))
    _retain(world, world.later(days=30, minutes=1))
    still_open = world.submit(tenant).run
    before = [world.position(one) for one in (tenant, never_charged)]
    assert [one.charges_usd_micros for one in before] == [3 * A_COST, 0]
    with world.database.connection() as connection:
        run_ids = [str(row[0]) for row in connection.execute("SELECT run_id FROM runs")]
        assert deleted(connection, TOMBSTONES, world.later(days=431), limit=2) == 5
        assert [world.position(one) for one in (tenant, never_charged)] == before
        for one in (tenant, never_charged):
            assert audit(connection, world.ledger, one.tenant_id).verdict is Verdict.BALANCED
        for one, was in zip((tenant, never_charged), before, strict=True):
            world.lose_redis(one, run_ids)
            again = rebuild(connection, world.ledger, one.tenant_id, RebuildReason.OPERATOR)
            assert again.balance_usd_micros == was.balance_usd_micros
            assert audit(connection, world.ledger, one.tenant_id).verdict is Verdict.BALANCED
    execute.execute(message_of(still_open), "receipt", world.work_effects())
    assert world.position(tenant).balance_usd_micros == A_CREDIT - 4 * A_COST
    assert world.position(tenant).balanced


BEFORE = datetime(2026, 6, 1, tzinfo=UTC)
_A_MICROSECOND = timedelta(microseconds=1)
_CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "older": (rows.tombstone(updated_at=BEFORE - _A_MICROSECOND), True),
    "of that very moment": (rows.tombstone(updated_at=BEFORE), False),
    "younger": (rows.tombstone(updated_at=BEFORE + _A_MICROSECOND), False),
    "refunded": (rows.refunded_tombstone(updated_at=datetime.min.replace(tzinfo=UTC)), True),
    "completed": (rows.completed(updated_at=datetime(2020, 1, 1, tzinfo=UTC)), False),
    "failed": (rows.refunded(updated_at=datetime(2020, 1, 1, tzinfo=UTC)), False),
    "queued": (rows.queued(updated_at=datetime(2020, 1, 1, tzinfo=UTC)), False),
    "processing": (rows.processing(updated_at=datetime(2020, 1, 1, tzinfo=UTC)), False),
    "claimed": (rows.claimed(updated_at=datetime(2020, 1, 1, tzinfo=UTC)), False),
    "disputed": (rows.claimed(updated_at=datetime(2020, 1, 1, tzinfo=UTC), money_state=MoneyState.DISPUTED), False),
}


class TestTombstones:
    """LIFE-8, on rows that the test inserts directly."""

    @pytest.fixture
    def connection(self, database_url: str) -> Iterator[Connection]:
        with psycopg.connect(database_url, autocommit=True, prepare_threshold=None) as opened:
            rows.add_tenant(opened)
            yield opened

    @pytest.mark.parametrize("case", _CASES)
    def test_only_an_old_tombstone_is_deleted_with_its_inputs(self, connection: Connection, case: str) -> None:
        row, goes = _CASES[case]
        rows.insert(connection, row)
        connection.execute("INSERT INTO run_inputs (run_id, inputs) VALUES (%s, '{}')", (row["run_id"],))
        assert TOMBSTONES.due(connection, BEFORE, 100) == goes
        assert deleted(connection, TOMBSTONES, BEFORE) == goes
        left = connection.execute("SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM run_inputs)")
        assert left.fetchone() == ((0, 0) if goes else (1, 1))

    def test_a_batch_is_bounded_and_the_next_continues_after_it(self, connection: Connection) -> None:
        """Also among seven tombstones with the same time."""
        for n in range(12):
            rows.insert(connection, rows.tombstone(updated_at=BEFORE - timedelta(days=max(1, n - 5))))
        done = list(batches(connection, TOMBSTONES, BEFORE, limit=5))
        assert [(one.examined, one.deleted) for one in done] == [(5, 5), (5, 5), (2, 2)]
        assert all(one.bytes > one.deleted * 100 for one in done)
        times = [one.cursor.time for one in done if one.cursor]
        assert times == sorted(times)

    def test_due_tombstones_are_counted_up_to_a_bound(self, connection: Connection) -> None:
        for _ in range(5):
            rows.insert(connection, rows.tombstone(updated_at=BEFORE - timedelta(days=1)))
        assert [TOMBSTONES.due(connection, BEFORE, limit) for limit in (3, 5, 9)] == [3, 5, 5]

    def test_use_reports_the_oldest_and_the_growth_of_a_day(self, connection: Connection) -> None:
        nothing = TOMBSTONES.use(connection, BEFORE)
        assert (nothing.rows, nothing.oldest_at, nothing.rows_a_day) == (0, None, 0)
        for days in (0.5, 0.9, 3.0):
            rows.insert(connection, rows.tombstone(updated_at=BEFORE - timedelta(days=days)))
        rows.insert(connection, rows.completed(updated_at=BEFORE - timedelta(days=9)))
        use = TOMBSTONES.use(connection, BEFORE)
        assert (use.rows, use.oldest_at, use.rows_a_day) == (4, BEFORE - timedelta(days=3), 2)
        assert use.bytes_a_day == pytest.approx(use.bytes / 2)

    @pytest.mark.parametrize("role", [None, ROLE])
    @pytest.mark.parametrize("case", [case for case, (row, _) in _CASES.items() if row["status"] != "EXPIRED"])
    def test_no_role_can_delete_a_run_that_is_not_a_tombstone(
        self, connection: Connection, case: str, role: str | None
    ) -> None:
        """D2, D7: the schema enforces it."""
        rows.insert(connection, _CASES[case][0])
        assert refusal(connection, "DELETE FROM runs", role=role) == "runs_only_tombstones_go"

    @pytest.mark.parametrize(
        "statement",
        [
            "DELETE FROM run_inputs",
            "DELETE FROM tenants",
            "DELETE FROM api_keys",
            "UPDATE runs SET trace_id = 'x'",
            "SELECT FROM runs FOR UPDATE",
            "SELECT inputs FROM run_inputs",
        ],
    )
    def test_the_retention_role_has_no_other_right(self, connection: Connection, statement: str) -> None:
        rows.insert(connection, rows.tombstone())
        assert refusal(connection, statement, role=ROLE) == NO_RIGHT
