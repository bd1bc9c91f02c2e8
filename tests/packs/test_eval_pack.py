"""The eval pack as a whole: pairing, aggregates, verdicts, bounds and prices (RUN-28, RUN-23)."""

import random
import time
from typing import Any

import pytest
from pydantic import ValidationError

from dpp.packs import prices
from dpp.packs.contract import PackSuccess
from dpp.packs.evaluation import pack
from dpp.packs.frames import MAX_ANSWER_BYTES
from dpp.packs.inputs.eval import EvalInputs

SECRET = "the-client-said-this"


def pairs(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"id": name, "value": value} for name, value in values.items()]


def inputs(
    predictions: dict[str, Any], references: dict[str, Any], *metrics: dict[str, Any], **more: Any
) -> EvalInputs:
    body = {
        "predictions": pairs(predictions),
        "references": pairs(references),
        "metrics": list(metrics) or [{"type": "exact_match"}],
        **more,
    }
    return EvalInputs.model_validate(body)


def data(success: PackSuccess) -> Any:
    return success.data


def test_predictions_meet_references_by_id() -> None:
    """RUN-28: a missing answer is a wrong one; an answer to nothing is logged and not scored."""
    result = pack.run(inputs({"2": "x", "1": "서울", "9": "?"}, {"1": "서울", "2": "y", "3": "z"}))
    assert data(result) == {
        "verdict": "none",
        "counts": {"references": 3, "predictions": 3, "missing_predictions": 1, "unmatched_predictions": 1},
        "metrics": [
            {
                "name": "exact_match",
                "type": "exact_match",
                "scored": 3,
                "skipped": 0,
                "mean": 0.333333,
                "interval": [0.0, 1.0],
            }
        ],
        "bootstrap": {"seed": 0, "resamples": 1_000, "confidence_percent": 95},
        "items": [
            {"id": "1", "scores": [1.0]},
            {"id": "2", "scores": [0.0]},
            {"id": "3", "scores": [0.0], "notes": ["MISSING_PREDICTION"]},
        ],
    }
    assert result.discard_log == [{"id": "9", "reason": "NO_REFERENCE"}]


def test_no_id_in_common_is_a_mean_of_zero() -> None:
    """RUN-28."""
    found = data(pack.run(inputs({"a": "x"}, {"b": "x"}, {"type": "exact_match", "threshold": 0.5})))
    assert found["metrics"][0]["mean"] == 0.0
    assert found["verdict"] == "fail"


def test_of_several_right_answers_the_best_fit_counts() -> None:
    """RUN-28."""
    body = {
        "predictions": pairs({"1": "Seoul"}),
        "references": [{"id": "1", "value": "서울", "alternatives": [7, "seoul"]}],
        "metrics": [{"type": "exact_match"}],
    }
    assert data(pack.run(EvalInputs.model_validate(body)))["items"] == [{"id": "1", "scores": [1.0]}]


def test_a_reference_that_a_metric_can_not_read_is_left_out_of_its_mean() -> None:
    """RUN-28: and of that one only."""
    found = data(
        pack.run(inputs({"1": "5", "2": "x"}, {"1": "5", "2": "x"}, {"type": "numeric"}, {"type": "exact_match"}))
    )
    assert [(one["scored"], one["skipped"], one["mean"]) for one in found["metrics"]] == [(1, 1, 1.0), (2, 0, 1.0)]
    assert found["items"][1] == {"id": "2", "scores": [None, 1.0], "notes": ["REFERENCE_NOT_A_NUMBER"]}


def test_a_threshold_without_a_scored_item_is_not_met() -> None:
    """RUN-28: nothing shown is nothing passed."""
    found = data(pack.run(inputs({"1": 1}, {"1": "x"}, {"type": "numeric", "threshold": 0.0})))
    assert found["metrics"][0] == {
        "name": "numeric",
        "type": "numeric",
        "scored": 0,
        "skipped": 1,
        "mean": None,
        "interval": None,
        "threshold": 0.0,
        "verdict": "fail",
        "certain": False,
    }


@pytest.mark.parametrize(
    ("right", "threshold", "verdict", "certain"),
    [
        (80, 0.8, "pass", False),
        (80, 0.5, "pass", True),
        (80, 0.81, "fail", False),
        (80, 0.95, "fail", True),
        (100, 1.0, "pass", True),
        (0, 0.0, "pass", True),
    ],
)
def test_the_mean_decides_and_the_interval_says_how_surely(
    right: int, threshold: float, verdict: str, certain: bool
) -> None:
    """RUN-28."""
    predictions = {str(number): "x" if number < right else "y" for number in range(100)}
    references = {str(number): "x" for number in range(100)}
    found = data(pack.run(inputs(predictions, references, {"type": "exact_match", "threshold": threshold})))
    assert found["verdict"] == verdict
    assert (found["metrics"][0]["verdict"], found["metrics"][0]["certain"]) == (verdict, certain)


def test_one_missed_threshold_fails_the_whole() -> None:
    """RUN-28: metrics without a threshold have no say."""
    metrics = ({"type": "exact_match"}, {"type": "token_f1", "threshold": 0.4}, {"type": "rouge_l", "threshold": 0.9})
    assert data(pack.run(inputs({"1": "x y"}, {"1": "x z"}, *metrics[:2])))["verdict"] == "pass"
    assert data(pack.run(inputs({"1": "x y"}, {"1": "x z"}, *metrics)))["verdict"] == "fail"


def test_the_order_of_the_items_changes_no_figure() -> None:
    """RUN-28: only the order in which items are listed."""
    predictions = {str(number): "b " * (number % 5) for number in range(40)}
    references = {str(number): "b b c" for number in range(40)}
    shuffled = list(references)
    random.Random(3).shuffle(shuffled)
    metrics = ({"type": "token_f1"}, {"type": "token_f1", "label": "again"})
    one = data(pack.run(inputs(predictions, references, *metrics)))
    other = data(
        pack.run(
            inputs(
                {name: predictions[name] for name in reversed(shuffled)},
                {name: references[name] for name in shuffled},
                *metrics,
            )
        )
    )
    assert one["metrics"] == other["metrics"]
    assert one["metrics"][0] == one["metrics"][1] | {"name": "token_f1"}
    assert sorted(one["items"], key=str) == sorted(other["items"], key=str)


@pytest.mark.parametrize(
    "change",
    [
        {"predictions": []},
        {"references": []},
        {"metrics": []},
        {"predictions": pairs({"1": 1}) * 2},
        {"references": pairs({"1": 1}) * 2},
        {"predictions": [{"id": "", "value": 1}]},
        {"predictions": [{"id": "1\n", "value": 1}]},
        {"predictions": [{"id": "1"}]},
        {"predictions": [{"id": 1, "value": 1}]},
        {"predictions": [{"id": "1", "value": "x" * 20_001}]},
        {"predictions": [{"id": "1", "value": float("nan")}]},
        {"references": [{"id": "1", "value": [float("inf")]}]},
        {"references": [{"id": "1", "value": 1, "alternatives": [2] * 8}]},
        {"metrics": [{"type": "bleu"}]},
        {"metrics": [{"type": "exact_match"}] * 2},
        {"metrics": [{"type": "exact_match", "threshold": 1.5}]},
        {"metrics": [{"type": "exact_match", "threshold": float("nan")}]},
        {"metrics": [{"type": "exact_match", "partial": False}]},
        {"metrics": [{"type": "numeric", "absolute_tolerance": "-1"}]},
        {"metrics": [{"type": "numeric", "absolute_tolerance": 0.1}]},
        {"bootstrap": {"seed": -1}},
        {"bootstrap": {"resamples": 10_001}},
        {"predictions": pairs({str(number): 1 for number in range(2_001)})},
    ],
)
def test_inputs_out_of_bounds_are_refused_without_quoting_them(change: dict[str, Any]) -> None:
    """RUN-28, RUN-31: empty lists, duplicates, NaN, options of another metric."""
    good = {
        "predictions": pairs({"1": SECRET}),
        "references": pairs({"1": SECRET}),
        "metrics": [{"type": "exact_match"}],
    }
    EvalInputs.model_validate(good)
    with pytest.raises(ValidationError) as refused:
        EvalInputs.model_validate(good | change)
    assert SECRET not in str(refused.value)
    assert "input_value" not in str(refused.value)


def test_the_largest_answer_fits_the_envelope() -> None:
    """RUN-18, RUN-28: as many items and notes as can be, ids as long as can be."""
    ids = [f"{number:04}" + "𝒳" * 60 for number in range(4_000)]
    metrics = [
        {"type": kind, "label": f"{kind}-{'x' * 20}"[:32]}
        for kind in ("exact_match", "token_f1", "rouge_l", "numeric", "json_match")
    ]
    references = dict.fromkeys(ids[:2_000], "x")
    predictions = dict.fromkeys(ids[2_000:], "x")
    body = inputs(predictions, references, *metrics, bootstrap={"resamples": 100})
    result = pack.run(body)
    assert len(result.discard_log) == pack.MAX_LOGGED_PREDICTIONS
    assert data(result)["counts"]["unmatched_predictions"] == 2_000
    assert len(result.model_dump_json().encode()) < 0.9 * MAX_ANSWER_BYTES


def test_the_usual_case_is_far_below_a_second() -> None:
    """RUN-17, RUN-28: a hundred items, three metrics, a thousand resamples."""
    references = {str(number): f"환불은 {number}일 이내에 가능합니다." for number in range(100)}
    predictions = {name: value[: int(name) % 20] for name, value in references.items()}
    body = inputs(predictions, references, {"type": "exact_match"}, {"type": "token_f1"}, {"type": "rouge_l"})
    started = time.process_time()
    result = pack.run(body)
    assert time.process_time() - started < 0.5
    assert result.cost_usd_micros == 10_000 + 3 * 500 + 1_000


@pytest.mark.parametrize(
    ("scores", "draws", "micros"),
    [
        (1, 1_000, 11_500),
        (100, 1_000_000, 11_500),
        (101, 1_000_001, 13_000),
        (12_000, 120_000_000, 190_000),
        (1, 0, 10_500),
    ],
)
def test_an_eval_costs_what_the_table_says(scores: int, draws: int, micros: int) -> None:
    """RUN-23, RUN-28, docs/packs.md."""
    assert prices.eval_cost_usd_micros(scores=scores, draws=draws) == micros
