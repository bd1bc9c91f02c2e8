"""The rules for personal data: matches, severity, and how much of a value is shown (RUN-28)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from dpp.packs.compliance import cards, identifiers, international, korean, mail, phones
from dpp.packs.compliance.checks import Checks, TooManyChecksError, lookalikes, outside_of
from dpp.packs.compliance.findings import Candidate, Finding, masked, without_overlaps
from dpp.packs.folding import Folded
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
        identifiers.ZA_ID: Rule("critical", "high", "medium"),  # as long as the next, but found by a word alone
        korean.RESIDENT: Rule("critical", "critical", "medium"),
        korean.FOREIGNER: Rule("critical", "critical", "medium"),
        international.PASSPORT_ZONE: Rule("critical", "critical", "critical"),
        international.IBAN: Rule("high", "high", "high"),
        # Four digits is what PCI DSS lets anybody see.
        cards.CARD: Rule("high", "high", "medium", shown_at_end=4),
        korean.DRIVER: Rule("high", "high", "medium"),
        identifiers.US_SSN: Rule("critical", "high", "medium"),
        identifiers.US_ITIN: Rule("critical", "high", "medium"),
        identifiers.CA_SIN: Rule("critical", "high", "medium"),
        identifiers.GB_NINO: Rule("critical", "high", "medium"),
        identifiers.GB_NHS: Rule("high", "high", "medium"),
        identifiers.IE_PPS: Rule("critical", "high", "medium"),
        identifiers.AU_TFN: Rule("critical", "high", "medium"),
        identifiers.NZ_IRD: Rule("high", "high", "medium"),
        identifiers.IN_AADHAAR: Rule("critical", "high", "medium"),
        identifiers.IN_PAN: Rule("high", "high", "medium"),
        korean.BUSINESS: Rule("low", "low", "low"),
        mail.EMAIL: Rule("medium", "medium", "low"),
        phones.KOREAN: Rule("medium", "medium", "low"),
        phones.INTERNATIONAL: Rule("medium", "medium", "low"),
        korean.PASSPORT: Rule("high", "high", "low"),
        international.PASSPORT: Rule("medium", "medium", "medium"),
        korean.ACCOUNT: Rule("medium", "medium", "medium"),
    }
)
_FINDERS: Mapping[RuleSet, Callable[[str, Checks], Iterable[Candidate]]] = MappingProxyType(
    {"personal_data_kr": korean.find, "personal_data_international": international.find}
)


@dataclass(slots=True)
class Search:
    """The search of all documents of a run for the personal data of some rule sets, within their bounds."""

    rule_sets: Sequence[RuleSet]
    checks: dict[RuleSet, Checks] = field(default_factory=dict[RuleSet, Checks])
    incomplete: set[RuleSet] = field(default_factory=set[RuleSet])
    """The rule sets that were not applied to the last character."""

    def find(self, document: int, text: str, folded: Folded) -> list[Finding]:
        """The personal data in `text`, of which `folded` is the searched form; no two findings overlap."""
        candidates = [one for rule_set in self.rule_sets for one in self._candidates(rule_set, folded.text)]
        plausible = outside_of(lookalikes(folded.text), candidates)
        return [_finding(document, text, folded, one) for one in without_overlaps(plausible, list(RULES))]

    def _candidates(self, rule_set: RuleSet, text: str) -> Iterator[Candidate]:
        try:
            yield from _FINDERS[rule_set](text, self.checks.setdefault(rule_set, Checks()))
        except TooManyChecksError:
            self.incomplete.add(rule_set)


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
