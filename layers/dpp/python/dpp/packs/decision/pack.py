"""The decision pack: one question, one answer, by the engine the deployment has (RUN-25)."""

from collections.abc import Sequence

from pydantic import JsonValue

from dpp.packs.contract import PackRequest, PackResult, PackSuccess
from dpp.packs.decision import asked, extractive, weighing
from dpp.packs.decision.answers import Answer, Comparison, Judgement, Passage
from dpp.packs.decision.recommendation import Recommendation, recommend
from dpp.packs.inputs.decision import DecisionInputs
from dpp.packs.models.asking import ModelError
from dpp.packs.models.configured import BoundedModel, bounded_model
from dpp.packs.prices import decision_cost_usd_micros
from dpp.packs.timebox import deadline_of
from dpp.platform.config import ModelSettings

AS_A_WHOLE = "as a whole"
"""The criterion of options without criteria."""

_RESERVE_SHARE = 0.2
_RESERVE_SECONDS = 1.0
"""Reserved from the timebox to tell a late provider from a late pack, and to return the answer."""


def run(inputs: DecisionInputs, request: PackRequest, settings: ModelSettings) -> PackResult:
    """Answer within the timebox, or return the reason without quoting the question."""
    model = bounded_model(
        settings,
        request,
        other_cost_usd_micros=inputs.least_cost_usd_micros(),
        deadline=deadline_of(request, reserve_seconds=_RESERVE_SECONDS, reserve_share=_RESERVE_SHARE),
    )
    try:
        data, confidence = _answered(inputs, model)
    except ModelError as error:
        assert model is not None  # noqa: S101 - only a model raises it
        return model.failure_of(error)
    tokens = model.budget.spent if model else 0
    return PackSuccess(
        data=data | _engine(model) | {"confidence": confidence, "mode": inputs.mode},
        reliability_score=confidence,
        cost_usd_micros=decision_cost_usd_micros(characters=inputs.characters, tokens=tokens),
        tokens_consumed=tokens,
    )


def _answered(inputs: DecisionInputs, model: BoundedModel | None) -> tuple[dict[str, JsonValue], float]:
    """The answer's data, and its confidence. Raises ModelError."""
    if inputs.options is None:
        answer = extractive.answer(inputs) if model is None else asked.answer(inputs, model)
        return _answer_data(answer, inputs), answer.confidence
    comparison = weighing.compare(inputs) if model is None else asked.compare(inputs, model)
    found = recommend(comparison, [one.weight for one in inputs.criteria or ()] or [1.0])
    return _comparison_data(comparison, found, inputs), _confidence(comparison, found)


def _confidence(comparison: Comparison, found: Recommendation) -> float:
    """Low where the model recommends another option than its scores do, or where nothing can be recommended."""
    if found.option is None:
        return 0.0
    contradicted = comparison.stated not in {None, found.option}
    return min(comparison.confidence, asked.UNCARRIED_CONFIDENCE) if contradicted else comparison.confidence


def _engine(bounded: BoundedModel | None) -> dict[str, JsonValue]:
    if bounded is None:
        return {"engine": extractive.ENGINE}
    return {"engine": bounded.model.engine, "model": bounded.model.model}


def _answer_data(answer: Answer, inputs: DecisionInputs) -> dict[str, JsonValue]:
    data: dict[str, JsonValue] = {"answer_text": answer.text}
    if inputs.mode == "full" and answer.evidence:
        data["evidence"] = _passages(answer.evidence)
    return data | _unverified(answer.unverified_quotes)


def _comparison_data(comparison: Comparison, found: Recommendation, inputs: DecisionInputs) -> dict[str, JsonValue]:
    names = [one.name for one in inputs.options or ()]
    data: dict[str, JsonValue] = {
        "answer_text": comparison.text,
        "recommendation": None if found.option is None else names[found.option],
        "options": [
            {"name": name, "score": score, "criteria": _judged(row, inputs)}
            for name, score, row in zip(names, found.scores, comparison.judgements, strict=True)
        ],
    }
    if found.tied:
        data["tied"] = [names[number] for number in found.tied]
    if comparison.stated is not None and comparison.stated != found.option:
        data["model_recommendation"] = names[comparison.stated]
    return data | _unverified(comparison.unverified_quotes)


def _judged(row: Sequence[Judgement], inputs: DecisionInputs) -> list[JsonValue]:
    criteria = [one.name for one in inputs.criteria or ()] or [AS_A_WHOLE]
    found: list[JsonValue] = []
    for name, one in zip(criteria, row, strict=True):
        shown: dict[str, JsonValue] = {"name": name, "score": one.score, "evidence": _passages(one.evidence)}
        found.append(shown | {"reason": one.reason} if one.reason else shown)
    return found


def _unverified(number: int) -> dict[str, JsonValue]:
    return {"unverified_quotes": number} if number else {}


def _passages(passages: Sequence[Passage]) -> list[JsonValue]:
    found: list[JsonValue] = []
    for one in passages:
        place: dict[str, JsonValue] = {"text": one.text, "start": one.start, "end": one.end}
        found.append(place if one.score is None else place | {"score": one.score})
    return found
