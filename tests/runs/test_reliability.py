"""A result that is less reliable than the run requires is a failure at the minimum fee (RUN-3, RUN-17)."""

import json
from typing import Any

import pytest

from dpp.packs.contract import PackSuccess, PackType
from dpp.runs.execute import execute
from dpp.runs.machine import MoneyState, Status
from dpp.runs.model import Run
from tests.support.world import A_COST, ScriptedPacks, Tenant, World, message_of


def worked(world: World, tenant: Tenant, score: float, **changes: Any) -> Run:
    """A run whose pack returned a result with this score."""
    run = world.submit(tenant, **changes).run
    answer = PackSuccess(data={"answer_text": "42"}, reliability_score=score, cost_usd_micros=A_COST, tokens_consumed=7)
    execute(message_of(run), "receipt", world.work_effects(ScriptedPacks(answer)))
    return world.run(run)


# The worker reads the inputs of this pack before it starts it, for the objects that they name.
INPUTS = {PackType.OCR: {"images": [{"kind": "inline", "data": "aW1hZ2U="}]}}
# minimum, score, True if that is enough
CASES = [
    (0.8, 0.8, True),
    (0.8, 0.9, True),
    (0.8, 0.79, False),
    (0.8, 0.7999999999999999, False),
    (0.0, 0.0, True),
    (1.0, 1.0, True),
    (1.0, 0.9999999999999999, False),
]


@pytest.mark.parametrize("pack_type", list(PackType))
def test_run_3_the_minimum_applies_to_every_pack_and_equal_is_enough(world: World, pack_type: PackType) -> None:
    """RUN-3, RUN-17: with the charge and the reason of the failure."""
    tenant = world.tenant()
    asked: dict[str, Any] = {"pack_type": pack_type}
    if pack_type in INPUTS:
        asked["inputs"] = INPUTS[pack_type]
    for minimum, score, enough in CASES:
        ended = worked(world, tenant, score, min_reliability_score=minimum, **asked)
        found = (ended.status, ended.money_state, ended.actual_cost_usd_micros, ended.last_error_reason_code)
        if enough:
            assert found == (Status.COMPLETED, MoneyState.SETTLED, A_COST, None), (minimum, score)
        else:
            reason = "PACK_RELIABILITY_BELOW_MINIMUM"
            assert found == (Status.FAILED, MoneyState.SETTLED, ended.minimum_fee_usd_micros, reason), score
    assert world.position(tenant).balanced


def test_run_3_the_same_decimal_always_passes(world: World) -> None:
    """RUN-3: stored as a decimal and measured as a double, 0.07, 0.57 or 0.7 are still equal to themselves."""
    tenant = world.tenant()
    for hundredths in range(101):
        score = hundredths / 100
        assert worked(world, tenant, score, min_reliability_score=score).status == Status.COMPLETED, score


@pytest.mark.parametrize(
    ("minimum", "score", "detail"),
    [
        (0.8, 0.62, "reliability 0.6200 is below the minimum 0.8"),
        (0.8, 0.79999, "reliability 0.7999 is below the minimum 0.8"),
        (0.75, 2 / 3, "reliability 0.6666 is below the minimum 0.75"),
        (0.00001, 0.0, "reliability 0.0000 is below the minimum 0.00001"),
    ],
)
def test_run_3_the_detail_has_both_figures_and_never_contradicts_itself(
    world: World, minimum: float, score: float, detail: str
) -> None:
    """RUN-3, D13: rounded down to four places, since 0.79999 rounded up would be below itself."""
    assert worked(world, world.tenant(), score, min_reliability_score=minimum).last_error_detail == detail


def test_run_18_an_unreliable_result_is_kept_in_the_envelope_of_the_failure(world: World) -> None:
    """RUN-17, RUN-18: the minimum fee is charged; the owner can read what was found, and how reliable it is."""
    ended = worked(world, world.tenant(), 0.5)
    assert ended.result_key is not None
    body = world.storage.get(ended.result_key)
    assert body is not None
    envelope = json.loads(body)
    assert (envelope["status"], envelope["cost"]["used_usd"]) == ("FAILED", "0.0050")
    assert envelope["data"] == {
        "answer_text": "42",
        "problem": {
            "reason_code": "PACK_RELIABILITY_BELOW_MINIMUM",
            "detail": "reliability 0.5000 is below the minimum 0.8",
        },
    }
    assert (envelope["meta"]["reliability_score"], envelope["meta"]["tokens_consumed"]) == (0.5, 7)
    assert ended.tokens_consumed == 7
