"""Any endpoint that speaks OpenAI's chat completions, by its base URL (RUN-25).

The URL is the operator's, not a client's, so it may well be http and on a private network.
"""

import time
from dataclasses import dataclass, field

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpp.packs.decision.engine import Answer, ProviderError, with_retries
from dpp.packs.decision.prompt import max_tokens, read_reply, system_text, user_text
from dpp.packs.inputs.decision import DecisionInputs

MAX_RESPONSE_BYTES = 1_000_000
_CONNECT_SECONDS = 5.0
_BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)


class _Message(_Model):
    content: str


class _Choice(_Model):
    message: _Message


class _Usage(_Model):
    total_tokens: int = Field(ge=0)


class _Completion(_Model):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage = _Usage(total_tokens=0)


@dataclass(frozen=True, slots=True)
class OpenAICompatibleEngine:
    """POSTs to `{base_url}/chat/completions`; no redirect is followed and no proxy used."""

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    name: str = "openai_compatible"

    def answer(self, inputs: DecisionInputs, *, deadline: float) -> Answer:
        """Answer before `deadline`; a busy provider is asked again while there is time."""
        return with_retries(lambda seconds: self._ask(inputs, seconds), deadline=deadline)

    def _ask(self, inputs: DecisionInputs, seconds: float) -> Answer:
        try:
            completion = _Completion.model_validate_json(self._post(inputs, seconds))
        except httpx.TimeoutException as error:
            raise ProviderError(type(error).__name__, timed_out=True) from None
        except httpx.TransportError as error:
            raise ProviderError(type(error).__name__, retryable=True) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ProviderError(type(error).__name__) from None
        except ValidationError:
            raise ProviderError("not a chat completion") from None
        text, confidence = read_reply(completion.choices[0].message.content)
        tokens = completion.usage.total_tokens
        return Answer(text=text, confidence=confidence, tokens_consumed=tokens, model=self.model)

    def _post(self, inputs: DecisionInputs, seconds: float) -> bytes:
        deadline = time.monotonic() + seconds
        # identity: what arrives is what was bounded, with no decompression in between.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        body = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": system_text(inputs)},
                {"role": "user", "content": user_text(inputs)},
            ],
            "max_tokens": max_tokens(inputs),
            "temperature": 0,
        }
        timeout = httpx.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS))
        url = f"{self.base_url.rstrip('/')}/chat/completions"
        with (
            httpx.Client(timeout=timeout, trust_env=False) as client,
            client.stream("POST", url, json=body, headers=headers) as response,
        ):
            if response.status_code != httpx.codes.OK:
                busy = response.status_code in _BUSY
                raise ProviderError(f"HTTP {response.status_code}", retryable=busy)
            return _read(response, deadline)


def _read(response: httpx.Response, deadline: float) -> bytes:
    body = bytearray()
    for chunk in response.iter_raw():
        body += chunk
        if len(body) > MAX_RESPONSE_BYTES:
            raise ProviderError("a response of over 1 MB")
        # httpx times each read, not the whole; a provider that drips would never be late for it.
        if time.monotonic() > deadline:
            raise ProviderError("a response too slow", timed_out=True)
    return bytes(body)
