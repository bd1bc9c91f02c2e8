"""Any endpoint that speaks OpenAI's chat completions, by its base URL (RUN-25).

The URL is the operator's, not a client's, so it may well be http and on a private network.
https://platform.openai.com/docs/api-reference/chat
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpp.packs.models.asking import Fault, ModelError, Prompt, Reply, TokenBudget, with_retries
from dpp.packs.models.reading import read_object
from dpp.packs.models.schema import reply_schema, system_text
from dpp.platform.http.retry_after import retry_after_seconds

MAX_RESPONSE_BYTES = 1_000_000

ResponseFormat = Literal["json_schema", "json_object", "text"]
TokenLimitField = Literal["max_tokens", "max_completion_tokens"]

_CONNECT_SECONDS = 5.0
_BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_FORMATS: tuple[ResponseFormat, ...] = ("json_schema", "json_object", "text")
_WHOLE = frozenset({"stop", "eos", "end_turn", "stop_sequence", "tool_calls", ""})
"""Some servers give no finish reason. An object of the requested shape is whole all the same."""
_STOPPED: Mapping[str, tuple[Fault, str]] = {
    "length": (Fault.CUT, "a reply cut at its length limit"),
    "max_tokens": (Fault.CUT, "a reply cut at its length limit"),
    "content_filter": (Fault.FILTERED, "a content filter withheld the reply"),
    "refusal": (Fault.DECLINED, "the model declined"),
}


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)


class _Text(_Part):
    text: str = ""


class _Message(_Part):
    content: str | list[_Text] | None = None
    refusal: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""


class _Choice(_Part):
    message: _Message
    finish_reason: str | None = None


class _Usage(_Part):
    prompt_tokens: int = Field(default=0, ge=0, le=10**9)
    completion_tokens: int = Field(default=0, ge=0, le=10**9)
    total_tokens: int = Field(default=0, ge=0, le=10**9)


class _Completion(_Part):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


class _FormatRefusedError(Exception):
    """The provider answered 400 or 422 to a request with a response format."""


class OpenAICompatibleModel:
    """POSTs to `{base_url}/chat/completions`; no redirect is followed and no proxy used.

    A provider that refuses the configured response format (400, 422) is asked with the next simpler one, from then on.
    """

    engine = "openai_compatible"

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        *,
        response_format: ResponseFormat = "json_schema",
        token_limit_field: TokenLimitField = "max_tokens",  # noqa: S107 - a name
        temperature: float | None = 0.0,
        thinking_tokens: int = 0,
    ) -> None:
        """`temperature` None: not sent, which some models require."""
        self.model = model
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._api_key = api_key
        self._formats = _FORMATS[_FORMATS.index(response_format) :]
        self._token_limit_field = token_limit_field
        self._temperature = temperature
        self._thinking_tokens = thinking_tokens

    def ask[T: BaseModel](self, prompt: Prompt, shape: type[T], *, budget: TokenBudget, deadline: float) -> Reply[T]:
        """See `Model.ask`."""

        text, wanted = f"{system_text(prompt, shape)}{prompt.user}", prompt.max_output_tokens + self._thinking_tokens

        def attempt(seconds: float) -> Reply[T]:
            until = time.monotonic() + seconds
            with budget.hold(text, max_output_tokens=wanted) as max_tokens:
                return _reply(self._send(self._body(prompt, shape, max_tokens), prompt, shape, until), shape, budget)

        return with_retries(attempt, deadline=deadline)

    def _body(self, prompt: Prompt, shape: type[BaseModel], max_tokens: int) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": system_text(prompt, shape)},
                {"role": "user", "content": prompt.user},
            ],
            self._token_limit_field: max_tokens,
        }
        return body if self._temperature is None else body | {"temperature": self._temperature}

    def _send(self, body: dict[str, Any], prompt: Prompt, shape: type[BaseModel], until: float) -> bytes:
        """The response with the richest format that the provider takes."""
        for number, response_format in enumerate(formats := self._formats):
            try:
                received = self._post(body | _form(response_format, shape, prompt.name), until)
            except _FormatRefusedError as refused:
                if number == len(formats) - 1:
                    raise ModelError(Fault.REFUSED_REQUEST, str(refused)) from None
            else:
                self._formats = formats[number:]
                return received
        raise AssertionError("the last format returns or raises")

    def _post(self, body: dict[str, Any], until: float) -> bytes:
        try:
            return self._exchange(body, until)
        except httpx.TimeoutException as error:
            raise ModelError(Fault.LATE, type(error).__name__) from None
        except httpx.TransportError as error:
            raise ModelError(Fault.UNREACHABLE, type(error).__name__) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ModelError(Fault.NO_RESPONSE_FORMAT, type(error).__name__) from None

    def _exchange(self, body: dict[str, Any], until: float) -> bytes:
        # identity: what arrives is what was bounded, with no decompression in between.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if self._api_key is not None:
            headers["Authorization"] = f"Bearer {self._api_key}"
        seconds = max(0.01, until - time.monotonic())
        timeout = httpx.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS))
        with (
            httpx.Client(timeout=timeout, trust_env=False) as client,
            client.stream("POST", self._url, json=body, headers=headers) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise _refused(response)
            return _read(response, until)


def _form(response_format: ResponseFormat, shape: type[BaseModel], name: str) -> dict[str, Any]:
    match response_format:
        case "json_schema":
            schema = {"name": name, "strict": True, "schema": reply_schema(shape)}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        case "json_object":
            return {"response_format": {"type": "json_object"}}
        case "text":
            return {}


def _refused(response: httpx.Response) -> Exception:
    detail = f"HTTP {response.status_code}"
    if response.status_code in {400, 422}:
        return _FormatRefusedError(detail)
    if response.status_code not in _BUSY:
        return ModelError(Fault.REFUSED_REQUEST, detail)
    pause = retry_after_seconds(response.headers.get("Retry-After", ""), datetime.now(UTC))
    return ModelError(Fault.BUSY, detail, pause_seconds=pause or 0.0)


def _read(response: httpx.Response, until: float) -> bytes:
    body = bytearray()
    for chunk in response.iter_raw():
        body += chunk
        if len(body) > MAX_RESPONSE_BYTES:
            raise ModelError(Fault.NO_RESPONSE_FORMAT, "a response of over 1 MB")
        # httpx times each read, not the whole; a provider that drips would never be late for it.
        if time.monotonic() > until:
            raise ModelError(Fault.LATE, "a response too slow")
    return bytes(body)


def _reply[T: BaseModel](received: bytes, shape: type[T], budget: TokenBudget) -> Reply[T]:
    try:
        completion = _Completion.model_validate_json(received)
    except ValidationError:
        raise ModelError(Fault.NO_RESPONSE_FORMAT, "not a chat completion") from None
    usage = completion.usage or _Usage()
    budget.charge(max(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens))
    if len(completion.choices) > 1:
        raise ModelError(Fault.TWICE, "a reply with more than one choice")
    (choice,) = completion.choices
    reason = choice.finish_reason or ""
    if choice.message.refusal:
        raise ModelError(Fault.DECLINED, "the model declined")
    if reason not in _WHOLE:
        raise ModelError(*_STOPPED.get(reason, (Fault.GARBAGE, "a reply with an unknown finish reason")))
    value = read_object(choice.message.text, shape)
    return Reply(value, usage.prompt_tokens, usage.completion_tokens, reason)
