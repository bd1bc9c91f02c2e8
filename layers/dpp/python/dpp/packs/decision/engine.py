"""The protocol of decision engines: a question and a deadline in, an answer or an error out (RUN-25)."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dpp.packs.inputs.decision import DecisionInputs

MAX_ATTEMPTS = 3
_FIRST_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Evidence:
    """A passage of the context, by its position in characters, and how well it fits the question."""

    text: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Answer:
    """An engine's answer. `confidence` is 0 to 1 and the run's reliability score; it prices nothing (001 §9.4.1)."""

    text: str
    confidence: float
    tokens_consumed: int = 0
    model: str | None = None
    evidence: tuple[Evidence, ...] = ()


class ProviderError(Exception):
    """The provider gave no answer. The message has a status or a code and never quotes the input."""

    def __init__(self, detail: str, *, retryable: bool = False, timed_out: bool = False) -> None:
        super().__init__(detail)
        self.retryable = retryable
        self.timed_out = timed_out


class Engine(Protocol):
    """One way to answer a question."""

    @property
    def name(self) -> str:
        """The engine's name in the envelope."""
        ...

    def answer(self, inputs: DecisionInputs, *, deadline: float) -> Answer:
        """Answer before `deadline` (`time.monotonic()`), or raise ProviderError."""
        ...


def with_retries(attempt: Callable[[float], Answer], *, deadline: float) -> Answer:
    """Call `attempt(seconds_left)` up to MAX_ATTEMPTS times, as long as a retry fits before `deadline`.

    A timeout is never retried: it has spent the time that a second attempt would need.
    """
    pause = _FIRST_PAUSE_SECONDS
    for number in range(1, MAX_ATTEMPTS + 1):
        left = deadline - time.monotonic()
        if left <= 0:
            raise ProviderError("no time left", timed_out=True)
        try:
            return attempt(left)
        except ProviderError as error:
            fits = time.monotonic() + pause < deadline
            if not error.retryable or number == MAX_ATTEMPTS or not fits:
                raise
        time.sleep(pause)
        pause *= 2
    raise AssertionError("the last attempt returns or raises")
