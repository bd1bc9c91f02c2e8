"""Inputs of the decision pack (RUN-25)."""

from typing import Literal

from pydantic import Field

from dpp.packs.inputs.model import PricedInputs
from dpp.packs.prices import decision_cost_usd_micros


class DecisionInputs(PricedInputs):
    """Inputs of a decision run: a question, the text to answer from, and how long an answer (RUN-25)."""

    question: str = Field(
        min_length=1, max_length=4_000, pattern=r"\S", description="What to decide or answer.", repr=False
    )
    context: str | None = Field(default=None, max_length=200_000, description="The text to answer from.", repr=False)
    mode: Literal["brief", "full"] = Field(
        default="brief", description="`brief`: one short answer; `full`: the answer with its evidence."
    )

    def least_cost_usd_micros(self) -> int:
        """The price without a provider's tokens."""
        return decision_cost_usd_micros(characters=len(self.question) + len(self.context or ""), tokens=0)
