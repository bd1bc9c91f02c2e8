"""The findings of a policy, one a rule, with the passage that shows it (RUN-28)."""

from dataclasses import dataclass
from typing import Literal

from dpp.packs.inputs.compliance import PolicyPreset, Severity

type PolicyVerdict = Literal["met", "violated", "unclear"]

MAX_QUOTE_CHARACTERS = 600


@dataclass(frozen=True, slots=True)
class Passage:
    """Characters `start` to `end` (exclusive) of a document, as they stand there."""

    document: int
    start: int
    end: int
    quote: str


@dataclass(frozen=True, slots=True)
class RuleInWords:
    """A rule to judge: a client's, or one of a preset."""

    id: str
    severity: Severity
    words: str
    preset: PolicyPreset | None = None


@dataclass(frozen=True, slots=True)
class PolicyFinding:
    """The verdict on one rule. `engine` judged it; None if none did. A missing statement has no passage."""

    rule: RuleInWords
    verdict: PolicyVerdict
    reason: str
    confidence: float
    engine: str | None
    passage: Passage | None = None
