"""Concurrent submits with one key (RUN-4): one run, one reservation, one message, in any interleaving."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from dpp.money.ledger import Ledger
from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database
from dpp.runs import admission, submit_store
from dpp.runs.errors import IdempotencyConflict, IdempotencyInProgress, RunsError
from dpp.runs.model import SubmitRequest
from dpp.runs.submit import SubmitEffects, Submitted, submit
from tests.http.state import message_count
from tests.support.world import A_RESERVATION, Tenant, World, a_request

KEY = "a-key-of-mine"
THREADS = 10
POSTS = 50


@contextmanager
def containers(world: World, count: int) -> Iterator[list[SubmitEffects]]:
    """The effects of `count` Lambda containers, each with its own connections."""
    with ExitStack() as stack:
        made: list[SubmitEffects] = []
        for _ in range(count):
            database, ledger = Database(world.database_url), Ledger.connect(world.redis_url)
            stack.callback(database.close)
            stack.callback(ledger.client.close)
            made.append(SubmitEffects(database, ledger, Queue(world.queue_url, lambda: world.sqs)))
        yield made


def outcome_of(request: SubmitRequest, effects: SubmitEffects) -> Submitted | RunsError:
    """The response of one client."""
    try:
        return submit(request, effects)
    except RunsError as error:
        return error


def assert_one_of_each(world: World, tenant: Tenant) -> None:
    """One row, one reservation, one message, a balanced ledger, no lock."""
    assert world.sql("SELECT count(*) FROM runs") == [(1,)]
    position = world.position(tenant)
    assert position.balanced
    assert position.open_reservations_usd_micros == A_RESERVATION
    assert message_count(world) == 1
    assert world.ledger.client.hlen(world.ledger.keys.reservation_amounts(tenant.tenant_id)) == 1


def test_50_identical_submits_at_once_create_one_run(world: World) -> None:
    """RUN-4: every client gets the same receipt or IDEMPOTENCY_IN_PROGRESS."""
    tenant = world.tenant()
    request = a_request(tenant, idempotency_key=KEY)
    gate = threading.Barrier(THREADS)

    def client(effects: SubmitEffects) -> list[Submitted | RunsError]:
        gate.wait(10)
        return [outcome_of(request, effects) for _ in range(POSTS // THREADS)]

    with containers(world, THREADS) as made, ThreadPoolExecutor(THREADS) as pool:
        outcomes = [outcome for found in pool.map(client, made) for outcome in found]
    accepted = [outcome for outcome in outcomes if isinstance(outcome, Submitted)]
    assert len(outcomes) == POSTS
    assert all(isinstance(outcome, Submitted | IdempotencyInProgress) for outcome in outcomes)
    assert len({outcome.run.id for outcome in accepted}) == 1
    assert [outcome.replayed for outcome in accepted].count(False) == 1
    assert_one_of_each(world, tenant)


def test_50_submits_at_once_without_lock_and_mapping_create_one_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D4: Redis loses both at once: only the unique index guards the key."""
    tenant = world.tenant()
    request = a_request(tenant, idempotency_key=KEY)
    real_admit = admission.admit

    def admit_and_forget(ledger: Ledger, *args: Any) -> admission.Admission:
        keys = (ledger.keys.idempotency, ledger.keys.idempotency_lock)
        ledger.client.delete(*(key(tenant.tenant_id, KEY) for key in keys))
        return real_admit(ledger, *args)

    monkeypatch.setattr(admission, "admit", admit_and_forget)
    gate = threading.Barrier(THREADS)

    def client(effects: SubmitEffects) -> list[Submitted | RunsError]:
        gate.wait(10)
        return [outcome_of(request, effects) for _ in range(POSTS // THREADS)]

    with containers(world, THREADS) as made, ThreadPoolExecutor(THREADS) as pool:
        outcomes = [outcome for found in pool.map(client, made) for outcome in found]
    accepted = [outcome for outcome in outcomes if isinstance(outcome, Submitted)]
    assert len({outcome.run.id for outcome in accepted}) == 1
    assert [outcome.replayed for outcome in accepted].count(False) == 1
    assert_one_of_each(world, tenant)


STEPS: dict[str, tuple[Any, str]] = {
    "before the insert": (submit_store, "insert"),
    "before the mapping": (admission, "remember"),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("same", [True, False], ids=["same body", "another body"])
def test_of_two_bodies_with_one_key_one_is_accepted(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str, same: bool
) -> None:
    """RUN-4: B arrives between two steps of A: B conflicts, replays or waits; A is the one run."""
    tenant = world.tenant()
    request_a = a_request(tenant, idempotency_key=KEY)
    request_b = request_a if same else a_request(tenant, idempotency_key=KEY, inputs={"question": "B?"})
    got: list[Submitted | RunsError] = []
    with containers(world, 1) as [other]:
        _once_before(monkeypatch, step, lambda: got.append(outcome_of(request_b, other)))
        a = submit(request_a, world.submit_effects())
    [b] = got
    if not same:
        assert isinstance(b, IdempotencyConflict)
    elif step == "before the insert":
        assert isinstance(b, IdempotencyInProgress)
    else:
        assert isinstance(b, Submitted)
        assert b.run == a.run
    assert_one_of_each(world, tenant)


@pytest.mark.parametrize("same", [True, False], ids=["same body", "another body"])
def test_the_index_guards_the_key_after_the_lock_expired(
    world: World, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    """D4: A took longer than its lock, and B took the key: A is refunded and gets the response of B's run."""
    tenant = world.tenant()
    request_a = a_request(tenant, idempotency_key=KEY)
    request_b = request_a if same else a_request(tenant, idempotency_key=KEY, timebox_sec=30)
    got: list[Submitted | RunsError] = []

    def lock_runs_out_and_b_comes() -> None:
        world.ledger.client.delete(world.ledger.keys.idempotency_lock(tenant.tenant_id, KEY))
        got.append(outcome_of(request_b, other))

    with containers(world, 1) as [other]:
        _once_before(monkeypatch, "before the insert", lock_runs_out_and_b_comes)
        a = outcome_of(request_a, world.submit_effects())
    [b] = got
    assert isinstance(b, Submitted)
    if same:
        assert isinstance(a, Submitted)
        assert (a.run.id, a.replayed) == (b.run.id, True)
    else:
        assert isinstance(a, IdempotencyConflict)
    assert_one_of_each(world, tenant)


@pytest.mark.parametrize("turn", range(2))
def test_two_bodies_at_the_same_time_are_one_202_and_one_409(world: World, turn: int) -> None:
    """RUN-4: by two threads that start together."""
    tenant = world.tenant()
    requests = [a_request(tenant, idempotency_key=KEY), a_request(tenant, idempotency_key=KEY, timebox_sec=45)]
    gate = threading.Barrier(2)

    def client(request: SubmitRequest, effects: SubmitEffects) -> Submitted | RunsError:
        gate.wait(10)
        return outcome_of(request, effects)

    with containers(world, 2) as made, ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(client, requests, made))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["IdempotencyConflict", "Submitted"]
    assert_one_of_each(world, tenant)


def _once_before(monkeypatch: pytest.MonkeyPatch, step: str, act: Callable[[], None]) -> None:
    """Call `act` just before the first call of a step; `act` itself uses the original step."""
    module, name = STEPS[step]
    real = getattr(module, name)

    def act_first(*args: Any) -> Any:
        monkeypatch.setattr(module, name, real)
        act()
        return real(*args)

    monkeypatch.setattr(module, name, act_first)
