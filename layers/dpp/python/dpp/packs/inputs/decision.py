"""Inputs of the decision pack (RUN-25)."""

from typing import Literal, Self

from pydantic import Field, model_validator

from dpp.packs.inputs.model import PackInputs, PricedInputs, check_distinct
from dpp.packs.prices import decision_cost_usd_micros

MAX_OPTIONS = 10
MAX_CRITERIA = 10


class DecisionOption(PackInputs):
    """One of the options to decide between."""

    name: str = Field(
        min_length=1, max_length=200, pattern=r"\S", repr=False, description="As the context calls it; unique."
    )
    description: str | None = Field(default=None, max_length=4_000, repr=False, description="What the option is.")


class DecisionCriterion(PackInputs):
    """A property by which the options are compared."""

    name: str = Field(min_length=1, max_length=200, pattern=r"\S", repr=False, description="Unique.")
    weight: float = Field(
        default=1.0, gt=0, le=1_000, description="How much it counts, compared with the other criteria."
    )


class DecisionInputs(PricedInputs):
    """Inputs of a decision run: a question, the text to answer from, and how long an answer (RUN-25).

    With options, they are compared by the criteria, and one is recommended.
    """

    question: str = Field(
        min_length=1, max_length=4_000, pattern=r"\S", description="What to decide or answer.", repr=False
    )
    context: str | None = Field(default=None, max_length=200_000, description="The text to answer from.", repr=False)
    mode: Literal["brief", "full"] = Field(
        default="brief", description="`brief`: one short answer; `full`: the answer with its evidence."
    )
    options: list[DecisionOption] | None = Field(
        default=None, min_length=2, max_length=MAX_OPTIONS, repr=False, description="What to decide between."
    )
    criteria: list[DecisionCriterion] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_CRITERIA,
        repr=False,
        description="How to compare the options; without criteria they are compared as a whole.",
    )

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        if self.criteria is not None and self.options is None:
            raise ValueError("criteria need options")
        check_distinct([one.name.strip().casefold() for one in self.options or ()], "the names of options")
        check_distinct([one.name.strip().casefold() for one in self.criteria or ()], "the names of criteria")
        return self

    @property
    def characters(self) -> int:
        """The characters that the price counts: of all texts together."""
        texts = [self.question, self.context or "", *(one.name for one in self.criteria or ())]
        texts += [text for one in self.options or () for text in (one.name, one.description or "")]
        return sum(map(len, texts))

    def least_cost_usd_micros(self) -> int:
        """The price without a provider's tokens."""
        return decision_cost_usd_micros(characters=self.characters, tokens=0)
