"""The results of the decision pack's engines (RUN-25)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of the context by its position in characters. `score`: 0 to 1, how well it fits; None by a model."""

    text: str
    start: int
    end: int
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. `confidence` is 0 to 1 and the run's reliability score; it prices nothing (001 §9.4.1).

    `unverified_quotes`: the number of a model's quotes that do not stand in the context.
    """

    text: str
    confidence: float
    evidence: tuple[Passage, ...] = ()
    unverified_quotes: int = 0


@dataclass(frozen=True, slots=True)
class Judgement:
    """One option by one criterion: `score` is 0 (bad) to 1 (good), None if the context says nothing of it."""

    score: float | None
    reason: str = ""
    evidence: tuple[Passage, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The options compared. `judgements[option][criterion]` in the order of the inputs.

    `stated`: the number of the option that a model recommends; None if it recommends none, or was not asked.
    """

    text: str
    confidence: float
    judgements: tuple[tuple[Judgement, ...], ...]
    stated: int | None = None
    unverified_quotes: int = 0
