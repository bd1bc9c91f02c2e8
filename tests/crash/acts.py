"""The paths of the matrix: what is there before, and what the crashed process does."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import uuid4

import pytest

from dpp.packs.contract import PackFailure, PackReason
from dpp.platform.aws.queue import Queue
from dpp.platform.errors import DependencyUnavailable, RedisUnavailable, StorageUnavailable
from dpp.runs import execute, store
from dpp.runs.jobs.reap import reap
from dpp.runs.jobs.reconcile import reconcile
from dpp.runs.jobs.retain import retain
from dpp.runs.jobs.sweep import sweep
from dpp.runs.model import Run
from tests.crash.environment import Container, Environment
from tests.support.faults import FailingClient, Flaky
from tests.support.stored import existing
from tests.support.world import A_COST, A_RESERVATION, DONE, Tenant


@dataclass(frozen=True, slots=True)
class Act:
    """One path, and calls that it must make."""

    before: Callable[[Environment], object]
    perform: Callable[[Environment, Container], object]
    calls: frozenset[str]


def _persistent_client(env: Environment) -> None:
    env.client(persistent=True)


def _passing_client(env: Environment) -> None:
    env.client()


def _accepted_client(env: Environment) -> None:
    env.client(persistent=True).submit(env.world.submit_effects())


def _unmapped_client(env: Environment) -> None:
    """Redis has lost the mapping: only the unique index knows the key (D4)."""
    _accepted_client(env)
    env.world.ledger.client.delete(_mapping(env))


def _client_mapped_to_none(env: Environment) -> None:
    """The mapping leads to a run that never reached the queue (RUN-8); its process died before it forgot the key."""
    env.client(persistent=True).submit(replace(env.world.submit_effects(), queue=_no_queue()))
    (row,) = env.world.sql("SELECT run_id::text, payload_hash FROM runs")
    mapping = {"run_id": row[0], "payload_hash": row[1], "created_at_ms": "0"}
    client: Any = env.world.ledger.client
    client.hset(_mapping(env), mapping=mapping)


def _client_while_disabled(env: Environment) -> None:
    env.client(persistent=True)
    env.switch(enabled=False)


def _unmapped_client_while_disabled(env: Environment) -> None:
    """The insert is refused for the switch's sake, and the key has its run all the same (D4)."""
    _unmapped_client(env)
    env.switch(enabled=False)


def _queued_while_disabled(env: Environment) -> None:
    env.queued()
    env.switch(enabled=False)


def _no_queue_for_the_container(env: Environment) -> None:
    env.container_sqs = FailingClient()
    env.client(persistent=True)


def _failing_pack(env: Environment) -> None:
    """The pack overruns its timebox (RUN-17)."""
    env.packs.result = PackFailure(reason_code=PackReason.PACK_TIMEBOX_EXCEEDED, detail="over its timebox")
    env.queued()


def _expired_lease(env: Environment) -> None:
    _leased(env)
    env.clock.move(150)


def _message_lost(env: Environment) -> None:
    env.queued()
    env.world.messages()
    env.clock.move(3_700)


def _half_finished(env: Environment) -> None:
    """Each thing that a crash leaves half done, all in one tenant's books."""
    tenant = env.tenant()
    for at in ("put_json", "settle"):
        _dead_after_claim(env, tenant, at)
    _refund_half_finished(env, tenant)
    _leased(env, tenant)
    _unsent(env, tenant)
    env.world.ledger.reserve(tenant.tenant_id, str(uuid4()), A_RESERVATION, 0)
    env.clock.move(400)


def _ledgers_lost(env: Environment) -> None:
    """Redis has lost all of one tenant's data, and of another's the last settle (a failover)."""
    env.redis_lost_writes = True
    keys, client = env.world.ledger.keys, env.world.ledger.client
    # In the order in which the jobs visit them, so that the calls have one order, too.
    empty, behind = sorted((env.tenant(), env.tenant()), key=lambda tenant: tenant.tenant_id)
    _ended(env, empty)
    _leased(env, empty)
    client.delete(keys.balance(empty.tenant_id), keys.credits_applied(empty.tenant_id))
    client.delete(keys.reservation_ages(empty.tenant_id), keys.reservation_amounts(empty.tenant_id))
    run = _ended(env, behind)
    client.decrby(keys.balance(behind.tenant_id), A_RESERVATION - A_COST)
    client.delete(keys.receipt(behind.tenant_id, run.id))
    client.hset(keys.reservation_amounts(behind.tenant_id), run.id, str(A_RESERVATION))
    client.zadd(keys.reservation_ages(behind.tenant_id), {run.id: 1})
    env.clock.move(60)


def _a_month_later(env: Environment) -> None:
    tenant = env.tenant()
    for _ in range(2):
        _ended(env, tenant)
    env.clock.move(31 * 86_400)


def _submit(env: Environment, container: Container) -> None:
    env.clients[0].submit(container.submit_effects())


def _work(env: Environment, container: Container) -> None:
    env.with_one_heartbeat(container)
    env.deliver(container.worker(env.packs))


def _work_with_retries(env: Environment, container: Container) -> None:
    env.deliver(container.worker(env.packs, retries=True))


def _work_without_heartbeat(env: Environment, container: Container) -> None:
    env.deliver(container.worker(env.packs))


def _reap(env: Environment, container: Container) -> None:
    reap(container.finalize_effects(), container.scan, env.clock.now)


def _sweep(env: Environment, container: Container) -> None:
    sweep(container.finalize_effects(), container.scan, env.clock.now)


def _reconcile(env: Environment, container: Container) -> None:
    reconcile(container.reconcile_effects(), container.scan, env.clock.now)


def _retain(env: Environment, container: Container) -> None:
    retain(container.database, container.scan, env.clock.now)


_SUBMIT = frozenset({"redis.admit", "postgres.insert_run", "redis.remember", "sqs.send_message"})
_FINALIZE = frozenset({"postgres.claim", "postgres.commit"})
_WORK = _FINALIZE | {"postgres.start_processing", "redis.settle"}
ACTS: dict[str, Act] = {
    "submit": Act(_persistent_client, _submit, _SUBMIT | {"postgres.mark_enqueued"}),
    "submit, client leaves": Act(_passing_client, _submit, _SUBMIT),
    "submit again": Act(_accepted_client, _submit, frozenset({"redis.admit", "postgres.run_of_key"})),
    "submit again, unmapped": Act(_unmapped_client, _submit, frozenset({"redis.refund_full", "redis.forget"})),
    "submit, mapped to none": Act(_client_mapped_to_none, _submit, frozenset({"redis.forget"})),
    "submit, no queue": Act(
        _no_queue_for_the_container, _submit, _FINALIZE | {"sqs.send_message", "redis.refund_full"}
    ),
    "submit, disabled": Act(_client_while_disabled, _submit, frozenset({"redis.refund_full", "redis.forget"})),
    "submit again, disabled": Act(_unmapped_client_while_disabled, _submit, frozenset({"postgres.insert_run"})),
    "work, disabled": Act(_queued_while_disabled, _work_without_heartbeat, frozenset({"postgres.park"})),
    "work": Act(Environment.queued, _work, _WORK | {"s3.put_object", "redis.extend", "sqs.change_message_visibility"}),
    "work with retries": Act(Environment.queued, _work_with_retries, _WORK | {"s3.put_object"}),
    "work in vain": Act(_failing_pack, _work_without_heartbeat, _WORK),
    "reap": Act(_expired_lease, _reap, _FINALIZE | {"redis.settle"}),
    "sweep": Act(_message_lost, _sweep, _FINALIZE | {"redis.refund_full"}),
    "reconcile": Act(_half_finished, _reconcile, _FINALIZE | {"redis.settle", "redis.refund_full", "s3.get_object"}),
    "reconcile lost ledgers": Act(_ledgers_lost, _reconcile, frozenset({"redis.rebuild"})),
    "retain": Act(_a_month_later, _retain, frozenset({"postgres.expire", "postgres.purge_inputs"})),
}


def _leased(env: Environment, tenant: Tenant | None = None) -> Run:
    """A run whose worker was never heard of again; its message is gone with it."""
    queued = env.queued(tenant)
    env.world.messages()
    return existing(env.world.using(store.start_processing, queued, f"lease-{uuid4()}"))


def _ended(env: Environment, tenant: Tenant) -> Run:
    queued = env.queued(tenant)
    env.deliver(env.work_effects())
    return queued


def _dead_after_claim(env: Environment, tenant: Tenant, at: str) -> None:
    """A worker that died in its finalize, before the upload or before the settle."""
    run, effects = _leased(env, tenant), env.work_effects()
    broken: dict[str, Any] = {
        "put_json": {"storage": Flaky(env.world.storage, StorageUnavailable, before={at})},
        "settle": {"ledger": Flaky(env.world.ledger, RedisUnavailable, before={at})},
    }
    env.packs.answers[run.id].append(DONE)
    with pytest.raises(DependencyUnavailable):
        execute._finish(run, DONE, replace(effects, **broken[at]))


def _refund_half_finished(env: Environment, tenant: Tenant) -> None:
    """A submit without a queue that died between its claim and its refund."""
    ledger: Any = Flaky(env.world.ledger, RedisUnavailable, before={"refund_full"})
    effects = replace(env.world.submit_effects(), queue=_no_queue(), ledger=ledger)
    assert env.client(tenant).submit(effects) is None


def _unsent(env: Environment, tenant: Tenant) -> None:
    run = env.queued(tenant)
    env.world.messages()
    env.world.sql("UPDATE runs SET enqueued_at = NULL WHERE run_id = %s", [run.run_id])


def _mapping(env: Environment) -> str:
    [client] = env.clients
    return env.world.ledger.keys.idempotency(client.tenant.tenant_id, client.request.idempotency_key)


def _no_queue() -> Queue:
    return Queue("http://nowhere.invalid/queue", lambda: cast(Any, FailingClient()))
