"""A language model as judge, patterns, and the comparison with an earlier run (RUN-28)."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any, cast

import pytest
from pydantic import JsonValue, ValidationError

from dpp.packs.contract import PackFailure, PackReason, PackRequest, PackResult, PackSuccess, PackType
from dpp.packs.evaluation import judge
from dpp.packs.executor import execute
from dpp.packs.inputs.eval import EvalInputs
from dpp.packs.process import PackProcess
from tests.packs.loopback import Respond, reply, serving
from tests.packs.models.test_asking import completion

CRITERION = "The answer is polite."
JUDGE: dict[str, Any] = {"type": "judge", "criterion": CRITERION, "threshold": 0.5}


def inputs(predictions: dict[str, Any], *metrics: dict[str, Any], **more: Any) -> dict[str, JsonValue]:
    return {
        "predictions": [{"id": name, "value": value} for name, value in predictions.items()],
        "references": [{"id": name, "value": "x"} for name in predictions],
        "metrics": list(metrics),
        **more,
    }


def request(raw: dict[str, JsonValue], max_cost_usd_micros: int = 1_000_000, timebox_sec: int = 10) -> PackRequest:
    return PackRequest(
        run_id="run",
        pack_type=PackType.EVAL,
        inputs=raw,
        timebox_sec=timebox_sec,
        max_cost_usd_micros=max_cost_usd_micros,
    )


def evaluated(raw: dict[str, JsonValue], respond: Respond | None = None, **options: int) -> PackResult:
    if respond is None:
        return execute(request(raw), {})
    with serving(respond) as port:
        environ = {"DPP_DECISION_OPENAI_BASE_URL": f"http://127.0.0.1:{port}", "DPP_DECISION_OPENAI_MODEL": "m"}
        return execute(request(raw, **options), environ)


def data_of(result: PackResult) -> dict[str, Any]:
    assert isinstance(result, PackSuccess), result
    return cast("dict[str, Any]", result.data)


class Judging:
    """A provider that answers by the prediction that it is asked about, and counts."""

    def __init__(self, **answers: tuple[int, bytes]) -> None:
        self.answers = answers
        self.bodies: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read())
        with self._lock:
            self.bodies.append(body)
        asked = body["messages"][1]["content"].rsplit("\n", 1)[-1]
        status, answer = self.answers[asked]
        reply(handler, answer, status=status)


def scored(score: float, tokens: int = 100) -> tuple[int, bytes]:
    return 200, completion(json.dumps({"reason": "So.", "score": score}), tokens=tokens)


class TestJudge:
    """Scores of a model, with its prompt in the envelope."""

    def test_it_scores_each_prediction_and_shows_its_prompt(self) -> None:
        """RUN-23, RUN-28: the tokens of all calls are charged."""
        provider = Judging(good=scored(0.9), bad=scored(0.2))
        result = evaluated(inputs({"1": "good", "2": "bad"}, JUDGE), provider)
        data = data_of(result)
        assert [one["scores"] for one in data["items"]] == [[0.9], [0.2]]
        assert data["verdict"] == "pass"
        assert data["judges"] == [
            {
                "metric": "judge",
                "engine": "openai_compatible",
                "model": "m",
                "system": judge.SYSTEM,
                "user": judge.USER,
                "criterion": CRITERION,
            }
        ]
        assert isinstance(result, PackSuccess)
        assert (result.tokens_consumed, result.reliability_score) == (200, 1.0)
        assert result.cost_usd_micros == 10_000 + 500 + 1_000 + 10_000
        assert all(CRITERION not in body["messages"][0]["content"] for body in provider.bodies)

    @pytest.mark.parametrize(
        ("answer", "note"),
        [
            ((200, completion("I like it.")), "JUDGE_GAVE_NO_SCORE"),
            ((200, completion('{"reason": "", "score": 7}')), "JUDGE_GAVE_NO_SCORE"),
            ((200, completion(reason="length")), "JUDGE_GAVE_NO_SCORE"),
            ((200, completion(reason="content_filter")), "JUDGE_DECLINED"),
            ((500, b""), "JUDGE_FAILED"),
        ],
    )
    def test_one_bad_answer_marks_its_item_and_does_not_end_the_run(self, answer: tuple[int, bytes], note: str) -> None:
        """RUN-28: the mean is over the others, and the reliability falls."""
        provider = Judging(good=scored(1.0), odd=answer)
        result = evaluated(inputs({"1": "odd", "2": "good"}, JUDGE, {"type": "exact_match"}), provider)
        data = data_of(result)
        assert data["items"] == [{"id": "1", "scores": [None, 0.0], "notes": [note]}, {"id": "2", "scores": [1.0, 0.0]}]
        assert data["metrics"][0]["mean"] == 1.0
        assert isinstance(result, PackSuccess)
        assert result.reliability_score == 0.5

    def test_a_missing_prediction_is_not_asked_about(self) -> None:
        """RUN-28."""
        raw = inputs({"1": "good"}, JUDGE)
        raw["references"] = [{"id": "1", "value": "x"}, {"id": "2", "value": "x"}]
        provider = Judging(good=scored(1.0))
        assert data_of(evaluated(raw, provider))["items"][1]["notes"] == ["MISSING_PREDICTION"]
        assert len(provider.bodies) == 1

    def test_what_every_item_would_meet_ends_the_asking(self) -> None:
        """RUN-28: a wrong key is not tried two thousand times."""
        provider = Judging(**dict.fromkeys(map(str, range(100)), (401, b"")))
        data = data_of(evaluated(inputs({str(number): str(number) for number in range(100)}, JUDGE), provider))
        assert len(provider.bodies) < 30
        assert {note for one in data["items"] for note in one["notes"]} == {"JUDGE_FAILED"}

    def test_the_price_bounds_the_calls(self) -> None:
        """RUN-24: what the reservation does not pay for is marked and not asked."""
        provider = Judging(**dict.fromkeys(map(str, range(100)), scored(1.0, tokens=900)))
        raw = inputs({str(number): str(number) for number in range(100)}, JUDGE)
        result = evaluated(raw, provider, max_cost_usd_micros=32_000)
        assert isinstance(result, PackSuccess)
        assert 0 < len(provider.bodies) <= 3
        assert "JUDGE_OVER_BUDGET" in {note for one in data_of(result)["items"] for note in one.get("notes", [])}

    def test_a_provider_that_is_silent_ends_with_the_timebox(self) -> None:
        """RUN-17."""
        over = threading.Event()

        def hang(_handler: BaseHTTPRequestHandler) -> None:
            over.wait(60)

        try:
            result = evaluated(inputs({"1": "a", "2": "b"}, JUDGE), hang, timebox_sec=1)
        finally:
            over.set()
        assert {note for one in data_of(result)["items"] for note in one["notes"]} == {"JUDGE_LATE"}

    def test_without_a_model_the_run_fails_and_says_so(self) -> None:
        """RUN-3."""
        failure = evaluated(inputs({"1": "a"}, JUDGE))
        assert isinstance(failure, PackFailure)
        assert failure.reason_code is PackReason.PACK_NOT_AVAILABLE
        assert "no language model" in failure.detail

    def test_it_runs_in_the_process_with_the_model_s_key(self) -> None:
        """D6: only an eval with a judge gets it."""
        with (
            serving(Judging(good=scored(1.0))) as port,
            PackProcess(
                os.environ
                | {"DPP_DECISION_OPENAI_BASE_URL": f"http://127.0.0.1:{port}", "DPP_DECISION_OPENAI_MODEL": "m"}
            ) as process,
        ):
            result = process.run(request(inputs({"1": "good"}, JUDGE)), cancelled=threading.Event())
        assert data_of(result)["items"] == [{"id": "1", "scores": [1.0]}]


def test_a_pattern_scores_what_it_occurs_in() -> None:
    """RUN-28."""
    data = data_of(
        evaluated(inputs({"1": "Order 12-345", "2": "no", "3": 5}, {"type": "regex", "pattern": r"\d{2}-\d+"}))
    )
    assert [one["scores"] for one in data["items"]] == [[1.0], [0.0], [0.0]]
    assert data["items"][2]["notes"] == ["NOT_TEXT"]


class TestComparison:
    """Better, worse, and how surely."""

    def compared(self, then: list[float | None], now: str) -> dict[str, Any]:
        items = [{"id": str(number), "scores": [score]} for number, score in enumerate(then)]
        raw = inputs(
            {str(number): "x" if one == "1" else "y" for number, one in enumerate(now)},
            {"type": "exact_match"},
            baseline={"metrics": ["exact_match"], "items": items},
        )
        (found,) = data_of(evaluated(raw))["comparison"]
        return cast("dict[str, Any]", found)

    @pytest.mark.parametrize(
        ("then", "now", "change"),
        [("0" * 30, "1" * 30, "better"), ("1" * 30, "0" * 30, "worse"), ("01" * 15, "10" * 15, "unclear")],
    )
    def test_a_change_is_what_the_whole_interval_says(self, then: str, now: str, change: str) -> None:
        """RUN-28."""
        found = self.compared([float(one) for one in then], now)
        assert found["change"] == change
        assert found["interval"][0] <= found["mean_difference"] <= found["interval"][1]

    def test_items_are_compared_with_themselves(self) -> None:
        """RUN-28: equal ones count; those without a score in either run do not."""
        found = self.compared([1.0, 0.0, None, 1.0], "1110")
        assert found == {
            "name": "exact_match",
            "items": 3,
            "better": 1,
            "worse": 1,
            "equal": 1,
            "mean_difference": 0.0,
            "interval": found["interval"],
            "change": "unclear",
        }

    def test_the_items_of_an_envelope_are_a_baseline_as_they_are(self) -> None:
        """RUN-28: a run compared with itself is equal, also where scores were rounded and items noted."""
        raw = inputs({"1": "x y z", "2": 5}, {"type": "token_f1"}, {"type": "exact_match"})
        data = data_of(evaluated(raw))
        baseline = {"metrics": [one["name"] for one in data["metrics"]], "items": data["items"]}
        for found in data_of(evaluated(raw | {"baseline": baseline}))["comparison"]:
            assert (found["items"], found["equal"], found["change"]) == (2, 2, "unclear")


@pytest.mark.parametrize(
    "change",
    [
        {"metrics": [{"type": "judge"}]},
        {"metrics": [{"type": "judge", "criterion": " "}]},
        {"metrics": [{"type": "exact_match", "criterion": "x"}]},
        {"metrics": [{"type": "regex"}]},
        {"metrics": [{"type": "regex", "pattern": "the-client-said-this("}]},
        {"metrics": [{"type": "regex", "pattern": "a*"}]},
        {"metrics": [{"type": "regex", "pattern": "(?=a)a"}]},
        {"baseline": {"metrics": ["rouge_l"], "items": [{"id": "1", "scores": [1.0]}]}},
        {"baseline": {"metrics": ["exact_match"], "items": [{"id": "1", "scores": [1.0, 1.0]}]}},
        {"baseline": {"metrics": ["exact_match"], "items": [{"id": "1", "scores": [1.5]}]}},
        {"baseline": {"metrics": ["exact_match"], "items": [{"id": "1", "scores": [1.0]}] * 2}},
        {"baseline": {"metrics": ["exact_match"], "items": []}},
    ],
)
def test_what_can_not_succeed_is_refused_at_submit(change: dict[str, Any]) -> None:
    """RUN-3, RUN-31: patterns, criteria and baselines, without quoting them."""
    good = inputs({"1": "x"}, {"type": "exact_match"})
    EvalInputs.model_validate(good)
    with pytest.raises(ValidationError) as refused:
        EvalInputs.model_validate(good | change)
    assert "the-client-said-this" not in str(refused.value)
