"""Faults that no single call shows: those of time, of leases, of scripts, of rows that can't move."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

import psycopg
import pytest

from dpp.money.keys import KeySpace
from dpp.money.ledger import _REFUND_FULL, _SETTLE, Closed, Ledger
from dpp.packs.contract import PackRequest, PackResult
from dpp.platform.db import redis
from dpp.platform.db.redis import Script
from dpp.platform.errors import QueueUnavailable, RedisUnavailable
from dpp.runs.errors import EnqueueFailed, InsufficientBudget
from dpp.runs.execute import execute
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.jobs.reap import reap
from dpp.runs.jobs.reconcile import finish_expired, reconcile
from dpp.runs.jobs.sweep import sweep
from dpp.runs.machine import MoneyState, Status
from dpp.runs.model import envelope_key
from dpp.runs.submit import SubmitEffects, Submitted, submit
from tests.support.faults import Flaky
from tests.support.proxy import Fault, Proxy
from tests.support.world import A_COST, A_CREDIT, A_RESERVATION, DONE, ScriptedPacks, World, a_request, message_of

A_FEE = 5_000


class During(ScriptedPacks):
    """A pack during which something happens."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__()
        self._happens = happens

    def run(self, request: PackRequest, *, cancelled: threading.Event) -> PackResult:
        """Let it happen, and answer as if nothing had."""
        self._happens()
        return super().run(request, cancelled=cancelled)


@pytest.fixture
def redis_proxy(world: World) -> Iterator[Proxy]:
    """A proxy between the ledger under test and Redis."""
    with Proxy(world.redis_url) as proxy:
        yield proxy


@pytest.mark.parametrize("times", [1, 2], ids=["the driver asks again", "the caller asks again"])
@pytest.mark.parametrize("move", ["settle", "refund"])
def test_d2_a_move_whose_reply_was_lost_is_asked_again_and_moves_money_once(
    world: World, redis_proxy: Proxy, move: str, times: int
) -> None:
    """D2: the script ran, its answer got lost, and the driver or the caller repeats it."""
    _, run = world.new_leased_run()
    client: Any = redis.connect(redis_proxy.url)
    with closing(client):
        ledger = Ledger(client, KeySpace())
        moves: dict[str, tuple[Script, Callable[[], Closed]]] = {
            "settle": (_SETTLE, lambda: ledger.settle(run.tenant_id, run.id, A_COST)),
            "refund": (_REFUND_FULL, lambda: ledger.refund_full(run.tenant_id, run.id)),
        }
        script, ask = moves[move]
        client.script_load(script.source)
        redis_proxy.arm(Fault.SWALLOW_REPLY, script.sha1.encode(), times=times)
        if times == 2:
            with pytest.raises(RedisUnavailable):
                ask()
        closed = ask()
    assert redis_proxy.tripped.is_set()
    assert closed.repeated, "the answer is the receipt of the call whose reply was lost"
    left = A_CREDIT - (A_COST if move == "settle" else 0)
    assert closed.balance_usd_micros == world.ledger.balance(run.tenant_id) == left


def test_d2_a_reservation_whose_hour_passes_while_its_worker_works_is_settled_as_agreed(world: World) -> None:
    """D2: `reserve:{run}` ends, sweeper and reconcile fire, and the money is still the worker's to settle."""
    tenant, run = world.new_run()
    keys, client = world.ledger.keys, cast(Any, world.ledger.client)

    def an_hour_passes() -> None:
        assert client.delete(keys.reservation(run.tenant_id, run.id)) == 1
        client.zincrby(keys.reservation_ages(run.tenant_id), -3_700_000, run.id)
        world.sql(  # the heartbeat has kept the lease
            "UPDATE runs SET created_at = created_at - interval '2 hours', "
            "lease_expires_at = now() + interval '2 minutes'"
        )
        assert sweep(world.finalize_effects(), world.new_database()).seen == 0
        assert reconcile(world.reconcile_effects(), world.new_database()).orphans.seen == 0

    execute(message_of(run), "receipt", world.work_effects(During(an_hour_passes)))

    ended = world.run(run)
    assert (ended.status, ended.actual_cost_usd_micros) == (Status.COMPLETED, A_COST)
    assert world.position(tenant).balance_usd_micros == A_CREDIT - A_COST
    assert world.position(tenant).balanced


def test_run_6_of_100_parallel_submits_of_60_percent_of_a_balance_one_is_accepted(world: World) -> None:
    """RUN-6, RUN-9: over the whole path, with 20 containers at once; the other 99 get BUDGET_DRAINED."""
    tenant = world.tenant(1_000_000)
    start, local = threading.Barrier(20), threading.local()

    def container() -> None:
        local.effects = SubmitEffects(world.new_database(), world.ledger, world.queue)
        start.wait(30)

    def ask(_number: int) -> Submitted | InsufficientBudget:
        try:
            return submit(a_request(tenant, reserved_usd_micros=600_000), local.effects)
        except InsufficientBudget as insufficient:
            return insufficient

    with ThreadPoolExecutor(20, initializer=container) as pool:
        answers = list(pool.map(ask, range(100)))

    accepted = [answer for answer in answers if isinstance(answer, Submitted)]
    assert (len(accepted), len(answers)) == (1, 100)
    assert world.position(tenant).balance_usd_micros == 400_000
    assert world.position(tenant).balanced


def test_run_19_a_worker_that_goes_on_without_its_lease_writes_nothing_where_the_reaper_won(world: World) -> None:
    """RUN-19, RUN-20: it never heard that its lease was over (a starved thread), finishes, and touches nothing."""
    tenant, run = world.new_run()
    taken: list[int] = []

    def the_reaper_comes() -> None:
        taken.append(reap(world.finalize_effects(), world.new_database(), world.later(seconds=121)).ended)

    execute(message_of(run), "receipt", world.work_effects(During(the_reaper_comes)))

    ended = world.run(run)
    assert taken == [1]
    assert (ended.last_error_reason_code, ended.actual_cost_usd_micros) == ("WORKER_TIMEOUT", A_FEE)
    assert world.storage.get(envelope_key(ended)) is None
    assert world.position(tenant).balance_usd_micros == A_CREDIT - A_FEE


def test_run_19_a_loser_leaves_the_object_at_the_winners_key_as_it_is(world: World) -> None:
    """RUN-19, RUN-22: reconcile completed the run by the envelope in S3; the loser's own goes nowhere."""
    from dpp.runs import envelope

    tenant, run = world.new_run()
    won: list[bytes] = []

    def reconcile_comes() -> None:
        leased = world.run(run)
        won.append(envelope.build(leased, replace_cost(20_000), 20_000).body)
        world.storage.put_json(envelope_key(leased), won[0])
        assert finish_expired(world.reconcile_effects(), leased, world.later(seconds=121)) is not None

    execute(message_of(run), "receipt", world.work_effects(During(reconcile_comes)))

    ended = world.run(run)
    assert (ended.status, ended.actual_cost_usd_micros) == (Status.COMPLETED, 20_000)
    assert world.storage.get(envelope_key(ended)) == won[0]
    assert world.position(tenant).balanced


def replace_cost(cost_usd_micros: int) -> Any:
    """The usual answer at another price."""
    return DONE.model_copy(update={"cost_usd_micros": cost_usd_micros})


def test_run_8_who_asks_again_while_the_refund_is_under_way_is_not_promised_a_run(world: World) -> None:
    """RUN-8, RUN-4: not queued, claimed, and its process died: a 202 now would name a run that nobody works on."""
    tenant = world.tenant()
    request = a_request(tenant)
    no_refund: Any = Flaky(world.ledger, RedisUnavailable, before={"refund_full"})
    no_queue: Any = Flaky(world.queue, QueueUnavailable, before={"send"})
    dying = replace(world.submit_effects(), ledger=no_refund, queue=no_queue)
    with pytest.raises(EnqueueFailed) as first:
        submit(request, dying)

    with pytest.raises(EnqueueFailed) as again:
        submit(request, world.submit_effects())

    assert again.value.run_id == first.value.run_id
    reconcile(world.reconcile_effects(), world.new_database(), world.later(minutes=6))
    accepted = submit(request, world.submit_effects())
    assert accepted.run.id != first.value.run_id
    assert world.position(tenant).balance_usd_micros == A_CREDIT - A_RESERVATION
    assert world.position(tenant).balanced


def test_every_script_may_be_forgotten_before_every_call_of_a_runs_life(world: World) -> None:
    """RUN-6: a failover's new primary knows no script (NOSCRIPT); each is sent again, and nothing is done twice."""
    real = cast(Any, world.ledger.client)
    forgotten: list[str] = []

    class Forgetful:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def evalsha(self, digest: str, *args: Any) -> Any:
            real.script_flush()
            forgotten.append(digest)
            return real.evalsha(digest, *args)

    tenant, ledger = world.tenant(), Ledger(cast(Any, Forgetful()), world.ledger.keys)
    submits = replace(world.submit_effects(), ledger=ledger)
    done, left = (submit(a_request(tenant), submits).run for _ in range(2))
    execute(message_of(done), "receipt", replace(world.work_effects(), ledger=ledger))
    sweep(FinalizeEffects(world.database, ledger), world.new_database(), world.later(minutes=61))

    assert len(set(forgotten)) >= 5
    assert (world.run(done).status, world.run(left).money_state) == (Status.COMPLETED, MoneyState.REFUNDED)
    assert world.position(tenant).balance_usd_micros == A_CREDIT - A_COST
    assert world.position(tenant).balanced


def test_run_16_the_heartbeat_keeps_a_message_invisible_for_as_long_as_the_work_lasts(world: World) -> None:
    """RUN-16: a visibility of one second, work of more than that, and nobody else ever gets the message."""
    run = world.submit(world.tenant()).run
    [message] = world.sqs.receive_message(QueueUrl=world.queue_url, VisibilityTimeout=1)["Messages"]

    def work_for_longer() -> None:
        found = world.sqs.receive_message(QueueUrl=world.queue_url, WaitTimeSeconds=2)
        assert "Messages" not in found, "the message is with its worker"

    effects = replace(world.work_effects(During(work_for_longer)), heartbeat_interval_seconds=0.1)
    execute(message_of(run), message["ReceiptHandle"], effects)
    assert world.run(run).status == Status.COMPLETED


def test_run_16_without_a_heartbeat_the_message_comes_to_another_who_leaves_it(world: World) -> None:
    """RUN-16: the visibility was too short, and the second delivery does no work and charges nothing."""
    tenant, second = world.tenant(), ScriptedPacks()
    run = world.submit(tenant).run
    world.sqs.receive_message(QueueUrl=world.queue_url, VisibilityTimeout=0)

    def another_gets_it() -> None:
        for message in world.messages():
            execute(message, "another receipt", world.work_effects(second))

    execute(message_of(run), "receipt", world.work_effects(During(another_gets_it)))
    assert second.requests == []
    assert world.run(run).actual_cost_usd_micros == A_COST
    assert world.position(tenant).balanced


def test_run_20_a_lease_of_nothing_cannot_be_written(world: World) -> None:
    """RUN-20: a PROCESSING run without a lease would wait for ever, so the schema knows none."""
    run = world.leased(world.tenant())
    refusals = {
        "lease_expires_at = NULL": "runs_lease_is_whole",
        "lease_token = NULL, lease_expires_at = NULL": "runs_status_and_money_agree",
    }
    for columns, constraint in refusals.items():
        with world.database.connection() as connection, pytest.raises(psycopg.errors.CheckViolation) as refused:
            connection.execute(f"UPDATE runs SET {columns} WHERE run_id = %s".encode(), [run.run_id])
        assert refused.value.diag.constraint_name == constraint


def test_run_20_a_lease_far_in_the_future_is_no_lease(world: World) -> None:
    """RUN-20: no worker can hold one of over two minutes, so the reaper takes it as run out instead of waiting."""
    tenant = world.tenant()
    broken, healthy = world.leased(tenant), world.leased(tenant)
    world.sql("UPDATE runs SET lease_expires_at = now() + interval '10 years' WHERE run_id = %s", [broken.run_id])
    assert reap(world.finalize_effects(), world.new_database()).ended == 1
    assert world.run(broken).last_error_reason_code == "WORKER_TIMEOUT"
    assert world.run(healthy).status == Status.PROCESSING
    assert world.position(tenant).balanced
