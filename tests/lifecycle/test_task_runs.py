"""Task runs in the real run pipeline (RUN-4, RUN-17, LIFE-2, LIFE-3): a task is paid for like any run."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from dpp.lifecycle.config import TaskSettings
from dpp.lifecycle.flow.errors import TaskRunRefused, TaskRunsUnavailable
from dpp.lifecycle.flow.ports import TaskRunRequest, TaskRunState
from dpp.packs.contract import PackFailure, PackReason, PackSuccess
from dpp.platform.errors import DependencyUnavailable
from dpp.runs import store
from dpp.runs.execute import execute
from dpp.runs.model import Run
from lifecycle_general.task_runs import PipelineTaskRuns
from tests.lifecycle.environment import Environment, open_environment
from tests.runs.switched import disable
from tests.support.stored import existing
from tests.support.world import A_CREDIT, DONE, ScriptedPacks, Tenant, World, message_of

ORDERS = TaskRunRequest(
    key="task-20260301-001-1", session_id="task-20260301-001", question="What now?", context="This."
)
MAX_COST = 50_000


def _settings(tenant_id: str, **changes: Any) -> TaskSettings:
    return TaskSettings.load({"DPP_LIFECYCLE_TENANT": tenant_id} | changes)


def _task_runs(world: World, tenant_id: str, **changes: Any) -> PipelineTaskRuns:
    return PipelineTaskRuns(world.submit_effects(), world.storage, _settings(tenant_id, **changes))


def _work(world: World, packs: ScriptedPacks | None = None) -> int:
    messages = world.messages()
    for message in messages:
        execute(message, "a-receipt", world.work_effects(packs))
    return len(messages)


def _run(world: World, tenant: Tenant, run_id: UUID) -> Run:
    return existing(world.using(store.find, tenant.tenant_id, run_id))


@pytest.fixture(name="paying")
def paying_env(world: World) -> Iterator[Environment]:
    with open_environment(world.database_url) as opened:
        opened.clock.seconds = (world.now() - opened.now).total_seconds()
        yield opened


def test_task_is_executed_by_one_run_that_is_paid_once(world: World, paying: Environment) -> None:
    """An attempt is one run, whatever is repeated; its charge equals the ledger's."""
    tenant, env = world.tenant(), paying
    task_runs = _task_runs(world, tenant.tenant_id)
    effects = replace(env.runner_effects(task_runs=task_runs), objects=world.storage)
    event_id = env.emit("a pull request")
    env.dispatch()
    assert env.run_tasks(effects).sent == 1
    env.rows("UPDATE lifecycle_tasks SET run_id = NULL, next_look_at = created_at")  # the state after a crash
    assert env.run_tasks(effects).sent == 1
    env.pass_time(130)
    assert env.run_tasks(effects).at_work == 1
    packs = ScriptedPacks(replace_cost(DONE, 20_000))
    _work(world, packs)
    env.pass_time(130)
    assert env.run_tasks(effects).succeeded == 1
    env.run_ticks(2)
    assert env.event(event_id) == ("COMPLETED", None)
    ((task_id,),) = env.rows("SELECT task_id FROM lifecycle_tasks")
    assert env.rows("SELECT count(*), min(trace_id) FROM runs") == [(1, task_id)]
    assert len(packs.requests) == 1
    assert "a pull request" in str(packs.requests[0].inputs["question"])
    result = json.loads(world.storage.get(f"state/results/{task_id}.json") or b"")
    assert (result["status"], result["summary"], result["charged_usd"]) == ("SUCCEEDED", "42", "0.0200")
    raw = json.loads(world.storage.get(f"state/results/{task_id}-raw.json") or b"")
    assert (raw["run_id"], raw["cost"]["used_usd"]) == (result["soldier_id"], "0.0200")
    assert world.ledger.balance(tenant.tenant_id) == A_CREDIT - 20_000


def replace_cost(done: PackSuccess, cost_usd_micros: int) -> PackSuccess:
    """The same result with another cost."""
    return done.model_copy(update={"cost_usd_micros": cost_usd_micros})


def test_a_run_that_is_too_unsure_needs_a_person(world: World) -> None:
    tenant = world.tenant()
    task_runs = _task_runs(world, tenant.tenant_id)
    run_id = task_runs.send(ORDERS)
    _work(world, ScriptedPacks(DONE.model_copy(update={"reliability_score": 0.4})))
    report = existing(task_runs.report(run_id))
    assert (report.state, report.needs_person) == (TaskRunState.FAILED, True)
    assert report.reason_code == "PACK_RELIABILITY_BELOW_MINIMUM"


def test_failed_run_needs_no_person_and_reports_its_charge(world: World) -> None:
    tenant = world.tenant()
    task_runs = _task_runs(world, tenant.tenant_id)
    run_id = task_runs.send(ORDERS)
    _work(world, ScriptedPacks(PackFailure(reason_code=PackReason.PACK_FAILED, detail="ValueError")))
    report = existing(task_runs.report(run_id))
    assert (report.state, report.needs_person, report.detail) == (TaskRunState.FAILED, False, "ValueError")
    assert report.raw is None
    assert float(report.charged_usd) > 0
    assert task_runs.send(ORDERS) == run_id  # its key is still in use


@pytest.mark.parametrize("lost", ["gone", "damaged"])
def test_an_envelope_that_is_not_what_was_stored_fails_the_attempt(world: World, lost: str) -> None:
    tenant = world.tenant()
    task_runs = _task_runs(world, tenant.tenant_id)
    run_id = task_runs.send(ORDERS)
    _work(world, ScriptedPacks(replace_cost(DONE, 20_000)))
    pointer = existing(_run(world, tenant, run_id).result)
    if lost == "gone":
        world.s3.delete_object(Bucket=world.bucket, Key=pointer.key)
    else:
        world.storage.put_json(pointer.key, b"{}")
    report = existing(task_runs.report(run_id))
    assert (report.state, report.raw) == (TaskRunState.FAILED, None)
    assert report.reason_code == ("RESULT_MISSING" if lost == "gone" else "RESULT_DAMAGED")


def test_a_run_past_its_retention_or_of_another_tenant_is_gone(world: World) -> None:
    tenant, stranger = world.tenant(), world.tenant()
    task_runs = _task_runs(world, tenant.tenant_id)
    run_id = task_runs.send(ORDERS)
    assert _task_runs(world, stranger.tenant_id).report(run_id) is None
    assert task_runs.report(uuid4()) is None
    assert message_of(_run(world, tenant, run_id)).run_id == run_id
    world.sql("UPDATE runs SET retention_until = created_at - interval '1 second' WHERE run_id = %s", (run_id,))
    assert task_runs.report(run_id) is None


def test_temporary_errors_wait_and_permanent_ones_are_rejected(world: World) -> None:
    poor, slow = world.tenant(credit_usd_micros=MAX_COST - 100), world.tenant(rate_limit_per_minute=1)
    with pytest.raises(TaskRunsUnavailable, match="budget"):
        _task_runs(world, poor.tenant_id).send(ORDERS)
    _task_runs(world, slow.tenant_id).send(replace(ORDERS, key="another-key"))
    with pytest.raises(TaskRunsUnavailable, match="this minute"):
        _task_runs(world, slow.tenant_id).send(ORDERS)
    with pytest.raises(TaskRunsUnavailable, match="does not exist or is not active"):
        _task_runs(world, "t_nobody").send(ORDERS)
    tenant = world.tenant()
    task_runs = _task_runs(world, tenant.tenant_id)
    task_runs.send(ORDERS)
    with pytest.raises(TaskRunRefused, match="another payload"):
        task_runs.send(replace(ORDERS, question="Something else?"))
    with pytest.raises(TaskRunRefused, match="does not accept"):
        task_runs.send(replace(ORDERS, key="another-key", question=" "))
    assert world.position(tenant).drift_usd_micros == 0


def test_a_disabled_pack_lets_tasks_wait(world: World) -> None:
    """TIX-1."""
    tenant = world.tenant()
    disable(world.database)
    with pytest.raises(TaskRunsUnavailable, match="disabled"):
        _task_runs(world, tenant.tenant_id).send(ORDERS)
    assert world.ledger.balance(tenant.tenant_id) == A_CREDIT


def test_suspended_tenant_gets_no_runs(world: World) -> None:
    tenant = world.tenant()
    world.sql("UPDATE tenants SET status = 'SUSPENDED' WHERE tenant_id = %s", (tenant.tenant_id,))
    with pytest.raises(TaskRunsUnavailable):
        _task_runs(world, tenant.tenant_id).send(ORDERS)


def test_a_queue_that_is_down_lets_the_task_wait_and_gives_the_money_back(world: World) -> None:
    tenant = world.tenant()
    world.sqs.delete_queue(QueueUrl=world.queue_url)
    with pytest.raises(TaskRunsUnavailable):
        _task_runs(world, tenant.tenant_id).send(ORDERS)
    assert world.ledger.balance(tenant.tenant_id) == A_CREDIT


def test_unavailable_runs_are_a_dependency_failure() -> None:
    assert issubclass(TaskRunsUnavailable, DependencyUnavailable)
