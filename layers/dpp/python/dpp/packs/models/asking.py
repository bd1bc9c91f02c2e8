"""Asks a language model for one object of a given shape, or fails with a typed error (RUN-25)."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from pydantic import BaseModel

MAX_ATTEMPTS = 3
MIN_REPLY_TOKENS = 128
"""With fewer tokens, a reply would be cut before it is an object."""
_FIRST_PAUSE_SECONDS = 0.2
_TOKENS_PER_ASCII_CHARACTER = 0.34
_TOKENS_PER_OTHER_CHARACTER = 1.5
"""More than tokenizers need: about 0.25 for English, 0.6 to 1.3 for Korean."""
_TOKENS_AROUND_A_TEXT = 200


class Fault(StrEnum):
    """Reasons for which a model gave no answer."""

    REFUSED_REQUEST = "REFUSED_REQUEST"
    BUSY = "BUSY"
    UNREACHABLE = "UNREACHABLE"
    LATE = "LATE"
    NO_RESPONSE_FORMAT = "NO_RESPONSE_FORMAT"
    """The provider's response is not what its API promises."""
    EMPTY = "EMPTY"
    GARBAGE = "GARBAGE"
    """The reply has no object of the requested shape."""
    TWICE = "TWICE"
    """The reply has two answers that differ."""
    CUT = "CUT"
    """The reply ended at its length limit, or in the middle of a thought."""
    FILTERED = "FILTERED"
    """A content filter or guardrail withheld the reply."""
    DECLINED = "DECLINED"
    """The model declined to answer."""
    OVER_BUDGET = "OVER_BUDGET"
    """The reservation does not pay for the prompt and a reply."""


_AGAIN = frozenset({Fault.BUSY, Fault.UNREACHABLE, Fault.EMPTY, Fault.GARBAGE, Fault.TWICE})


class ModelError(Exception):
    """No answer. The message has a status, a code or a fixed phrase, and never quotes what was asked or answered."""

    def __init__(self, fault: Fault, detail: str, *, pause_seconds: float = 0.0) -> None:
        """`pause_seconds`: the pause that the provider asked for, 0 if none."""
        super().__init__(detail)
        self.fault = fault
        self.pause_seconds = pause_seconds

    @property
    def retryable(self) -> bool:
        """True if the same question may get an answer. A timeout is none: it spent the time of a second attempt."""
        return self.fault in _AGAIN


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question. `system` has nothing from a client; `user` has everything from it. `name`: of the reply's shape,
    letters and underscores. `max_output_tokens` is for the reply alone, without the model's thoughts."""

    system: str = field(repr=False)
    user: str = field(repr=False)
    name: str
    max_output_tokens: int


@dataclass(frozen=True, slots=True)
class Reply[T: BaseModel]:
    """A whole reply. `finish_reason` is the provider's word, "" if it gave none. Tokens as the provider counts them."""

    value: T
    tokens_in: int
    tokens_out: int
    finish_reason: str


@dataclass(slots=True)
class TokenBudget:
    """The tokens that a run may still spend, in and out together; shared by its calls, also from several threads.

    `spent` is what the provider counted so far, of failed calls too: the caller reports it with its result or failure.
    """

    limit: int
    spent: int = 0
    _held: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def hold(self, text: str, *, max_output_tokens: int) -> Iterator[int]:
        """Set tokens aside for one call with `text`; yields the limit of its reply. Raises ModelError(OVER_BUDGET)."""
        tokens_in = estimated_tokens(text)
        with self._lock:
            left = self.limit - self.spent - self._held
            if left < tokens_in + MIN_REPLY_TOKENS:
                needed = f"needs about {tokens_in + MIN_REPLY_TOKENS} tokens"
                raise ModelError(Fault.OVER_BUDGET, f"{needed}, the reservation leaves {max(0, left)}")
            tokens_out = min(left - tokens_in, max_output_tokens)
            held = tokens_in + tokens_out
            self._held += held
        try:
            yield tokens_out
        finally:
            with self._lock:
                self._held -= held

    def charge(self, tokens: int) -> None:
        """Record what the provider charged for a call."""
        with self._lock:
            self.spent += tokens


class Model(Protocol):
    """A configured language model."""

    @property
    def engine(self) -> str:
        """The engine's name in the envelope: `bedrock` or `openai_compatible`."""
        ...

    @property
    def model(self) -> str:
        """The model's name, as configured."""
        ...

    def ask[T: BaseModel](self, prompt: Prompt, shape: type[T], *, budget: TokenBudget, deadline: float) -> Reply[T]:
        """One object of `shape` before `deadline` (`time.monotonic()`). Raises ModelError; `budget` counts the tokens.

        `shape` should have only required fields and ignore others. Safe to call from several threads.
        """
        ...


def estimated_tokens(text: str) -> int:
    """The tokens of a request with `text`, estimated rather too high."""
    others = sum(not character.isascii() for character in text)
    tokens = (len(text) - others) * _TOKENS_PER_ASCII_CHARACTER + others * _TOKENS_PER_OTHER_CHARACTER
    return int(tokens) + _TOKENS_AROUND_A_TEXT


def with_retries[T](attempt: Callable[[float], T], *, deadline: float) -> T:
    """Call `attempt(seconds_left)` up to MAX_ATTEMPTS times, as long as the pause before a retry fits `deadline`.

    The pause is at least what the provider asked for.
    """
    pause = _FIRST_PAUSE_SECONDS
    for number in range(1, MAX_ATTEMPTS + 1):
        left = deadline - time.monotonic()
        if left <= 0:
            raise ModelError(Fault.LATE, "no time left")
        try:
            return attempt(left)
        except ModelError as error:
            wait = max(pause, error.pause_seconds)
            if not error.retryable or number == MAX_ATTEMPTS or time.monotonic() + wait >= deadline:
                raise
        time.sleep(wait)
        pause *= 2
    raise AssertionError("the last attempt returns or raises")
