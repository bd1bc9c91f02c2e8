"""Amazon Bedrock through its Converse API (RUN-25).

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpp.packs.models.asking import Fault, ModelError, Prompt, Reply, TokenBudget, with_retries
from dpp.packs.models.reading import read_object, the_one, valid
from dpp.packs.models.schema import reply_schema, system_text

BedrockOutput = Literal["tool", "json_schema", "text"]

_CONNECT_SECONDS = 5.0
_BUSY = frozenset(
    {"ThrottlingException", "ServiceUnavailableException", "InternalServerException", "ModelNotReadyException"}
)
_WHOLE = frozenset({"end_turn", "tool_use", "stop_sequence"})
_STOPPED: Mapping[str, tuple[Fault, str]] = {
    "max_tokens": (Fault.CUT, "a reply cut at its length limit"),
    "model_context_window_exceeded": (Fault.CUT, "a reply cut at the model's context window"),
    "guardrail_intervened": (Fault.FILTERED, "a guardrail withheld the reply"),
    "content_filtered": (Fault.FILTERED, "a content filter withheld the reply"),
    "refusal": (Fault.DECLINED, "the model declined"),
    "malformed_model_output": (Fault.GARBAGE, "malformed model output"),
    "malformed_tool_use": (Fault.GARBAGE, "malformed tool use"),
}


class ConverseClient(Protocol):
    """The one call of boto3's `bedrock-runtime` client that is used."""

    def converse(self, **parameters: object) -> Mapping[str, Any]:
        """Ask a model."""
        ...


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)


class _ToolUse(_Part):
    input: Any = None


class _Block(_Part):
    text: str = ""
    toolUse: _ToolUse | None = None


class _Message(_Part):
    content: list[_Block]


class _Output(_Part):
    message: _Message | None = None


class _Usage(_Part):
    inputTokens: int = Field(ge=0, le=10**9)
    outputTokens: int = Field(ge=0, le=10**9)
    totalTokens: int = Field(ge=0, le=10**9)


class _Conversation(_Part):
    output: _Output
    stopReason: str = ""
    usage: _Usage


def bedrock_client(seconds: float) -> ConverseClient:
    """A client whose one attempt takes at most about `seconds`; credentials and region as AWS gives them."""
    import boto3  # noqa: PLC0415 - a deployment without Bedrock never pays for it
    from botocore.config import Config  # noqa: PLC0415

    config = Config(
        connect_timeout=min(seconds, _CONNECT_SECONDS), read_timeout=seconds, retries={"total_max_attempts": 1}
    )
    return cast("ConverseClient", boto3.client("bedrock-runtime", config=config))


class BedrockModel:
    """Asks by a forced tool, by the output configuration, or in words alone, whichever is configured.

    A model that refuses the configured form (ValidationException) is asked in words, from then on.
    """

    engine = "bedrock"

    def __init__(
        self,
        model: str,
        *,
        output: BedrockOutput = "tool",
        temperature: float | None = 0.0,
        thinking_tokens: int = 0,
        client: Callable[[float], ConverseClient] = bedrock_client,
    ) -> None:
        """`client` makes a client for an attempt of so many seconds. `temperature` None: not sent."""
        self.model = model
        self._output = output
        self._temperature = temperature
        self._thinking_tokens = thinking_tokens
        self._client = client

    def ask[T: BaseModel](self, prompt: Prompt, shape: type[T], *, budget: TokenBudget, deadline: float) -> Reply[T]:
        """See `Model.ask`."""

        text, wanted = f"{system_text(prompt, shape)}{prompt.user}", prompt.max_output_tokens + self._thinking_tokens

        def attempt(seconds: float) -> Reply[T]:
            with budget.hold(text, max_output_tokens=wanted) as max_tokens:
                response = self._converse(_request(prompt, shape, max_tokens), shape, prompt.name, seconds)
                return _reply(response, shape, budget)

        return with_retries(attempt, deadline=deadline)

    def _converse(
        self, request: dict[str, Any], shape: type[BaseModel], name: str, seconds: float
    ) -> Mapping[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ReadTimeoutError  # noqa: PLC0415 - as above

        common = request | {"modelId": self.model}
        if self._temperature is not None:
            common["inferenceConfig"] = common["inferenceConfig"] | {"temperature": self._temperature}
        try:
            client = self._client(seconds)
            try:
                return client.converse(**common, **_form(self._output, shape, name))
            except ClientError as error:
                if self._output == "text" or _code(error) != "ValidationException":
                    raise
            answer = client.converse(**common)
        except (ConnectTimeoutError, ReadTimeoutError) as error:
            raise ModelError(Fault.LATE, type(error).__name__) from None
        except ClientError as error:
            raise _refused(_code(error)) from None
        except BotoCoreError as error:
            raise ModelError(Fault.UNREACHABLE, type(error).__name__) from None
        self._output = "text"  # only now: the refusal was of the form, and not of the rest
        return answer


def _request(prompt: Prompt, shape: type[BaseModel], max_tokens: int) -> dict[str, Any]:
    return {
        "system": [{"text": system_text(prompt, shape)}],
        "messages": [{"role": "user", "content": [{"text": prompt.user}]}],
        "inferenceConfig": {"maxTokens": max_tokens},
    }


def _form(output: BedrockOutput, shape: type[BaseModel], name: str) -> dict[str, Any]:
    schema = reply_schema(shape)
    match output:
        case "tool":
            specification = {"name": name, "description": "Hands over the reply.", "inputSchema": {"json": schema}}
            return {"toolConfig": {"tools": [{"toolSpec": specification}], "toolChoice": {"tool": {"name": name}}}}
        case "json_schema":
            structure = {"jsonSchema": {"name": name, "schema": json.dumps(schema)}}
            return {"outputConfig": {"textFormat": {"type": "json_schema", "structure": structure}}}
        case "text":
            return {}


def _code(error: Exception) -> str:
    # The code only: a validation message quotes what was sent.
    response = getattr(error, "response", {})
    return str(response.get("Error", {}).get("Code", "unknown"))[:100]


def _refused(code: str) -> ModelError:
    if code == "ModelTimeoutException":
        return ModelError(Fault.LATE, code)
    return ModelError(Fault.BUSY if code in _BUSY else Fault.REFUSED_REQUEST, code)


def _reply[T: BaseModel](response: Mapping[str, Any], shape: type[T], budget: TokenBudget) -> Reply[T]:
    try:
        conversation = _Conversation.model_validate(response)
    except ValidationError:
        raise ModelError(Fault.NO_RESPONSE_FORMAT, "not a Converse response") from None
    usage = conversation.usage
    budget.charge(max(usage.totalTokens, usage.inputTokens + usage.outputTokens))
    if conversation.stopReason not in _WHOLE:
        unknown = (Fault.GARBAGE, "a reply with an unknown stop reason")
        raise ModelError(*_STOPPED.get(conversation.stopReason, unknown))
    blocks = conversation.output.message.content if conversation.output.message else []
    uses = [block.toolUse.input for block in blocks if block.toolUse is not None]
    value = the_one(valid(uses, shape)) if uses else read_object("".join(block.text for block in blocks), shape)
    return Reply(value, usage.inputTokens, usage.outputTokens, conversation.stopReason)
