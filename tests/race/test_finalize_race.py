"""RUN-34 (001 §16.3, DEC-4210): when several actors end a run at the same time, one wins and the others do nothing."""

import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from dpp.runs import execute, store
from dpp.runs.execute import WorkEffects
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.jobs import reap, reconcile
from dpp.runs.jobs.reconcile import ReconcileEffects
from dpp.runs.machine import FinalizeStage, MoneyState, Status
from dpp.runs.model import Run, envelope_key
from tests.race.turns import SteppedDatabase, SteppedLedger, SteppedStorage, Steps, Turns
from tests.support.world import A_COST, DONE, ScriptedPacks, Tenant, World

WORKER_STEPS, REAPER_STEPS = 4, 3  # claim, upload, settle, commit; claim, settle, commit
INTERLEAVINGS = [
    tuple("worker" if step in chosen else "reaper" for step in range(WORKER_STEPS + REAPER_STEPS))
    for chosen in itertools.combinations(range(WORKER_STEPS + REAPER_STEPS), WORKER_STEPS)
]
REPEATS = 6


def _on_threads(actions: Sequence[Callable[[], object]]) -> list[Any]:
    """The results of actions that run at the same time, each on its own thread. Raises what one of them raised."""
    with ThreadPoolExecutor(len(actions)) as pool:
        return [future.result() for future in [pool.submit(action) for action in actions]]


def _started_together(actions: Sequence[Callable[[], object]]) -> list[Any]:
    """The results of actions whose threads wait for each other before they begin."""
    start = threading.Barrier(len(actions))

    def run(action: Callable[[], object]) -> object:
        start.wait()
        return action()

    return _on_threads([partial(run, action) for action in actions])


def _worker(world: World, steps: Steps) -> WorkEffects:
    return WorkEffects(
        database=SteppedDatabase(world.database_url, steps),
        new_database=world.new_database,
        ledger=SteppedLedger(world.ledger, steps),
        queue=world.queue,
        storage=SteppedStorage(world.bucket, world.s3, steps),
        packs=ScriptedPacks(),
        pauses_seconds=(),
    )


def _race(world: World, tenant: Tenant, order: tuple[str, ...], expired: datetime) -> tuple[Run, Steps, Steps]:
    """Let worker and reaper end one run, with their steps in this order."""
    turns = Turns(order)
    worker_steps, reaper_steps = Steps("worker", turns), Steps("reaper", turns)
    run, worker = world.leased(tenant), _worker(world, worker_steps)
    reaper = FinalizeEffects(
        SteppedDatabase(world.database_url, reaper_steps), SteppedLedger(world.ledger, reaper_steps)
    )

    def leaving(actor: str, action: Callable[[], object]) -> object:
        try:
            return action()
        finally:
            turns.leave(actor)

    results = _on_threads(
        [
            lambda: leaving("worker", lambda: execute._finish(run, DONE, worker)),
            lambda: leaving("reaper", lambda: reap.reap_run(reaper, run, expired)),
        ]
    )
    worker.database.close()
    reaper.database.close()
    assert sum(ended is not None for ended in results) == 1, results
    return world.run(run), worker_steps, reaper_steps


@pytest.mark.parametrize("order", INTERLEAVINGS, ids=lambda order: "".join(actor[0] for actor in order))
def test_one_of_worker_and_reaper_ends_the_run_and_the_loser_touches_nothing(
    world: World, order: tuple[str, ...]
) -> None:
    """RUN-34, RUN-19: every interleaving of the steps, six times each: 210 races."""
    tenant, expired = world.tenant(), world.later(minutes=3)
    for _ in range(REPEATS):
        ended, worker, reaper = _race(world, tenant, order, expired)

        winner, loser = (worker, reaper) if len(worker.taken) > 1 else (reaper, worker)
        assert loser.taken == ["database"], "the loser tries to claim once: no settle, no write"
        assert winner.taken.count("settle") == 1
        assert winner.taken.count("database") == 2, "one claim, one commit"
        assert winner.actor == order[0], "the first claim wins"
        assert ended.finalize_stage == FinalizeStage.COMMITTED
        assert ended.money_state == MoneyState.SETTLED
        assert ended.version == 3, "insert, lease, claim, commit: no other write"
        if winner is worker:
            assert (ended.status, ended.actual_cost_usd_micros) == (Status.COMPLETED, A_COST)
            assert world.storage.get(envelope_key(ended)) is not None
        else:
            assert (ended.status, ended.actual_cost_usd_micros) == (Status.FAILED, ended.minimum_fee_usd_micros)
            assert world.storage.get(envelope_key(ended)) is None, "the loser wrote nothing to S3"
    assert world.position(tenant).balanced


def test_worker_reapers_and_reconcile_without_forced_order_end_each_run_once(world: World) -> None:
    """RUN-34, RUN-22: four contenders start together, and the threads run in any order."""
    tenant, expired = world.tenant(), world.later(minutes=3)
    expected = 0
    for _ in range(25):
        run = world.leased(tenant)
        worker = world.work_effects()
        first, second = (FinalizeEffects(world.new_database(), world.ledger) for _ in range(2))
        jobs = ReconcileEffects(world.new_database(), world.ledger, world.storage, world.queue)
        results = _started_together(
            [
                partial(execute._finish, run, DONE, worker),
                partial(reap.reap_run, first, run, expired),
                partial(reap.reap_run, second, run, expired),
                partial(reconcile.finish_expired, jobs, run, expired),
            ]
        )
        for effects in (first, second, jobs):
            effects.database.close()
        assert sum(ended is not None for ended in results) == 1, results
        ended = world.run(run)
        assert ended.finalize_stage == FinalizeStage.COMMITTED
        assert ended.version == 3
        expected += ended.actual_cost_usd_micros or 0
    position = world.position(tenant)
    assert position.charges_usd_micros == expected
    assert position.balanced


def test_a_late_heartbeat_saves_the_run_from_the_reaper(world: World) -> None:
    """RUN-16, RUN-20: the reaper's claim checks the lease again, not only its scan."""
    tenant = world.tenant()
    run, seen_expired = world.leased(tenant), world.later(seconds=121)
    found = world.using(lambda on: list(store.page_through(on, "page_expired_leases", seen_expired)))
    assert [one.run_id for one in found] == [run.run_id]
    assert world.using(store.extend_lease, run, world.later(seconds=100))

    assert reap.reap_run(world.finalize_effects(), run, seen_expired) is None
    assert world.run(run).status == Status.PROCESSING


def test_a_heartbeat_after_the_lease_has_expired_is_refused(world: World) -> None:
    """RUN-16: a worker that slept past its lease has lost it, even before the reaper runs."""
    run = world.leased(world.tenant())
    assert not world.using(store.extend_lease, run, world.later(seconds=121))


def test_only_one_of_many_workers_leases_a_run(world: World) -> None:
    """RUN-16: the same message is delivered to eight workers at once; one starts the run, seven skip it."""
    run = world.submit(world.tenant()).run
    databases = [world.new_database() for _ in range(8)]

    def lease(index: int) -> Run | None:
        return databases[index].using(store.start_processing, run, f"lease-{index}")

    results = _started_together([partial(lease, index) for index in range(8)])
    for database in databases:
        database.close()
    assert sum(leased is not None for leased in results) == 1
    assert world.run(run).version == 1
