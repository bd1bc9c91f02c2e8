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


class ComplianceInputs(PricedInputs):
    """Inputs of a compliance run: documents, the rules they are checked against, and what fails (RUN-28)."""

    documents: list[ComplianceDocument] = Field(min_length=1, max_length=50, repr=False)
    rule_sets: list[RuleSet] = Field(default=["personal_data_kr", "personal_data_international"], max_length=2)
    required_clauses: list[Clause] = Field(default=[], max_length=50)
    forbidden_clauses: list[Clause] = Field(default=[], max_length=50)
    patterns: list[CompliancePattern] = Field(default=[], max_length=20)
    fail_at: Severity = Field(default="high", description="A finding as severe as this fails its document.")
    review_at: Severity = Field(default="low", description="One as severe as this asks for a human's look.")
    max_findings: int = Field(default=500, ge=1, le=1_000, description="The most severe are kept.")

    @model_validator(mode="after")
    def _rules_are_there_and_named_once(self) -> Self:
        clauses = [*self.required_clauses, *self.forbidden_clauses]
        if not (self.rule_sets or clauses or self.patterns):
            raise ValueError("there is no rule to check: give a rule set, a clause or a pattern")
        check_distinct(self.rule_sets, "rule sets")
        check_distinct([one.id for one in self.documents], "the ids of documents")
        ids = [*(one.id for one in clauses), *(one.id for one in self.patterns)]
        check_distinct(ids, "the ids of clauses and patterns")
        return self

    def least_cost_usd_micros(self) -> int:
        """The price; all of it is known from the inputs."""
        characters = sum(len(document.text) for document in self.documents)
        return compliance_cost_usd_micros(characters=characters, patterns=len(self.patterns))
