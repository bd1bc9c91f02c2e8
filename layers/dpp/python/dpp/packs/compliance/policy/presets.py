"""The presets: policies that come with the pack, and what is found of them without a model (RUN-28).

A preset is a file of rules. Each rule has its requirement in words, which a model judges, and wordings in Korean and
English, by which it is judged without one. A wording that is forbidden shows a violation, and one that is required
shows that it is met. That no known wording occurs shows the opposite, less surely, and nothing at all in a language
that the presets don't know.
"""

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from dpp.packs.compliance.client_rules import Document
from dpp.packs.compliance.policy.languages import is_korean_or_english
from dpp.packs.compliance.policy.verdicts import (
    MAX_QUOTE_CHARACTERS,
    Passage,
    PolicyFinding,
    PolicyVerdict,
    RuleInWords,
)
from dpp.packs.folding import fold_phrases
from dpp.packs.inputs.compliance import PolicyPreset, Severity
from dpp.packs.patterns import Compiled, compile_pattern

ENGINE: Final = "presets"

# How often a verdict was right on the sentences of tests/packs/policy/held_out.py, rounded down.
CONFIDENCE_OF_A_WORDING = 0.9
CONFIDENCE_OF_NO_WORDING = 0.8

MAX_MATCHES = 500
"""Matches of a forbidden wording that are looked at in one document."""
_REACH_CHARACTERS = 300
"""A sentence is searched this far before and after a wording."""

_SENTENCE_END = re.compile(
    r"""[.!?。！？…]["”’)\]]*(?=\s|$)             # a full stop
      | \n\s*\n                                  # a paragraph
      | \n(?=\s*(?:[-*•·▶■◆○●]|[0-9]+[.)]|[A-Z]))  # a line that begins anew; others are wrapped
      | (?<=[다요음함임됨])\n""",
    re.VERBOSE,
)


class PresetRule(BaseModel):
    """A rule of a preset. `missing` is the reason where a required wording is missing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    requirement: str
    severity: Severity
    reason: str
    patterns: tuple[str, ...] = Field(min_length=1)
    unless: tuple[str, ...] = ()
    forbids: bool = False
    missing: str = ""


@cache
def rules(preset: PolicyPreset) -> tuple[PresetRule, ...]:
    """The rules of a preset, in the order of its file."""
    file = Path(__file__).parent / "presets" / f"{preset}.toml"
    return tuple(PresetRule.model_validate(one) for one in tomllib.loads(file.read_text())["rule"])


def in_words(preset: PolicyPreset) -> list[RuleInWords]:
    """The rules of a preset as a model judges them."""
    return [RuleInWords(f"{preset}.{one.id}", one.severity, one.requirement, preset) for one in rules(preset)]


def judge(preset: PolicyPreset, documents: Sequence[Document]) -> list[PolicyFinding]:
    """A finding for each rule of the preset, by its wordings. All documents together are one body of text."""
    passages = [_first_passage(rule, documents) for rule in rules(preset)]
    # A wording is one of a language that the preset knows.
    known = any(passage for passage, _ in passages) or is_korean_or_english(one.phrases.text for one in documents)
    return [
        _judge(rule, words, passage, complete=complete, known=known)
        for rule, words, (passage, complete) in zip(rules(preset), in_words(preset), passages, strict=True)
    ]


def _judge(
    rule: PresetRule, words: RuleInWords, passage: Passage | None, *, complete: bool, known: bool
) -> PolicyFinding:
    if passage is not None:
        verdict: PolicyVerdict = "violated" if rule.forbids else "met"
        return PolicyFinding(words, verdict, rule.reason, CONFIDENCE_OF_A_WORDING, ENGINE, passage)
    if not known:
        return PolicyFinding(words, "unclear", "The presets know wordings in Korean and English only.", 0.0, ENGINE)
    if not complete:
        return PolicyFinding(words, "unclear", "A wording occurs too often to look at every place.", 0.0, ENGINE)
    if rule.forbids:
        reason = "No wording that the preset knows breaks this rule."
        return PolicyFinding(words, "met", reason, CONFIDENCE_OF_NO_WORDING, ENGINE)
    return PolicyFinding(words, "violated", rule.missing, CONFIDENCE_OF_NO_WORDING, ENGINE)


def _first_passage(rule: PresetRule, documents: Sequence[Document]) -> tuple[Passage | None, bool]:
    """The first passage with a wording, and whether every place was looked at."""
    complete = True
    for document in documents:
        for pattern in rule.patterns:
            for seen, match in enumerate(_compiled(pattern).finditer(document.phrases.text)):
                if seen == MAX_MATCHES:
                    complete = False
                    break
                passage = _passage(document, *document.phrases.original(match.start(), match.end()))
                if not _is_excepted(rule, document.text[passage.start : passage.end]):
                    return passage, True
    return None, complete


def _is_excepted(rule: PresetRule, sentence: str) -> bool:
    folded = fold_phrases(sentence).text
    return any(_compiled(pattern).search(folded) is not None for pattern in rule.unless)


def _passage(document: Document, start: int, end: int) -> Passage:
    """The sentence around a wording; the wording alone if that is very long."""
    before = max(0, start - _REACH_CHARACTERS)
    first = max((one.end() for one in _SENTENCE_END.finditer(document.text, before, start)), default=before)
    found = _SENTENCE_END.search(document.text, max(start, end - 1), end + _REACH_CHARACTERS)
    last = found.end() if found else min(len(document.text), end + _REACH_CHARACTERS)
    sentence = document.text[first:last]
    first += len(sentence) - len(sentence.lstrip())
    last -= len(sentence) - len(sentence.rstrip())
    if last - first > MAX_QUOTE_CHARACTERS:
        first, last = start, min(end, start + MAX_QUOTE_CHARACTERS)
    return Passage(document.number, first, last, document.text[first:last])


@cache
def _compiled(pattern: str) -> Compiled:
    return compile_pattern(pattern, case_sensitive=True)
