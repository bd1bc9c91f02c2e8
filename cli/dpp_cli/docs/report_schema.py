"""Writes the JSON Schema of TICKET_REAPER_REPORT_V1 (TIX-3) from the reaper's model.

    python -m dpp_cli.docs.report_schema        writes docs/ticket_reaper_report_v1.schema.json

It can't say that `cleaned_count` is the number of `cleaned_items` and not more than `stale_count`; the model does.
"""

import json
import sys

from dpp.tickets.report import ReaperReport
from dpp_cli.docs.openapi.parts import Json
from dpp_cli.docs.openapi.schemas import for_readers, of_answers
from dpp_cli.paths import ROOT

PATH = ROOT / "docs" / "ticket_reaper_report_v1.schema.json"


def schema() -> Json:
    """Build the schema."""
    found = of_answers([ReaperReport], "#/$defs/")
    report = found.pop("ReaperReport")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:dpp:schema:ticket-reaper-report-v1",
        "title": "TICKET_REAPER_REPORT_V1",
        **for_readers(report),
        **_DECISION_FITS_COUNT,
        "$defs": {name: for_readers(found[name]) for name in sorted(found)},
    }


def as_text() -> str:
    """Render the schema as committed."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _members(**wanted: Json) -> Json:
    return {"properties": wanted}


_DECISION_FITS_COUNT: Json = {
    "if": _members(decision={"const": "CLEANED"}),
    "then": _members(cleaned_count={"minimum": 1}, cleaned_items={"minItems": 1}),
    "else": _members(cleaned_count={"const": 0}, cleaned_items={"maxItems": 0}),
}

if __name__ == "__main__":
    PATH.write_text(as_text(), encoding="utf-8")
    sys.stdout.write(f"{PATH.relative_to(ROOT)} written\n")
