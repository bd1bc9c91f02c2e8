"""The JSON Schema of TICKET_REAPER_REPORT_V1: as generated, and valid for the reaper's reports (TIX-3)."""

import copy
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.tickets import store
from dpp.tickets.config import ReaperSettings
from dpp.tickets.model import RequestType
from dpp.tickets.reap import ReapEffects, ReapRequest, reap
from dpp.tickets.report import ReaperReport, raw_path
from dpp.tickets.store import NewTicket
from dpp_cli.docs import report_schema
from dpp_cli.docs.openapi.schemas import RAW_PATH
from tests.support.world import World

SCHEMA: dict[str, Any] = json.loads(report_schema.PATH.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
OF_THE_CONTRACT: dict[str, Any] = {
    "schema": "TICKET_REAPER_REPORT_V1",
    "asof": "2026-01-23T21:00:00+09:00",
    "decision": "CLEANED",
    "threshold_seconds": 86400,
    "stale_count": 1,
    "cleaned_count": 1,
    "cleaned_items": [
        {
            "request_id": "fd4888b3-1f0e-4d3c-9a53-6f3b9c1d2e4f",
            "request_type": "EXECUTION_ENABLE",
            "last_processed_at": "2026-01-22T10:00:00+09:00",
            "reason": "AUTO_CLEANUP_STALE_IN_PROGRESS",
        }
    ],
    "evidence_refs": ["reports/ops/tickets/reaper/snapshots/reaper_20260123_210000.json"],
}
"""The contract's own example (000 §2), with a whole id and one decision of the two."""

type Break = Callable[[dict[str, Any]], object]
BROKEN: dict[str, Break] = {
    "another schema": lambda report: report.update(schema="TICKET_REAPER_REPORT_V2"),
    "no schema": lambda report: report.pop("schema"),
    "no time": lambda report: report.pop("asof"),
    "a time without an offset": lambda report: report.update(asof="2026-01-23T21:00:00"),
    "a time with a name for its offset": lambda report: report.update(asof="2026-01-23T12:00:00Z"),
    "a day": lambda report: report.update(asof="2026-01-23"),
    "a decision that is none": lambda report: report.update(decision="NONE | CLEANED"),
    "nothing decided, one cleaned": lambda report: report.update(decision="NONE"),
    "cleaned, and none was": lambda report: report.update(cleaned_count=0, cleaned_items=[]),
    "a threshold of nothing": lambda report: report.update(threshold_seconds=0),
    "a threshold in text": lambda report: report.update(threshold_seconds="86400"),
    "fewer than none": lambda report: report.update(stale_count=-1),
    "half a ticket": lambda report: report.update(cleaned_count=1.5),
    "no count": lambda report: report.pop("stale_count"),
    "no items": lambda report: report.pop("cleaned_items"),
    "items that are none": lambda report: report.update(cleaned_items={}),
    "a field more": lambda report: report.update(actor="kim"),
    "an item's field more": lambda report: report["cleaned_items"][0].update(status="FAILED"),
    "an item without an id": lambda report: report["cleaned_items"][0].pop("request_id"),
    "an id cut short": lambda report: report["cleaned_items"][0].update(request_id="fd4888b3-..."),
    "a type that is none": lambda report: report["cleaned_items"][0].update(request_type="EXECUTION"),
    "another reason": lambda report: report["cleaned_items"][0].update(reason="MANUAL"),
    "an item's time without an offset": lambda report: report["cleaned_items"][0].update(
        last_processed_at="2026-01-22T10:00:00"
    ),
    "a bucket's address": lambda report: report.update(evidence_refs=["s3://bucket/reports/x.json"]),
    "an absolute path": lambda report: report.update(evidence_refs=["/reports/x.json"]),
    "a way up": lambda report: report.update(evidence_refs=["reports/../x.json"]),
    "a query": lambda report: report.update(evidence_refs=["reports/x.json?versionId=1"]),
    "a line break behind": lambda report: report.update(evidence_refs=["reports/x.json\n"]),
    "a path that is no text": lambda report: report.update(evidence_refs=[None]),
}


def test_the_committed_schema_is_the_generated_one() -> None:
    """Regenerate it with `python -m dpp_cli.docs.report_schema`."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert report_schema.PATH.read_text(encoding="utf-8") == report_schema.as_text()


def test_the_contracts_own_example_fits_schema_and_model() -> None:
    """TIX-3: exactly its fields; the model returns them in the same order."""
    VALIDATOR.validate(OF_THE_CONTRACT)
    assert SCHEMA["required"] == list(OF_THE_CONTRACT) == list(SCHEMA["properties"])
    kept = json.loads(ReaperReport.model_validate(OF_THE_CONTRACT).to_json())
    assert list(kept.items()) == list(OF_THE_CONTRACT.items())


@pytest.mark.parametrize("broken", BROKEN.values(), ids=list(BROKEN))
def test_a_broken_report_is_refused(broken: Break) -> None:
    """TIX-3."""
    report = copy.deepcopy(OF_THE_CONTRACT)
    broken(report)
    assert not VALIDATOR.is_valid(report)


_PATHS = st.text(st.sampled_from("aZ09_-./:?#%\\ \n~é"), max_size=12) | st.text(max_size=6)


@given(path=_PATHS | st.integers(195, 205).map("a".__mul__))
def test_a_raw_path_is_the_same_to_the_schema_and_to_the_model(path: str) -> None:
    """TIX-3, RAW_PATH_ONLY: both refuse the same paths."""
    try:
        raw_path(path)
        taken = True
    except ValueError:
        taken = False
    assert jsonschema.Draft202012Validator(RAW_PATH).is_valid(path) is taken


def test_the_reports_of_the_reaper_fit_the_schema(world: World) -> None:
    """TIX-3, TIX-4: with and without ended tickets, also in S3, and that of a dry run."""
    settings = ReaperSettings.load({})
    effects = ReapEffects(world.database, world.storage, settings.zone)
    then = world.now() - timedelta(days=2)
    world.using(store.file_ticket, NewTicket(uuid4(), RequestType.DLQ_REDRIVE, {}, "why", "kim"), then)
    world.using(store.take_open, "OPS_CYCLE/x", then)
    runs = [reap(ReapRequest("kim", settings.rules, dry_run=dry_run), effects) for dry_run in (True, False, False)]
    written = [json.loads(run.report.to_json()) for run in runs]
    for run in runs[1:]:
        assert run.snapshot_key is not None
        written.append(json.loads(world.storage.get(run.snapshot_key) or b""))
    for report in written:
        VALIDATOR.validate(report)
    assert [report["decision"] for report in written] == ["NONE", "CLEANED", "NONE", "CLEANED", "NONE"]
