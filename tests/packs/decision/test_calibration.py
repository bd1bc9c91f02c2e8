"""The offline engine's confidence is what was measured on questions that it was not fitted on (RUN-25)."""

import json
import re
from pathlib import Path

import pytest

from dpp.packs.decision import weighing
from dpp.packs.decision.confidence import WEIGHTS, confidence
from dpp.packs.decision.recommendation import recommend
from dpp.packs.inputs.decision import DecisionInputs
from dpp_cli.paths import ROOT
from tests.packs.decision import calibration

PAGE = (ROOT / "docs" / "packs.md").read_text(encoding="utf-8")
HELD_OUT = calibration.cases(1)


def test_the_shipped_weights_are_the_fitted_ones() -> None:
    """RUN-25: `python -m tests.packs.decision.calibration` prints them after a change of words or features."""
    assert calibration.fit(calibration.cases(0)) == pytest.approx(WEIGHTS, abs=0.002)


def test_the_page_shows_what_is_measured_on_the_held_out_half() -> None:
    """docs/packs.md, decision."""
    assert calibration.table(HELD_OUT) in PAGE
    assert f"Brier score of {calibration.brier(HELD_OUT):.3f}" in PAGE


def test_the_confidence_says_more_than_a_constant_would() -> None:
    """RUN-25: in both languages, on questions that were not fitted."""
    for language in ("en", "ko"):
        chosen = [case for case in HELD_OUT if case.language == language]
        share = sum(case.right for case in chosen) / len(chosen)
        assert calibration.brier(chosen) < 0.5 * share * (1 - share)


def test_nine_of_ten_answers_at_the_default_minimum_are_right() -> None:
    """RUN-3, RUN-25: the default of 0.8 is reached by clear answers, and by few others."""
    clear = [case.right for case in HELD_OUT if confidence(case.features) >= 0.8]
    assert len(clear) > len(HELD_OUT) / 3
    assert sum(clear) / len(clear) > 0.9


def _recommended(one: dict[str, object]) -> tuple[str | None, float]:
    names = [str(name) for name in one["options"]] if isinstance(one["options"], list) else []
    criteria = [{"name": name} for name in one["criteria"]] if isinstance(one["criteria"], list) else []
    raw = {"question": one["question"], "context": one["context"], "criteria": criteria}
    inputs = DecisionInputs.model_validate(raw | {"options": [{"name": name} for name in names]})
    comparison = weighing.compare(inputs)
    found = recommend(comparison, [1.0] * len(criteria)).option
    return None if found is None else names[found], comparison.confidence


def test_the_page_shows_how_often_the_offline_comparison_is_right() -> None:
    """docs/packs.md, decision: of comparisons written after its words, too."""
    cases = json.loads((Path(__file__).parent / "comparisons.json").read_text(encoding="utf-8"))
    for held_out, pattern in (
        (False, r"(\d+) of (\d+) comparisons that it was developed with"),
        (True, r"(\d+) of (\d+) others"),
    ):
        chosen = [one for one in cases if one.get("held_out", False) is held_out]
        right = sum(_recommended(one)[0] == one["right"] for one in chosen)
        found = re.search(pattern, PAGE)
        assert found is not None
        assert (int(found[1]), int(found[2])) == (right, len(chosen))


def test_no_wrong_recommendation_reaches_the_default_minimum() -> None:
    """RUN-3, RUN-25."""
    for one in json.loads((Path(__file__).parent / "comparisons.json").read_text(encoding="utf-8")):
        name, confidence = _recommended(one)
        assert name == one["right"] or confidence < 0.8
