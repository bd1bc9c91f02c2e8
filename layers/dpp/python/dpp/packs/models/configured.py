"""The language model that a deployment has configured, and what a run may spend on it (RUN-24, RUN-25)."""

from dataclasses import dataclass

from pydantic import BaseModel

from dpp.packs.contract import PackFailure, PackReason, PackRequest
from dpp.packs.models.asking import Fault, Model, ModelError, Prompt, Reply, TokenBudget
from dpp.packs.models.bedrock import BedrockModel
from dpp.packs.models.openai_compatible import OpenAICompatibleModel
from dpp.packs.prices import tokens_within
from dpp.platform.config import ModelSettings


def configured_model(settings: ModelSettings) -> Model | None:
    """Bedrock if a model is configured, else the OpenAI-compatible endpoint if there is one, else None."""
    temperature = None if settings.temperature == "none" else float(settings.temperature)
    if settings.bedrock_model_id is not None:
        return BedrockModel(
            settings.bedrock_model_id,
            output=settings.bedrock_output,
            temperature=temperature,
            thinking_tokens=settings.thinking_tokens,
        )
    # The settings refuse the one without the other.
    if settings.openai_base_url is None or settings.openai_model is None:
        return None
    return OpenAICompatibleModel(
        settings.openai_base_url,
        settings.openai_model,
        settings.openai_api_key,
        response_format=settings.openai_response_format,
        token_limit_field=settings.openai_token_limit_field,
        temperature=temperature,
        thinking_tokens=settings.thinking_tokens,
    )


@dataclass(frozen=True, slots=True)
class BoundedModel:
    """A model with the money and the time that a run may spend on it, until `deadline` (`time.monotonic()`)."""

    model: Model
    budget: TokenBudget
    deadline: float

    def ask[T: BaseModel](self, prompt: Prompt, shape: type[T]) -> Reply[T]:
        """As `Model.ask`, within the bounds."""
        return self.model.ask(prompt, shape, budget=self.budget, deadline=self.deadline)

    def failure_of(self, error: ModelError) -> PackFailure:
        """The failure of a run whose model gave no answer, with the tokens that were charged all the same."""
        match error.fault:
            case Fault.LATE:
                reason = PackReason.PACK_PROVIDER_TIMEOUT
            case Fault.OVER_BUDGET:
                reason = PackReason.PACK_COST_ABOVE_MAXIMUM
            case _:
                reason = PackReason.PACK_PROVIDER_FAILED
        detail = f"{self.model.engine}: {error}"[:200]
        return PackFailure(reason_code=reason, detail=detail, tokens_consumed=self.budget.spent)


def bounded_model(
    settings: ModelSettings, request: PackRequest, *, other_cost_usd_micros: int, deadline: float
) -> BoundedModel | None:
    """The configured model, within what a run may spend on it beside its other costs; None if none is configured."""
    model = configured_model(settings)
    if model is None:
        return None
    budget = token_budget(max_cost_usd_micros=request.max_cost_usd_micros, other_cost_usd_micros=other_cost_usd_micros)
    return BoundedModel(model, budget, deadline)


def token_budget(*, max_cost_usd_micros: int, other_cost_usd_micros: int) -> TokenBudget:
    """The tokens that a run's maximum price pays for, beside its other costs."""
    return TokenBudget(tokens_within(max_cost_usd_micros - other_cost_usd_micros))
