"""Jobs over rows that can't move, and jobs that fire twice at once."""

import threading
from collections.abc import Callable
from typing import Any, cast

import psycopg
import pytest

from dpp.platform.db.postgres import Database
from dpp.platform.errors import StorageUnavailable
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.jobs.batch import BATCH_LIMIT
from dpp.runs.jobs.reap import reap
from dpp.runs.jobs.reconcile import ReconcileEffects, reconcile
from dpp.runs.jobs.retain import retain
from dpp.runs.jobs.sweep import sweep
from dpp.runs.machine import Status
from tests.crash.crashes import RunCrashes
from tests.crash.environment import Environment
from tests.crash.invariants import violations_after_recovery, violations_after_retention
from tests.crash.recovery import recover, retire
from tests.support.world import World

_COPIES = BATCH_LIMIT + 50
_COPY = """
INSERT INTO runs SELECT (jsonb_populate_record(r, jsonb_build_object(
  'run_id', gen_random_uuid(), 'idempotency_key', 'copy-' || lpad(n::text, 8, '0'),
  'finalize_claimed_at', r.finalize_claimed_at - interval '1 hour',
  'result_bucket', 'b', 'result_key', 'unreadable', 'result_sha256', repeat('ab', 32)))).*
FROM runs r, generate_series(1, %s) n WHERE r.run_id = %s
"""


def test_run_22_more_runs_that_cannot_move_than_a_firing_takes_starve_nobody_behind_them(world: World) -> None:
    """RUN-22: S3 denies the objects of 550 older claims, firing after firing; a refund behind them is made at once."""
    tenant = world.tenant()
    healthy = world.leased(tenant)
    world.sql(
        "UPDATE runs SET finalize_stage = 'CLAIMED', finalize_token = 'f', finalize_claimed_at = now(), "
        "finalize_outcome = 'FAILED', finalize_money_state = 'SETTLED', finalize_charge_usd_micros = 5000, "
        "last_error_reason_code = 'WORKER_TIMEOUT'"
    )
    world.sql(_COPY, [_COPIES, healthy.run_id])

    class Denied:
        bucket = world.bucket

        def get(self, _key: str) -> None:
            raise StorageUnavailable("denied")

    effects = ReconcileEffects(world.database, world.ledger, cast(Any, Denied()), world.queue)
    report = reconcile(effects, world.new_database(), world.later(minutes=6)).stuck_claims

    assert (report.failed, report.ended) == (_COPIES, 1)
    assert world.run(healthy).status == Status.FAILED


def test_run_20_a_row_that_somebody_holds_locked_costs_the_others_nothing(world: World) -> None:
    """RUN-20: an open transaction on one row (an operator's, a hung session's); the reaper leaves it and goes on."""
    tenant = world.tenant()
    held, others = world.leased(tenant), [world.leased(tenant) for _ in range(2)]
    database = Database(world.database_url, reply_timeout_seconds=1.0)
    world.opened.append(database)
    with psycopg.connect(world.database_url) as holder:
        holder.execute("SELECT 1 FROM runs WHERE run_id = %s FOR UPDATE", [held.run_id])
        effects = FinalizeEffects(database, world.ledger)
        report = reap(effects, world.new_database(), world.later(minutes=3))
        assert (report.ended, report.failed) == (2, 1)
        assert {world.run(run).status for run in others} == {Status.FAILED}
    # What the reaper had sent is in the server's hands still, and may claim the row now; then it is reconcile's.
    reap(effects, world.new_database(), world.later(minutes=3))
    reconcile(world.reconcile_effects(), world.new_database(), world.later(minutes=12))
    assert world.run(held).status == Status.FAILED
    assert world.position(tenant).balanced


@pytest.mark.parametrize("scenario", ["reap", "sweep", "reconcile", "reconcile lost ledgers", "retain"])
def test_jobs_that_fire_twice_at_once_do_their_work_once(crashes: RunCrashes, scenario: str) -> None:
    """D2, D3, RUN-20 … RUN-22: two firings of every job at the same moment, each on connections of its own."""
    crashes.arrange(scenario)
    env = crashes.env
    start = threading.Barrier(2)
    failures: list[BaseException] = []

    def firing() -> None:
        try:
            _fire(env, start)
        except BaseException as error:  # noqa: BLE001 - the test's own thread tells it
            failures.append(error)

    twins = [threading.Thread(target=firing) for _ in range(2)]
    for twin in twins:
        twin.start()
    for twin in twins:
        twin.join(60)

    assert failures == []
    assert recover(env)
    assert violations_after_recovery(env) == []
    retire(env)
    assert violations_after_retention(env) == []


def _fire(env: Environment, start: threading.Barrier) -> None:
    world, now = env.world, env.clock.now
    database, scan = Database(world.database_url), Database(world.database_url)
    ends = FinalizeEffects(database, world.ledger, world.storage)
    reconciles = ReconcileEffects(database, world.ledger, world.storage, world.queue)
    jobs: tuple[Callable[[], object], ...] = (
        lambda: reap(ends, scan, now),
        lambda: sweep(ends, scan, now),
        lambda: reconcile(reconciles, scan, now),
        lambda: retain(database, scan, now),
    )
    try:
        for job in jobs:
            start.wait(30)
            job()
    finally:
        database.close()
        scan.close()
