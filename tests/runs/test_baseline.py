"""Eval runs that are compared with an earlier run by its id (RUN-28)."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from dpp.packs.contract import PackSuccess, PackType
from dpp.platform.errors import StorageUnavailable
from dpp.runs.execute import execute
from dpp.runs.machine import Status
from dpp.runs.model import Run
from tests.support.api import ApiClient, a_body
from tests.support.faults import Flaky
from tests.support.world import A_COST, ScriptedPacks, Tenant, World, message_of

ITEMS = [{"id": f"q{number}", "scores": [0.5], "notes": []} for number in range(3)]
SCORED: dict[str, Any] = {"metrics": [{"name": "exact_match", "type": "exact_match", "mean": 0.5}], "items": ITEMS}
BASELINE = {"metrics": ["exact_match"], "items": ITEMS}
INPUTS: dict[str, Any] = {
    "predictions": [{"id": "q1", "value": "1"}],
    "references": [{"id": "q1", "value": "1"}],
    "metrics": [{"type": "exact_match"}],
}


def ended(world: World, tenant: Tenant, inputs: dict[str, Any], packs: ScriptedPacks, **effects: Any) -> Run:
    run = world.submit(tenant, pack_type=PackType.EVAL, inputs=inputs).run
    execute(message_of(run), "receipt", replace(world.work_effects(packs), **effects))
    return world.run(run)


def scored(**more: Any) -> ScriptedPacks:
    return ScriptedPacks(PackSuccess(data=SCORED | more, reliability_score=1, cost_usd_micros=A_COST))


@pytest.mark.parametrize("more", [{}, {"bulk": "x" * 1_000_000, "items": ITEMS * 20_000}], ids=["small", "in parts"])
def test_the_scores_of_the_earlier_run_stand_in_place_of_its_id(world: World, more: dict[str, Any]) -> None:
    """RUN-28, RUN-18: also where they are stored beside a large envelope; the stored inputs keep the id."""
    tenant = world.tenant()
    earlier = ended(world, tenant, INPUTS, scored(**more))
    packs = scored()
    later = ended(world, tenant, INPUTS | {"baseline_run_id": earlier.id}, packs)
    [request] = packs.requests
    assert request.inputs == INPUTS | {"baseline": BASELINE | {"items": more.get("items", ITEMS)}}
    assert later.status == Status.COMPLETED


def test_a_storage_that_is_away_for_a_moment_is_asked_again(world: World) -> None:
    tenant = world.tenant()
    earlier = ended(world, tenant, INPUTS, scored())
    storage = Flaky(world.storage, StorageUnavailable, before={"get"}, times=1)
    packs = scored()
    ended(world, tenant, INPUTS | {"baseline_run_id": earlier.id}, packs, storage=storage)
    assert packs.requests[0].inputs["baseline"] == BASELINE


def _of_another_tenant(world: World, tenant: Tenant) -> str:
    return ended(world, world.tenant(), INPUTS, scored()).id


def _of_another_pack(world: World, tenant: Tenant) -> str:
    run = world.submit(tenant).run
    execute(message_of(run), "receipt", world.work_effects())
    return run.id


def _queued(world: World, tenant: Tenant) -> str:
    return world.submit(tenant, pack_type=PackType.EVAL, inputs=INPUTS).run.id


def _unknown(world: World, tenant: Tenant) -> str:
    return str(uuid4())


@pytest.mark.parametrize("named", [_of_another_tenant, _of_another_pack, _queued, _unknown])
def test_a_run_that_is_no_ended_eval_run_of_the_tenant_is_refused(api: ApiClient, world: World, named: Any) -> None:
    """RUN-11, RUN-28: at submit, for nothing; in the worker, whatever the API let pass. All in the same words."""
    tenant = world.tenant()
    inputs = INPUTS | {"baseline_run_id": named(world, tenant)}
    answer = api.submit(tenant, a_body(pack_type="eval", inputs=inputs))
    assert answer.status == 422
    why = "no ended eval run of this tenant has a result by this id"
    assert answer.body["errors"] == [{"pointer": "/inputs/baseline_run_id", "detail": why}]
    packs = scored()
    failed = ended(world, tenant, inputs, packs)
    assert (failed.status, failed.last_error_reason_code) == (Status.FAILED, "PACK_INPUTS_INVALID")
    assert failed.last_error_detail == f"baseline_run_id: {why}"
    assert packs.requests == []


def test_a_baseline_is_given_once(api: ApiClient, world: World) -> None:
    inputs = INPUTS | {"baseline_run_id": str(uuid4()), "baseline": BASELINE}
    answer = api.submit(world.tenant(), a_body(pack_type="eval", inputs=inputs))
    assert answer.body["errors"] == [{"pointer": "/inputs", "detail": "give baseline or baseline_run_id, not both"}]
