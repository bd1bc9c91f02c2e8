"""The decision pack: one question, one answer, by the engine the deployment has (RUN-25)."""

import time

from pydantic import JsonValue

from dpp.packs.contract import PackFailure, PackReason, PackRequest, PackResult, PackSuccess
from dpp.packs.decision.bedrock import BedrockEngine
from dpp.packs.decision.engine import Answer, Engine, ProviderError
from dpp.packs.decision.extractive import ExtractiveEngine
from dpp.packs.decision.openai_compatible import OpenAICompatibleEngine
from dpp.packs.inputs.decision import DecisionInputs
from dpp.packs.prices import decision_cost_usd_micros
from dpp.platform.config import ModelSettings

_RESERVE_SHARE = 0.2
_RESERVE_SECONDS = 1.0
"""Reserved from the timebox to tell a late provider from a late pack, and to return the answer."""


def choose_engine(settings: ModelSettings) -> Engine:
    """Bedrock if a model is configured, else the OpenAI-compatible endpoint if there is one, else offline."""
    if settings.bedrock_model_id is not None:
        return BedrockEngine(settings.bedrock_model_id)
    # The settings refuse the one without the other.
    if settings.openai_base_url is None or settings.openai_model is None:
        return ExtractiveEngine()
    return OpenAICompatibleEngine(settings.openai_base_url, settings.openai_model, settings.openai_api_key)


def run(inputs: DecisionInputs, request: PackRequest, settings: ModelSettings) -> PackResult:
    """Answer within the timebox, or return the reason without quoting the question."""
    reserve = min(_RESERVE_SECONDS, _RESERVE_SHARE * request.timebox_sec)
    deadline = time.monotonic() + request.timebox_sec - reserve
    engine = choose_engine(settings)
    try:
        answer = engine.answer(inputs, deadline=deadline)
    except ProviderError as error:
        reason = PackReason.PACK_PROVIDER_TIMEOUT if error.timed_out else PackReason.PACK_PROVIDER_FAILED
        return PackFailure(reason_code=reason, detail=f"{engine.name}: {error}"[:200])
    characters = len(inputs.question) + len(inputs.context or "")
    return PackSuccess(
        data=_data(answer, engine, inputs),
        reliability_score=answer.confidence,
        cost_usd_micros=decision_cost_usd_micros(characters=characters, tokens=answer.tokens_consumed),
        tokens_consumed=answer.tokens_consumed,
    )


def _data(answer: Answer, engine: Engine, inputs: DecisionInputs) -> dict[str, JsonValue]:
    data: dict[str, JsonValue] = {
        "answer_text": answer.text,
        "confidence": answer.confidence,
        "engine": engine.name,
        "mode": inputs.mode,
    }
    if answer.model is not None:
        data["model"] = answer.model
    if inputs.mode == "full" and answer.evidence:
        data["evidence"] = [
            {"text": one.text, "start": one.start, "end": one.end, "score": one.score} for one in answer.evidence
        ]
    return data
