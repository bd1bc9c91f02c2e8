"""Each dependency of the worker fails at each of its calls, before or after it took effect (RUN-16 … RUN-22, D3).

Then the message is delivered again and the jobs run later: the run has ended, its money is settled or refunded once,
and the ledger balances.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dpp.platform.errors import DependencyUnavailable, RedisUnavailable, StorageUnavailable
from dpp.runs.execute import WorkEffects, WorkOutcome, execute
from dpp.runs.jobs import reap
from dpp.runs.jobs.reconcile import reconcile
from dpp.runs.jobs.sweep import sweep
from dpp.runs.machine import TERMINAL, MoneyState, Status
from tests.support.faults import Flaky, FlakyDatabase
from tests.support.world import A_COST, A_CREDIT, World, message_of

MINIMUM_FEE = 5_000

type Break = Callable[[World, WorkEffects], WorkEffects]


def _database(**faults: Any) -> Break:
    def broken(world: World, effects: WorkEffects) -> WorkEffects:
        database = FlakyDatabase(world.database_url, **faults)
        world.opened.append(database)
        return replace(effects, database=database)

    return broken


def _ledger(**faults: Any) -> Break:
    def broken(world: World, effects: WorkEffects) -> WorkEffects:
        flaky: Any = Flaky(world.ledger, RedisUnavailable, times=1, **faults)
        return replace(effects, ledger=flaky)

    return broken


def _storage(**faults: Any) -> Break:
    def broken(world: World, effects: WorkEffects) -> WorkEffects:
        flaky: Any = Flaky(world.storage, StorageUnavailable, times=1, **faults)
        return replace(effects, storage=flaky)

    return broken


# The uses of the database in order: 1 lease and inputs, 2 claim, 3 commit.
FAULTS: dict[str, tuple[Break, int]] = {
    "postgres refuses the lease": (_database(refuse={1}), A_COST),
    "postgres loses the reply of the lease": (_database(lose_reply={1}), MINIMUM_FEE),
    "postgres refuses the claim": (_database(refuse={2}), MINIMUM_FEE),
    "postgres loses the reply of the claim": (_database(lose_reply={2}), MINIMUM_FEE),
    "s3 refuses the upload": (_storage(before={"put_json"}), MINIMUM_FEE),
    "s3 loses the reply of the upload": (_storage(after={"put_json"}), A_COST),
    "redis refuses the settle": (_ledger(before={"settle"}), A_COST),
    "redis loses the reply of the settle": (_ledger(after={"settle"}), A_COST),
    "postgres refuses the commit": (_database(refuse={3}), A_COST),
    "postgres loses the reply of the commit": (_database(lose_reply={3}), A_COST),
}


@pytest.mark.parametrize(("fault", "charge"), FAULTS.values(), ids=FAULTS.keys())
def test_after_a_fault_the_run_ends_once_and_the_ledger_balances(world: World, fault: Break, charge: int) -> None:
    """The worker stops at the fault; a redelivery and the jobs finish, at the cost that each fault allows."""
    tenant, run = world.new_run()
    effects = fault(world, replace(world.work_effects(), pauses_seconds=()))
    with pytest.raises(DependencyUnavailable):
        execute(message_of(run), "receipt", effects)

    redelivered = execute(message_of(run), "receipt", world.work_effects()).outcome
    _jobs(world)

    ended = world.run(run)
    assert redelivered in {WorkOutcome.ENDED, WorkOutcome.SKIPPED}
    assert ended.status in TERMINAL
    assert ended.money_state == MoneyState.SETTLED
    assert ended.actual_cost_usd_micros == charge
    position = world.position(tenant)
    assert position.balance_usd_micros == A_CREDIT - charge
    assert position.balanced


@pytest.mark.parametrize("name", FAULTS)
def test_a_worker_with_retries_survives_a_temporary_fault(world: World, name: str) -> None:
    """The same faults, each gone at the second try: the run is executed once, and its result is charged."""
    tenant, run = world.new_run()
    effects = FAULTS[name][0](world, replace(world.work_effects(), pauses_seconds=(0.0,)))
    assert execute(message_of(run), "receipt", effects).outcome == WorkOutcome.ENDED
    ended = world.run(run)
    assert (ended.status, ended.actual_cost_usd_micros) == (Status.COMPLETED, A_COST)
    assert world.position(tenant).balanced


def _jobs(world: World) -> None:
    """All three jobs: after the lease, after the claim, and after the reservation have expired."""
    for minutes in (3, 9, 62, 68):
        later = world.later(minutes=minutes)
        reap.reap(world.finalize_effects(), world.new_database(), later)
        reconcile(world.reconcile_effects(), world.new_database(), later)
        sweep(world.finalize_effects(), world.new_database(), later)
