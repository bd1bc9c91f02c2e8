"""The paths that a crash may meet: how the stage is arranged, and what the process that is hit does then."""

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
from tests.crash.stage import Container, Stage
from tests.faults import Flaky
from tests.http.faulty import FailingClient
from tests.world import A_COST, A_RESERVATION, DONE, Tenant


@dataclass(frozen=True, slots=True)
class Scenario:
    """One path. `keeps`: the arrangement leaves no message, so that it may be copied from test to test."""

    arrange: Callable[[Stage], object]
    act: Callable[[Stage, Container], object]
    keeps: bool = False


def _persistent_client(stage: Stage) -> None:
    stage.client(persistent=True)


def _passing_client(stage: Stage) -> None:
    stage.client()


def _accepted_client(stage: Stage) -> None:
    stage.client(persistent=True).ask(stage.world.submit_effects())


def _unmapped_client(stage: Stage) -> None:
    """Redis has lost the mapping: only the unique index knows the key (D4)."""
    _accepted_client(stage)
    stage.world.ledger.client.delete(_mapping(stage))


def _client_mapped_to_none(stage: Stage) -> None:
    """The mapping leads to a run that never reached the queue (RUN-8); its process died before it forgot the key."""
    stage.client(persistent=True).ask(replace(stage.world.submit_effects(), queue=_no_queue()))
    with stage.world.database.connection() as connection:
        row = connection.execute("SELECT run_id::text, payload_hash FROM runs").fetchone()
    assert row is not None
    mapping = {"run_id": row[0], "payload_hash": row[1], "created_at_ms": "0"}
    client: Any = stage.world.ledger.client
    client.hset(_mapping(stage), mapping=mapping)


def _client_while_disabled(stage: Stage) -> None:
    stage.client(persistent=True)
    stage.switch(enabled=False)


def _unmapped_client_while_disabled(stage: Stage) -> None:
    """The insert is refused for the switch's sake, and the key has its run all the same (D4)."""
    _unmapped_client(stage)
    stage.switch(enabled=False)


def _queued_while_disabled(stage: Stage) -> None:
    stage.queued()
    stage.switch(enabled=False)


def _no_queue_for_the_container(stage: Stage) -> None:
    stage.sqs = FailingClient()
    stage.client(persistent=True)


def _pack_in_vain(stage: Stage) -> None:
    """The pack overruns its timebox (RUN-17)."""
    stage.packs.result = PackFailure(reason_code=PackReason.PACK_TIMEBOX_EXCEEDED, detail="over its timebox")
    stage.queued()


def _lease_run_out(stage: Stage) -> None:
    _leased(stage)
    stage.clock.move(150)


def _message_lost(stage: Stage) -> None:
    stage.queued()
    stage.world.messages()
    stage.clock.move(3_700)


def _half_done(stage: Stage) -> None:
    """Each thing that a crash leaves half done, all in one tenant's books."""
    tenant = stage.tenant()
    for at in ("put_json", "settle"):
        _dead_after_claim(stage, tenant, at)
    _refund_half_done(stage, tenant)
    _leased(stage, tenant)
    _unsent(stage, tenant)
    stage.world.ledger.reserve(tenant.tenant_id, str(uuid4()), A_RESERVATION, 0)
    stage.clock.move(400)


def _ledgers_lost(stage: Stage) -> None:
    """Redis has lost all of one tenant's data, and of another's the last settle (a failover)."""
    stage.redis_lost_writes = True
    keys, client = stage.world.ledger.keys, stage.world.ledger.client
    # In the order in which the jobs visit them, so that the calls have one order, too.
    empty, behind = sorted((stage.tenant(), stage.tenant()), key=lambda tenant: tenant.tenant_id)
    _ended(stage, empty)
    _leased(stage, empty)
    client.delete(keys.balance(empty.tenant_id), keys.credits_applied(empty.tenant_id))
    client.delete(keys.reservation_ages(empty.tenant_id), keys.reservation_amounts(empty.tenant_id))
    run = _ended(stage, behind)
    client.decrby(keys.balance(behind.tenant_id), A_RESERVATION - A_COST)
    client.delete(keys.receipt(behind.tenant_id, run.id))
    client.hset(keys.reservation_amounts(behind.tenant_id), run.id, str(A_RESERVATION))
    client.zadd(keys.reservation_ages(behind.tenant_id), {run.id: 1})
    stage.clock.move(60)


def _a_month_later(stage: Stage) -> None:
    tenant = stage.tenant()
    for _ in range(2):
        _ended(stage, tenant)
    stage.clock.move(31 * 86_400)


def _ask(stage: Stage, container: Container) -> None:
    stage.clients[0].ask(container.submit_effects())


def _work(stage: Stage, container: Container) -> None:
    stage.beat_once(container)
    stage.deliver(container.work_effects(stage.packs))


def _work_with_retries(stage: Stage, container: Container) -> None:
    stage.deliver(container.work_effects(stage.packs, patient=True))


def _work_without_beat(stage: Stage, container: Container) -> None:
    stage.deliver(container.work_effects(stage.packs))


def _reap(stage: Stage, container: Container) -> None:
    reap(container.finalize_effects(), container.scan, stage.clock.now)


def _sweep(stage: Stage, container: Container) -> None:
    sweep(container.finalize_effects(), container.scan, stage.clock.now)


def _reconcile(stage: Stage, container: Container) -> None:
    reconcile(container.reconcile_effects(), container.scan, stage.clock.now)


def _retain(stage: Stage, container: Container) -> None:
    retain(container.database, container.scan, stage.clock.now)


SCENARIOS: dict[str, Scenario] = {
    "submit": Scenario(_persistent_client, _ask),
    "submit, client leaves": Scenario(_passing_client, _ask),
    "submit again": Scenario(_accepted_client, _ask),
    "submit again, unmapped": Scenario(_unmapped_client, _ask),
    "submit, mapped to none": Scenario(_client_mapped_to_none, _ask),
    "submit, no queue": Scenario(_no_queue_for_the_container, _ask),
    "submit, disabled": Scenario(_client_while_disabled, _ask),
    "submit again, disabled": Scenario(_unmapped_client_while_disabled, _ask),
    "work, disabled": Scenario(_queued_while_disabled, _work_without_beat),
    "work": Scenario(Stage.queued, _work),
    "work with retries": Scenario(Stage.queued, _work_with_retries),
    "work in vain": Scenario(_pack_in_vain, _work_without_beat),
    "reap": Scenario(_lease_run_out, _reap, keeps=True),
    "sweep": Scenario(_message_lost, _sweep, keeps=True),
    "reconcile": Scenario(_half_done, _reconcile, keeps=True),
    "reconcile lost ledgers": Scenario(_ledgers_lost, _reconcile, keeps=True),
    "retain": Scenario(_a_month_later, _retain, keeps=True),
}


def _leased(stage: Stage, tenant: Tenant | None = None) -> Run:
    """A run whose worker was never heard of again; its message is gone with it."""
    queued = stage.queued(tenant)
    stage.world.messages()
    with stage.world.database.connection() as connection:
        run = store.start_processing(connection, queued, f"lease-{uuid4()}")
    assert run is not None
    return run


def _ended(stage: Stage, tenant: Tenant) -> Run:
    queued = stage.queued(tenant)
    stage.deliver(stage.work_effects())
    return queued


def _dead_after_claim(stage: Stage, tenant: Tenant, at: str) -> None:
    """A worker that died in its finalize, before the upload or before the settle."""
    run, effects = _leased(stage, tenant), stage.work_effects()
    broken: dict[str, Any] = {
        "put_json": {"storage": Flaky(stage.world.storage, StorageUnavailable, before={at})},
        "settle": {"ledger": Flaky(stage.world.ledger, RedisUnavailable, before={at})},
    }
    stage.packs.answers[run.id].append(DONE)
    with pytest.raises(DependencyUnavailable):
        execute._finish(run, DONE, replace(effects, **broken[at]))


def _refund_half_done(stage: Stage, tenant: Tenant) -> None:
    """A submit without a queue that died between its claim and its refund."""
    ledger: Any = Flaky(stage.world.ledger, RedisUnavailable, before={"refund_full"})
    effects = replace(stage.world.submit_effects(), queue=_no_queue(), ledger=ledger)
    assert stage.client(tenant).ask(effects) is None


def _unsent(stage: Stage, tenant: Tenant) -> None:
    run = stage.queued(tenant)
    stage.world.messages()
    with stage.world.database.connection() as connection:
        connection.execute("UPDATE runs SET enqueued_at = NULL WHERE run_id = %s", [run.run_id])


def _mapping(stage: Stage) -> str:
    [client] = stage.clients
    return stage.world.ledger.keys.idempotency(client.tenant.tenant_id, client.order.idempotency_key)


def _no_queue() -> Queue:
    return Queue("http://nowhere.invalid/queue", lambda: cast(Any, FailingClient()))
