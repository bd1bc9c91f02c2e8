"""RUN-34 (001 §16.3, DEC-4210): whoever ends a run at the same time as another, one wins and the rest do nothing."""

import itertools
import threading
from collections.abc import Callable
from datetime import datetime

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


def _on_threads(actions: dict[str, Callable[[], object]], leave: Callable[[str], None]) -> dict[str, object]:
    """Run each action on a thread of its own; their results, an exception among them re-raised."""
    results: dict[str, object] = {}

    def call(name: str, action: Callable[[], object]) -> None:
        try:
            results[name] = action()
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread below
            results[name] = error
        finally:
            leave(name)

    threads = [threading.Thread(target=call, args=item) for item in actions.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for result in results.values():
        if isinstance(result, BaseException):
            raise result
    return results


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


def _ends(world: World, steps: Steps) -> FinalizeEffects:
    return FinalizeEffects(SteppedDatabase(world.database_url, steps), SteppedLedger(world.ledger, steps))


def _race(
    world: World, tenant: Tenant, order: tuple[str, ...], expired: datetime
) -> tuple[Run, Steps, Steps]:
    """Worker and reaper end one run at once, in this order of steps."""
    turns = Turns(order)
    by_worker, by_reaper = Steps("worker", turns), Steps("reaper", turns)
    run = world.leased(tenant)
    worker, reaper = _worker(world, by_worker), _ends(world, by_reaper)
    results = _on_threads(
        {
            "worker": lambda: execute._finish(run, DONE, worker),
            "reaper": lambda: reap.reap_run(reaper, run, expired),
        },
        turns.leave,
    )
    worker.database.close()
    reaper.database.close()
    winners = [name for name, ended in results.items() if ended is not None]
    assert len(winners) == 1, results
    return world.run(run), by_worker, by_reaper


@pytest.mark.parametrize("order", INTERLEAVINGS, ids=lambda order: "".join(actor[0] for actor in order))
def test_one_of_worker_and_reaper_ends_the_run_and_the_loser_touches_nothing(
    world: World, order: tuple[str, ...]
) -> None:
    """RUN-34, RUN-19: every interleaving of the steps, six times each, is 210 races."""
    tenant, expired = world.tenant(), world.later(minutes=3)
    for _ in range(REPEATS):
        ended, by_worker, by_reaper = _race(world, tenant, order, expired)

        winner, loser = (by_worker, by_reaper) if len(by_worker.taken) > 1 else (by_reaper, by_worker)
        assert loser.taken == ["database"], "a loser asks once and goes: no settle, no write"
        assert winner.taken.count("settle") == 1
        assert winner.taken.count("database") == 2, "one claim, one commit"
        assert winner.actor == order[0], "the first claim wins"
        assert ended.finalize_stage == FinalizeStage.COMMITTED
        assert ended.money_state == MoneyState.SETTLED
        assert ended.version == 3, "insert, lease, claim, commit: no other write"
        if winner is by_worker:
            assert (ended.status, ended.actual_cost_usd_micros) == (Status.COMPLETED, A_COST)
            assert world.storage.get(envelope_key(ended)) is not None
        else:
            assert (ended.status, ended.actual_cost_usd_micros) == (
                Status.FAILED,
                ended.minimum_fee_usd_micros,
            )
            assert world.storage.get(envelope_key(ended)) is None, "the loser wrote nothing to S3"
    assert world.position(tenant).balanced


def test_worker_reaper_and_reconcile_let_loose_end_each_run_once(world: World) -> None:
    """RUN-34, RUN-22: four contenders start together, in whatever order the threads run."""
    tenant, expired = world.tenant(), world.later(minutes=3)
    expected = 0
    for _ in range(25):
        run = world.leased(tenant)
        start = threading.Barrier(4)
        worker = world.work_effects()
        reapers = [FinalizeEffects(world.new_database(), world.ledger) for _ in range(2)]
        jobs = ReconcileEffects(world.new_database(), world.ledger, world.storage, world.queue)

        def at_once[Result](
            action: Callable[[], Result], start: threading.Barrier = start
        ) -> Callable[[], Result]:
            def begin() -> Result:
                start.wait(10)
                return action()

            return begin

        results = _on_threads(
            {
                "worker": at_once(lambda run=run, worker=worker: execute._finish(run, DONE, worker)),  # type: ignore[misc]
                "reaper": at_once(lambda run=run, r=reapers[0]: reap.reap_run(r, run, expired)),  # type: ignore[misc]
                "twin": at_once(lambda run=run, r=reapers[1]: reap.reap_run(r, run, expired)),  # type: ignore[misc]
                "reconcile": at_once(lambda run=run, j=jobs: reconcile.finish_expired(j, run, expired)),  # type: ignore[misc]
            },
            lambda _name: None,
        )
        for database in (*(r.database for r in reapers), jobs.database):
            database.close()
        assert sum(ended is not None for ended in results.values()) == 1, results
        ended = world.run(run)
        assert ended.finalize_stage == FinalizeStage.COMMITTED
        assert ended.version == 3
        expected += ended.actual_cost_usd_micros or 0
    position = world.position(tenant)
    assert position.charges_usd_micros == expected
    assert position.balanced


def test_a_late_heartbeat_keeps_the_run_from_the_reaper(world: World) -> None:
    """RUN-16, RUN-20: the lease is looked at again in the reaper's own write, not only in its scan."""
    tenant = world.tenant()
    run, seen_expired = world.leased(tenant), world.later(seconds=121)
    with world.database.connection() as connection:
        assert [
            found.run_id for found in store.page_through(connection, "page_expired_leases", seen_expired)
        ] == [run.run_id]
        assert store.extend_lease(connection, run, world.later(seconds=100))

    assert reap.reap_run(world.finalize_effects(), run, seen_expired) is None
    assert world.run(run).status == Status.PROCESSING


def test_a_heartbeat_after_the_lease_ran_out_is_refused(world: World) -> None:
    """RUN-16: a worker that slept through its lease has lost it, even before anyone reaps."""
    run = world.leased(world.tenant())
    with world.database.connection() as connection:
        assert not store.extend_lease(connection, run, world.later(seconds=121))


def test_only_one_of_many_workers_leases_a_run(world: World) -> None:
    """RUN-16: the same message delivered to eight workers at once is one PROCESSING, seven skips."""
    run = world.submit(world.tenant()).run
    start = threading.Barrier(8)
    databases = [world.new_database() for _ in range(8)]

    def lease(index: int) -> Run | None:
        with databases[index].connection() as connection:
            start.wait(10)
            return store.start_processing(connection, run, f"lease-{index}")

    results = _on_threads(
        {str(index): (lambda index=index: lease(index)) for index in range(8)},  # type: ignore[misc]
        lambda _name: None,
    )
    assert sum(leased is not None for leased in results.values()) == 1
    assert world.run(run).version == 1
