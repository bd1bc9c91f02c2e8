"""The rules that a client brings along: clauses, and patterns through RE2 (RUN-28).

RE2 takes time in proportion to the text whatever the pattern; `re` on a stranger's pattern may take forever.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import re2

from dpp.packs.compliance.findings import Finding, Kind, blackened
from dpp.packs.compliance.folding import Folded, fold_phrases
from dpp.packs.inputs.compliance import Clause, CompliancePattern, Severity

MAX_MATCHES = 2_000
"""Matches of one rule in all documents together; the result says if there are more."""

_PROGRAM_BYTES = 8 << 20


class RuleRefusedError(ValueError):
    """A rule is invalid; the message names its position and never quotes it."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document in its searched forms."""

    number: int
    text: str
    folded: Folded
    phrases: Folded


@dataclass(frozen=True, slots=True)
class Found:
    """The findings of one rule, and whether the list is complete."""

    rule: str
    findings: list[Finding]
    complete: bool = True


type _Span = tuple[Document, int, int]


@dataclass(frozen=True, slots=True)
class PhraseRule:
    """A clause with its wordings in searched form."""

    id: str
    severity: Severity
    wordings: tuple[str, ...]

    def missing(self, documents: Sequence[Document]) -> Found:
        """Return a finding for each document without any of the wordings."""
        lacking = [one for one in documents if not any(wording in one.phrases.text for wording in self.wordings)]
        return Found(
            self.id, [Finding(one.number, "required_clause", self.id, self.severity, "high") for one in lacking]
        )

    def present(self, documents: Sequence[Document]) -> Found:
        """Return a finding for each occurrence of one of the wordings."""
        return _found(self.id, "forbidden_clause", self.severity, self._spans(documents))

    def _spans(self, documents: Sequence[Document]) -> Iterator[_Span]:
        for document in documents:
            for wording in self.wordings:
                place = document.phrases.text.find(wording)
                while place >= 0:
                    yield document, *document.phrases.original(place, place + len(wording))
                    place = document.phrases.text.find(wording, place + len(wording))


class _Match(Protocol):
    def start(self) -> int: ...
    def end(self) -> int: ...


class _Compiled(Protocol):
    """The part of RE2's compiled pattern that is used; the package has no types."""

    def finditer(self, text: str, /) -> Iterator[_Match]: ...


@dataclass(frozen=True, slots=True)
class PatternRule:
    """A compiled pattern."""

    id: str
    severity: Severity
    compiled: _Compiled

    def present(self, documents: Sequence[Document]) -> Found:
        """A finding for each match that is not empty; the empty ones count for MAX_MATCHES, too."""
        return _found(self.id, "pattern", self.severity, self._spans(documents))

    def _spans(self, documents: Sequence[Document]) -> Iterator[_Span | None]:
        for document in documents:
            for match in self.compiled.finditer(document.folded.text):
                empty = match.start() == match.end()
                yield None if empty else (document, *document.folded.original(match.start(), match.end()))


def read_clause(clause: Clause, place: str) -> PhraseRule:
    """The clause as it is searched for. Raises RuleRefusedError for a wording that has nothing visible."""
    wordings = tuple(fold_phrases(wording).text.strip() for wording in clause.any_of)
    if not all(wordings):
        raise RuleRefusedError(f"{place}: a wording is empty")
    return PhraseRule(clause.id, clause.severity, wordings)


def read_pattern(pattern: CompliancePattern, place: str) -> PatternRule:
    """The pattern, compiled. Raises RuleRefusedError for one that RE2 refuses, or that finds nothing everywhere."""
    options = re2.Options()
    options.max_mem = _PROGRAM_BYTES
    options.log_errors = False  # they quote the pattern
    options.never_capture = True
    options.case_sensitive = pattern.case_sensitive
    try:
        compiled = re2.compile(pattern.pattern, options)
    except re2.error:
        raise RuleRefusedError(f"{place}: not a pattern that RE2 takes") from None
    if compiled.search("") is not None:
        raise RuleRefusedError(f"{place}: matches the empty text")
    return PatternRule(pattern.id, pattern.severity, compiled)


def _found(rule: str, kind: Kind, severity: Severity, spans: Iterator[_Span | None]) -> Found:
    findings: dict[tuple[int, int, int], Finding] = {}
    for seen, span in enumerate(spans):
        if seen == MAX_MATCHES:
            return Found(rule, list(findings.values()), complete=False)
        if span is not None:
            document, start, end = span
            excerpt = blackened(document.text[start:end])
            # A dictionary, since two wordings may be the same once they are folded.
            findings[document.number, start, end] = Finding(
                document.number, kind, rule, severity, "high", start, end, excerpt
            )
    return Found(rule, list(findings.values()))
