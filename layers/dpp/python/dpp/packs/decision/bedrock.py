"""Amazon Bedrock through its Converse API (RUN-25).

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpp.packs.decision.engine import Answer, ProviderError, with_retries
from dpp.packs.decision.prompt import max_tokens, read_reply, system_text, user_text
from dpp.packs.inputs.decision import DecisionInputs

_CONNECT_SECONDS = 5.0
_BUSY = frozenset(
    {"ThrottlingException", "ServiceUnavailableException", "InternalServerException", "ModelNotReadyException"}
)


class ConverseClient(Protocol):
    """The one call of boto3's `bedrock-runtime` client that is used."""

    def converse(self, **parameters: object) -> Mapping[str, Any]:
        """Ask a model."""
        ...


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)


class _Block(_Model):
    text: str = ""


class _Message(_Model):
    content: list[_Block]


class _Output(_Model):
    message: _Message


class _Usage(_Model):
    totalTokens: int = Field(ge=0)


class _Conversation(_Model):
    output: _Output
    usage: _Usage


def bedrock_client(seconds: float) -> ConverseClient:
    """A client whose one attempt takes at most about `seconds`; credentials and region as AWS gives them."""
    import boto3  # noqa: PLC0415 - a deployment without Bedrock never pays for it
    from botocore.config import Config  # noqa: PLC0415

    config = Config(
        connect_timeout=min(seconds, _CONNECT_SECONDS), read_timeout=seconds, retries={"total_max_attempts": 1}
    )
    return cast("ConverseClient", boto3.client("bedrock-runtime", config=config))


@dataclass(frozen=True, slots=True)
class BedrockEngine:
    """Asks the configured model; `client` makes a client for an attempt of so many seconds."""

    model_id: str
    client: Callable[[float], ConverseClient] = bedrock_client
    name: str = "bedrock"

    def answer(self, inputs: DecisionInputs, *, deadline: float) -> Answer:
        """Answer before `deadline`; a throttled model is asked again while there is time."""
        return with_retries(lambda seconds: self._ask(inputs, seconds), deadline=deadline)

    def _ask(self, inputs: DecisionInputs, seconds: float) -> Answer:
        try:
            conversation = _Conversation.model_validate(self._converse(inputs, seconds))
        except ValidationError:
            raise ProviderError("not a Converse response") from None
        text, confidence = read_reply("".join(block.text for block in conversation.output.message.content))
        tokens = conversation.usage.totalTokens
        return Answer(text=text, confidence=confidence, tokens_consumed=tokens, model=self.model_id)

    def _converse(self, inputs: DecisionInputs, seconds: float) -> Mapping[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ReadTimeoutError  # noqa: PLC0415 - as above

        try:
            return self.client(seconds).converse(
                modelId=self.model_id,
                system=[{"text": system_text(inputs)}],
                messages=[{"role": "user", "content": [{"text": user_text(inputs)}]}],
                inferenceConfig={"maxTokens": max_tokens(inputs), "temperature": 0},
            )
        except (ConnectTimeoutError, ReadTimeoutError) as error:
            raise ProviderError(type(error).__name__, timed_out=True) from None
        except ClientError as error:
            # The code only: a validation message quotes what was sent.
            code = str(error.response.get("Error", {}).get("Code", "unknown"))[:100]
            late = code == "ModelTimeoutException"
            raise ProviderError(code, retryable=code in _BUSY, timed_out=late) from None
        except BotoCoreError as error:
            raise ProviderError(type(error).__name__) from None
