"""The rules that a client brings along: clauses, and patterns through RE2 (RUN-28)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpp.packs.compliance.findings import Finding, Kind, blackened
from dpp.packs.folding import Folded, fold_phrases
from dpp.packs.inputs.compliance import Clause, CompliancePattern, Severity
from dpp.packs.patterns import Compiled, compile_pattern

MAX_MATCHES = 2_000
"""Matches of one rule in all documents together; the result says if there are more."""


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


@dataclass(frozen=True, slots=True)
class PatternRule:
    """A compiled pattern."""

    id: str
    severity: Severity
    compiled: Compiled

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


def read_pattern(pattern: CompliancePattern) -> PatternRule:
    """The compiled pattern; the inputs accept only one that compiles."""
    compiled = compile_pattern(pattern.pattern, case_sensitive=pattern.case_sensitive)
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
