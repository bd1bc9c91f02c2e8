"""Retention (RUN-12, D7, D8): tombstones after 30 days, inputs gone after an hour; time is passed."""

from datetime import datetime

from dpp.runs import execute, store
from dpp.runs.machine import MoneyState, Status
from dpp.runs.retain import RetentionReport, retain
from tests.api import ApiClient, a_body
from tests.world import Tenant, World, message_of


def _retain(world: World, now: datetime) -> RetentionReport:
    return retain(world.database, world.new_database(), now)


def _has_inputs(world: World, run_id: object) -> bool:
    with world.database.connection() as connection:
        return (
            connection.execute("SELECT 1 FROM run_inputs WHERE run_id = %s", (run_id,)).fetchone() is not None
        )


def test_run_12_after_thirty_days_a_run_is_a_tombstone_with_its_money_state(world: World) -> None:
    """RUN-12, D7: the result pointer is gone, what was charged stays in the books."""
    tenant = world.tenant()
    run = world.submit(tenant).run
    execute.execute(message_of(run), "receipt", world.work_effects())
    assert _retain(world, world.later(days=29, hours=23)).expired.seen == 0
    assert _retain(world, world.later(days=30, minutes=1)).expired.ended == 1
    left = world.run(run)
    assert (left.status, left.money_state, left.result) == (Status.EXPIRED, MoneyState.SETTLED, None)
    assert world.position(tenant).balanced
    assert _retain(world, world.later(days=31)).expired.seen == 0


def test_d7_the_idempotency_key_is_free_again(world: World, api: ApiClient) -> None:
    """D7, RUN-4: the same key makes a new run, though the old mapping may still stand in Redis."""
    tenant = world.tenant()
    first = api.submit(tenant, a_body(), key="the-same-key").body["run_id"]
    [message] = world.messages()
    execute.execute(message, "receipt", world.work_effects())
    _retain(world, world.later(days=30, minutes=1))
    again = api.submit(tenant, a_body(), key="the-same-key")
    assert again.status == 202
    assert again.body["run_id"] != first
    assert world.position(tenant).balanced


def test_run_12_the_owner_reads_410_and_anyone_else_404(world: World, api: ApiClient) -> None:
    """RUN-12, RUN-11: a tombstone is still told apart from nothing, by its owner alone."""
    owner, other = world.tenant(), world.tenant()
    run_id = api.submit(owner, a_body()).body["run_id"]
    [message] = world.messages()
    execute.execute(message, "receipt", world.work_effects())
    _retain(world, world.later(days=30, minutes=1))
    assert (api.read(owner, run_id).status, api.read(other, run_id).status) == (410, 404)


def test_d8_inputs_are_deleted_an_hour_after_the_end_and_not_before_it(world: World) -> None:
    """D8: private inputs live as long as their run, and a short grace."""
    tenant = world.tenant()
    ended, waiting = world.submit(tenant).run, world.submit(tenant).run
    execute.execute(message_of(ended), "receipt", world.work_effects())
    assert _retain(world, world.later(minutes=59)).purged_inputs == 0
    assert _retain(world, world.later(minutes=61)).purged_inputs == 1
    assert (_has_inputs(world, ended.run_id), _has_inputs(world, waiting.run_id)) == (False, True)


def test_a_living_run_is_never_expired(world: World) -> None:
    """RUN-12: QUEUED and PROCESSING are the jobs' business, however old."""
    tenant: Tenant = world.tenant()
    runs = [world.submit(tenant).run, world.leased(tenant)]
    with world.database.connection() as connection:
        late = runs[0].retention_until
        assert [store.expire(connection, run, late) for run in runs] == [None, None]
    assert _retain(world, world.later(days=40)).expired.seen == 0
