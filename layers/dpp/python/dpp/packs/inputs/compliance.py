"""Inputs of the compliance pack (RUN-28)."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dpp.packs.inputs.model import PackInputs, PricedInputs, check_distinct
from dpp.packs.patterns import compile_pattern
from dpp.packs.prices import compliance_cost_usd_micros

Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = ("low", "medium", "high", "critical")
"""From the least to the most severe."""

# Ids come back in the result, where no personal data may stand, so they leave little room for it.
PlainId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", max_length=64)]
Phrase = Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]
RuleSet = Literal["personal_data_kr", "personal_data_international"]


class ComplianceDocument(PackInputs):
    """A text to check."""

    id: PlainId
    text: str = Field(max_length=200_000, repr=False)


class Clause(PackInputs):
    """A clause that a document must contain, or must not contain, in one of several wordings."""

    id: PlainId
    any_of: list[Phrase] = Field(
        min_length=1, max_length=10, repr=False, description="Compared without case, width and line breaks."
    )
    severity: Severity = "high"


class CompliancePattern(PackInputs):
    """A regular expression that a document must not match."""

    id: PlainId
    pattern: str = Field(
        min_length=1, max_length=500, repr=False, description="RE2 syntax; no look-around, no back-references."
    )
    case_sensitive: bool = True
    severity: Severity = "medium"

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        compile_pattern(self.pattern, case_sensitive=self.case_sensitive)
        return self


PolicyPreset = Literal["advertising_claims", "privacy_notice", "contract_clauses"]


class PolicyRule(PackInputs):
    """A rule in words. Only a language model can judge it."""

    id: PlainId
    words: Phrase = Field(repr=False, description="What the documents must or must not say, in one sentence.")
    severity: Severity = "high"


class Policy(PackInputs):
    """A policy that the documents are judged against, all together: presets, and rules in words."""

    presets: list[PolicyPreset] = Field(default=[], max_length=3)
    rules: list[PolicyRule] = Field(default=[], max_length=200)

    @model_validator(mode="after")
    def _rules_are_there_and_named_once(self) -> Self:
        if not (self.presets or self.rules):
            raise ValueError("there is no rule in the policy: give a preset or a rule in words")
        check_distinct(self.presets, "presets")
        check_distinct([one.id for one in self.rules], "the ids of the policy's rules")
        return self


class ComplianceInputs(PricedInputs):
    """Inputs of a compliance run: documents, the rules they are checked against, and what fails (RUN-28)."""

    documents: list[ComplianceDocument] = Field(min_length=1, max_length=50, repr=False)
    rule_sets: list[RuleSet] = Field(default=["personal_data_kr", "personal_data_international"], max_length=2)
    required_clauses: list[Clause] = Field(default=[], max_length=50)
    forbidden_clauses: list[Clause] = Field(default=[], max_length=50)
    patterns: list[CompliancePattern] = Field(default=[], max_length=20)
    policy: Policy | None = Field(default=None, description="Judged by the deployment's language model, if it has one.")
    fail_at: Severity = Field(default="high", description="A finding as severe as this fails its document.")
    review_at: Severity = Field(default="low", description="One as severe as this asks for a human's look.")
    max_findings: int = Field(default=500, ge=1, le=1_000, description="The most severe are kept.")

    @model_validator(mode="after")
    def _rules_are_there_and_named_once(self) -> Self:
        clauses = [*self.required_clauses, *self.forbidden_clauses]
        if not (self.rule_sets or clauses or self.patterns or self.policy):
            raise ValueError("there is no rule to check: give a rule set, a clause, a pattern or a policy")
        check_distinct(self.rule_sets, "rule sets")
        check_distinct([one.id for one in self.documents], "the ids of documents")
        ids = [*(one.id for one in clauses), *(one.id for one in self.patterns)]
        check_distinct(ids, "the ids of clauses and patterns")
        return self

    def cost_usd_micros(self, *, tokens: int) -> int:
        """The price of a run for whose policy a model's provider counted `tokens`."""
        return compliance_cost_usd_micros(
            characters=sum(len(document.text) for document in self.documents),
            patterns=len(self.patterns),
            presets=len(self.policy.presets) if self.policy else 0,
            rules_in_words=len(self.policy.rules) if self.policy else 0,
            tokens=tokens,
        )

    def least_cost_usd_micros(self) -> int:
        """The price without a provider's tokens."""
        return self.cost_usd_micros(tokens=0)
