"""The confidence of a quoted answer: how likely the sentence answers the question, as measured (RUN-25).

A logistic model of three features. Its weights were fitted on one half of the questions of
`tests/packs/decision/questions.json` and measured on the other half (docs/packs.md, decision);
`python -m tests.packs.decision.calibration` does both again.
"""

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass

WEIGHTS = (-3.474, 1.354, 3.693, 1.632)
"""Of the constant and of the features in their order."""

MAX_CONFIDENCE = 0.95
"""The largest share of right answers that a few hundred questions can show."""

MAX_CONFIDENCE_OF_ONE_WORD = 0.6
"""The limit if the sentence has nothing else that the question asks for: a rule, since too few were measured."""


@dataclass(frozen=True, slots=True)
class Features:
    """The features that a sentence shares with a question.

    `coverage`: the share of the question's words that the sentence has, rare words counting more. `complete`: 1 if it
    has all of them. `fit`: see `expected.fits`.
    """

    coverage: float
    complete: float
    fit: float


def confidence(features: Features, weights: Sequence[float] = WEIGHTS) -> float:
    """0 to MAX_CONFIDENCE."""
    constant, *rest = weights
    total = constant + sum(weight * value for weight, value in zip(rest, astuple(features), strict=True))
    return min(MAX_CONFIDENCE, 1 / (1 + math.exp(-total)))
