"""Findings of a check, their severity and their masked display, never the value itself (RUN-28, RUN-31)."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from dpp.packs.inputs.compliance import SEVERITIES, Severity

type Confidence = Literal["high", "medium", "low"]
type Kind = Literal["personal_data", "required_clause", "forbidden_clause", "pattern"]
type Verdict = Literal["pass", "review", "fail"]

CONFIDENCES: tuple[Confidence, ...] = ("high", "medium", "low")
MAX_EXCERPT_CHARACTERS = 64
_SHOWN_SEPARATORS = frozenset(" -.@+()/")


@dataclass(frozen=True, slots=True)
class Candidate:
    """Possible personal data from `start` to `end` (exclusive) of the searched text."""

    rule: str
    start: int
    end: int
    confidence: Confidence


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation of one rule; `start` and `end` in characters of the document, None for a missing clause."""

    document: int
    kind: Kind
    rule: str
    severity: Severity
    confidence: Confidence
    start: int | None = None
    end: int | None = None
    excerpt: str | None = None

    @property
    def rank(self) -> int:
        """The severity as a comparable number."""
        return SEVERITIES.index(self.severity)

    @property
    def place(self) -> tuple[int, int, int, str]:
        """Sort key: document, then position; missing clauses first."""
        missing = self.start is None or self.end is None
        return (self.document, *((-1, -1) if missing else (self.start or 0, self.end or 0)), self.rule)


def without_overlaps(candidates: Iterable[Candidate], priority: Sequence[str]) -> list[Candidate]:
    """Of overlapping candidates keep the most certain one; ties go by `priority`, then length, then position.

    The answer does not depend on the order in which the candidates come.
    """
    places = {rule: place for place, rule in enumerate(priority)}

    def preference(one: Candidate) -> tuple[int, int, int, int]:
        return (CONFIDENCES.index(one.confidence), places[one.rule], one.start - one.end, one.start)

    starts: list[int] = []
    ends: list[int] = []
    kept: list[Candidate] = []
    for one in sorted(candidates, key=preference):
        place = bisect_left(starts, one.end)
        if place and ends[place - 1] > one.start:
            continue
        starts.insert(place, one.start)
        ends.insert(place, one.end)
        kept.append(one)
    return sorted(kept, key=lambda one: one.start)


def masked(value: str, *, shown_at_end: int = 0) -> str:
    """The value's shape: separators stay, everything else is a star, except its last `shown_at_end` digits."""
    marks = [character if character in _SHOWN_SEPARATORS else "*" for character in value]
    for place in range(len(value) - 1, -1, -1):
        if shown_at_end == 0:
            break
        if value[place].isdecimal():
            marks[place] = value[place]
            shown_at_end -= 1
    return _cut("".join(marks))


def blackened(value: str) -> str:
    """Nothing but the value's length: what a client's own rule meets may consist of separators alone."""
    return _cut("*" * len(value))


def verdict(severities: Iterable[Severity], *, fail_at: Severity, review_at: Severity) -> Verdict:
    """Return the verdict for the most severe of some findings."""
    worst = max(map(SEVERITIES.index, severities), default=-1)
    if worst >= SEVERITIES.index(fail_at):
        return "fail"
    return "review" if worst >= SEVERITIES.index(review_at) else "pass"


def _cut(excerpt: str) -> str:
    if len(excerpt) <= MAX_EXCERPT_CHARACTERS:
        return excerpt
    return excerpt[: MAX_EXCERPT_CHARACTERS - 1] + "…"
