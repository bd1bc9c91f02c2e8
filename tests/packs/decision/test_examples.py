"""The decisions that the pages show reach the default minimum reliability offline (RUN-3, RUN-25)."""

import json
import re
from typing import Any, cast

import pytest

from dpp.packs.contract import PackRequest, PackSuccess, PackType
from dpp.packs.decision import pack
from dpp.packs.inputs.decision import DecisionInputs
from dpp.platform.config import ModelSettings
from dpp_cli.docs.openapi import examples
from dpp_cli.local.demo import RUNS
from dpp_cli.paths import ROOT

DEFAULT_MINIMUM = 0.8
PAGES = ("README.md", "docs/client.md", "docs/mcp.md", "docs/deploy.md", "docs/tutorial.md")
_JSON = re.compile(r'"question": "([^"]+)",\s*"context": "([^"]+)"')
_SHELL = re.compile(r'-i question="([^"]+)"\s*(?:\\\n\s*)?-i context="([^"@]+)"')


def confidence(inputs: dict[str, Any]) -> float:
    request = PackRequest(
        run_id="run", pack_type=PackType.DECISION, inputs=inputs, timebox_sec=5, max_cost_usd_micros=250_000
    )
    result = pack.run(DecisionInputs.model_validate(inputs), request, ModelSettings.load({}))
    assert isinstance(result, PackSuccess)
    return result.reliability_score


@pytest.mark.parametrize("page", PAGES)
def test_the_questions_of_a_page_are_answered_at_the_default(page: str) -> None:
    """README and docs: nobody's first run should fail."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "min_reliability_score=0." not in text
    assert "--min-reliability 0." not in text
    found = [*_JSON.findall(text), *_SHELL.findall(text)]
    assert found
    for question, context in found:
        assert confidence({"question": question, "context": context}) >= DEFAULT_MINIMUM, question


def test_every_shell_example_with_a_question_has_a_context() -> None:
    """The offline engine answers from a context alone."""
    for page in ("README.md", "docs/client.md", "docs/cli.md"):
        for command in re.findall(r"dpp run submit decision(?:.*\\\n)*.*", (ROOT / page).read_text(encoding="utf-8")):
            assert "-i question=" not in command or "-i context=" in command, command


def test_the_requests_of_the_packs_page_are_answered_at_the_default() -> None:
    """docs/packs.md, decision."""
    page = (ROOT / "docs" / "packs.md").read_text(encoding="utf-8")
    bodies = [json.loads(body) for body in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    decisions = [body for body in bodies if body["pack_type"] == "decision"]
    assert len(decisions) == 2
    for body in decisions:
        assert "min_reliability_score" not in body["reservation"]
        assert confidence(body["inputs"]) >= DEFAULT_MINIMUM


def test_the_openapi_example_and_the_demo_are_answered_at_the_default() -> None:
    """`dpp demo`, /docs."""
    assert "min_reliability_score" not in examples.RUNS["requests"]["decision"]["reservation"]
    assert confidence(examples.RUNS["requests"]["decision"]["inputs"]) >= DEFAULT_MINIMUM
    for run in RUNS:
        assert confidence(cast("dict[str, Any]", dict(run.inputs))) >= DEFAULT_MINIMUM, run.title
