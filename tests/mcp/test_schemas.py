"""The tools' schemas are those of the specification, and agree with POST /v1/runs (001 §22.2)."""

from typing import Any

import jsonschema
import pytest

from dpp.packs.contract import PackType
from dpp.runs.api.tool_schemas import INPUT_SCHEMAS
from dpp.runs.api.tools import TOOLS, list_tools

COST = {"type": "number", "minimum": 0.01}
SECONDS = {"type": "integer", "minimum": 1, "maximum": 90}
SCORE = {"type": "number", "minimum": 0, "maximum": 1}
SPECIFIED: dict[PackType, dict[str, Any]] = {
    PackType.URL: {
        "type": "object",
        "required": ["urls", "max_cost_usd"],
        "properties": {
            "urls": {"type": "array", "items": {"type": "string", "format": "uri"}, "maxItems": 30},
            "max_cost_usd": COST,
            "timebox_sec": SECONDS,
            "min_reliability_score": SCORE,
        },
    },
    PackType.OCR: {
        "type": "object",
        "required": ["input_files", "max_cost_usd"],
        "properties": {
            "input_files": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 10},
            "max_cost_usd": COST,
            "ocr_profile": {"type": "string", "enum": ["P1", "P2A", "P2B", "P3"]},
            "language": {"type": "string", "default": "kor+eng"},
            "timebox_sec": SECONDS,
            "artifacts": {
                "type": "object",
                "properties": {"include_markdown": {"type": "boolean"}, "include_docx": {"type": "boolean"}},
            },
        },
    },
    PackType.DECISION: {
        "type": "object",
        "required": ["question", "max_cost_usd"],
        "properties": {
            "question": {"type": "string"},
            "context": {"type": "string"},
            "max_cost_usd": COST,
            "timebox_sec": SECONDS,
            "min_reliability_score": SCORE,
        },
    },
}


def assert_holds(whole: Any, part: Any) -> None:
    """Assert that `whole` has every member of `part` with the same value."""
    if isinstance(part, dict):
        for name, value in part.items():
            assert_holds(whole[name], value)
    else:
        assert whole == part


@pytest.mark.parametrize("pack", SPECIFIED)
def test_a_tools_schema_is_the_specified_one_plus_a_key(pack: PackType) -> None:
    schema = INPUT_SCHEMAS[pack]
    assert_holds(schema, SPECIFIED[pack])
    assert set(schema["properties"]) == {*SPECIFIED[pack]["properties"], "idempotency_key"}
    assert all("description" in one for one in schema["properties"].values())


def test_there_are_three_tools_with_valid_schemas() -> None:
    assert list(TOOLS) == ["dpp_ocr_run_submit", "dpp_url_run_submit", "dpp_decision_run_submit"]
    for tool in list_tools():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.output_schema is not None
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)
        assert tool.output_schema["type"] == "object"


def test_the_sdk_lists_tools_unchanged() -> None:
    """No null or default is added or lost."""
    listed = {t.name: t.model_dump(mode="json", by_alias=True, exclude_none=True) for t in list_tools()}
    for name, pack in TOOLS.items():
        assert listed[name]["inputSchema"] == INPUT_SCHEMAS[pack]
