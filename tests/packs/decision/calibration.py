"""Fits the offline engine's confidence on one half of the questions, and measures it on the other.

`python -m tests.packs.decision.calibration` prints the weights for `dpp.packs.decision.confidence`, and the table for
docs/packs.md. Contexts alternate between the halves, so no context is in both.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from dpp.packs.decision.confidence import WEIGHTS, Features, confidence
from dpp.packs.decision.extractive import rank
from dpp.packs.decision.sentences import split

QUESTIONS = Path(__file__).parent / "questions.json"
BANDS = ((0.0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.0))
_STEPS, _RATE, _RIDGE = 20_000, 0.5, 0.002


@dataclass(frozen=True)
class Case:
    """A question that got an answer: what the answer shares with it, and whether it is right."""

    language: str
    features: Features
    right: bool


def cases(half: int) -> list[Case]:
    """The questions of one half, 0 (to fit) or 1 (held out), that the engine answers at all."""
    found = []
    for number, one in enumerate(json.loads(QUESTIONS.read_text(encoding="utf-8"))):
        if number % 2 == half:
            sentences = list(split(" ".join(one["context"])))
            assert [sentence.text for sentence in sentences] == one["context"]
            for question, expected in one["questions"]:
                if ranked := rank(question, sentences):
                    right = expected is not None and ranked[0].sentence.text == one["context"][expected]
                    found.append(Case(one["language"], ranked[0].features, right))
    return found


def fit(given: Sequence[Case]) -> tuple[float, ...]:
    """The weights of a logistic regression with a small ridge, by gradient descent."""
    rows = [(1.0, *astuple(case.features)) for case in given]
    weights = [0.0] * len(rows[0])
    for _ in range(_STEPS):
        slopes = [_RIDGE * weight for weight in weights]
        for row, case in zip(rows, given, strict=True):
            error = 1 / (1 + math.exp(-sum(w * x for w, x in zip(weights, row, strict=True)))) - case.right
            slopes = [slope + error * x / len(rows) for slope, x in zip(slopes, row, strict=True)]
        weights = [weight - _RATE * slope for weight, slope in zip(weights, slopes, strict=True)]
    return tuple(round(weight, 3) for weight in weights)


def brier(given: Sequence[Case], weights: Sequence[float] = WEIGHTS) -> float:
    """The mean squared difference of confidence and truth: 0 is best, and 0.25 says always 0.5."""
    return sum((confidence(case.features, weights) - case.right) ** 2 for case in given) / len(given)


def reliability(given: Sequence[Case]) -> list[tuple[float, float, int, float, float]]:
    """For each band of confidence: its ends, the number of answers, their mean confidence, the share of right ones."""
    rows = []
    for low, high in BANDS:
        inside = [case for case in given if low <= confidence(case.features) < high]
        if inside:
            mean = sum(confidence(case.features) for case in inside) / len(inside)
            rows.append((low, high, len(inside), mean, sum(case.right for case in inside) / len(inside)))
    return rows


def table(given: Sequence[Case]) -> str:
    """The reliability table in Markdown."""
    rows = [
        f"| {low:.1f}–{high:.1f} | {n} | {mean:.2f} | {right:.2f} |" for low, high, n, mean, right in reliability(given)
    ]
    return "\n".join(["| confidence | answers | mean confidence | right |", "|---|---|---|---|", *rows])


if __name__ == "__main__":
    weights = fit(cases(0))
    print("weights", weights, "shipped", WEIGHTS)  # noqa: T201
    for half in (0, 1):
        for language in (None, "en", "ko"):
            chosen = [case for case in cases(half) if language in {None, case.language}]
            base = sum(case.right for case in chosen) / len(chosen)
            print(half, language, len(chosen), f"{brier(chosen, weights):.3f} base {base * (1 - base):.3f}")  # noqa: T201
    print(table(cases(1)))  # noqa: T201
