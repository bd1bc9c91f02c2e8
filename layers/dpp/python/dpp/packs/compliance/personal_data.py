"""The rules for personal data: matches, severity, and how much of a value is shown (RUN-28)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from dpp.packs.compliance import international, korean
from dpp.packs.compliance.findings import Candidate, Finding, masked, without_overlaps
from dpp.packs.compliance.folding import Folded
from dpp.packs.inputs.compliance import RuleSet, Severity


@dataclass(frozen=True, slots=True)
class Rule:
    """`sure` is the severity of a finding of high confidence, `likely` of medium, `unsure` of low confidence."""

    sure: Severity
    likely: Severity
    unsure: Severity
    shown_at_end: int = 0


# In the order of precedence: of two rules that are equally sure of the same characters, the first one has them.
RULES: Mapping[str, Rule] = MappingProxyType(
    {
        korean.RESIDENT: Rule("critical", "critical", "medium"),
        korean.FOREIGNER: Rule("critical", "critical", "medium"),
        international.PASSPORT_ZONE: Rule("critical", "critical", "critical"),
        international.IBAN: Rule("high", "high", "high"),
        # Four digits is what PCI DSS lets anybody see.
        international.CARD: Rule("high", "high", "high", shown_at_end=4),
        korean.BUSINESS: Rule("low", "low", "low"),
        international.EMAIL: Rule("medium", "medium", "medium"),
        korean.PHONE: Rule("medium", "medium", "low"),
        international.PHONE: Rule("medium", "medium", "medium"),
        korean.PASSPORT: Rule("high", "high", "low"),
        international.PASSPORT: Rule("medium", "medium", "medium"),
        korean.ACCOUNT: Rule("medium", "medium", "medium"),
    }
)
_FINDERS: Mapping[RuleSet, Callable[[str], Iterable[Candidate]]] = MappingProxyType(
    {"personal_data_kr": korean.find, "personal_data_international": international.find}
)


def find(document: int, text: str, folded: Folded, rule_sets: Sequence[RuleSet]) -> list[Finding]:
    """The personal data in `text`, of which `folded` is the searched form; no two findings overlap."""
    candidates = [one for rule_set in rule_sets for one in _FINDERS[rule_set](folded.text)]
    return [_finding(document, text, folded, one) for one in without_overlaps(candidates, list(RULES))]


def _finding(document: int, text: str, folded: Folded, candidate: Candidate) -> Finding:
    rule = RULES[candidate.rule]
    start, end = folded.original(candidate.start, candidate.end)
    return Finding(
        document=document,
        kind="personal_data",
        rule=candidate.rule,
        severity={"high": rule.sure, "medium": rule.likely, "low": rule.unsure}[candidate.confidence],
        confidence=candidate.confidence,
        start=start,
        end=end,
        excerpt=masked(text[start:end], shown_at_end=rule.shown_at_end),
    )
