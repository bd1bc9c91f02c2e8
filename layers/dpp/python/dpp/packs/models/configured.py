"""The language model that a deployment has configured, and what a run may spend on it (RUN-24, RUN-25)."""

from dpp.packs.models.asking import Model, TokenBudget
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


def token_budget(*, max_cost_usd_micros: int, other_cost_usd_micros: int) -> TokenBudget:
    """The tokens that a run's maximum price pays for, beside its other costs."""
    return TokenBudget(tokens_within(max_cost_usd_micros - other_cost_usd_micros))
