"""Rules without a database: paths, consistency of reports, settings."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dpp.platform.config import ConfigurationError
from dpp.tickets.config import ReaperSettings
from dpp.tickets.model import RequestType
from dpp.tickets.report import CleanedItem, Decision, ReaperReport, raw_path
from dpp.tickets.requests import PARAMS
from dpp.tickets.staleness import LATEST_KEY, result_message, snapshot_key


def test_every_type_has_parameters() -> None:
    assert set(PARAMS) == set(RequestType)


@pytest.mark.parametrize(
    "path", ["reports/ops/tickets/reaper/snapshots/reaper_20260123_210000.json", "reaper_latest.json", "a/b-c/d_e.f.g"]
)
def test_valid_raw_paths(path: str) -> None:
    """TIX-3: RAW_PATH_ONLY."""
    assert raw_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "", "/", "/etc/passwd", "a//b", "a/", "../a", "a/../b", "./a", "a/.", "a/..", ".hidden/../x",
        "https://example.org/a", "s3://bucket/a", "file:a", "//host/a", "a?b", "a#b", "a%2fb", "a\\b", "C:\\a", "a b",
        "a\n", "a\x00b", "\u2026", "~/a", "a/" * 200 + "a",
    ],
)  # fmt: skip
def test_invalid_raw_paths(path: str) -> None:
    with pytest.raises(ValueError, match="relative path"):
        raw_path(path)


@given(st.datetimes(timezones=st.just(UTC)), st.integers(1, 10_000))
def test_snapshot_keys_are_raw_paths(at: datetime, nth: int) -> None:
    assert raw_path(snapshot_key(at, nth)) != raw_path(LATEST_KEY)
    assert (snapshot_key(at, nth) == snapshot_key(at, 1)) is (nth == 1)


def test_fixed_message() -> None:
    """000 §4-B."""
    assert result_message(86_400) == "AUTO_CLEANUP_STALE_IN_PROGRESS: exceeded 86400s threshold"


ITEM = CleanedItem(
    request_id=UUID(int=7),
    request_type=RequestType.EXECUTION_ENABLE,
    last_processed_at=datetime(2026, 1, 22, 1, tzinfo=UTC),
)
REPORT: dict[str, Any] = {
    "asof": datetime(2026, 1, 23, 12, tzinfo=UTC),
    "decision": Decision.CLEANED,
    "threshold_seconds": 86_400,
    "stale_count": 1,
    "cleaned_count": 1,
    "cleaned_items": (ITEM,),
    "evidence_refs": (snapshot_key(datetime(2026, 1, 23, 12, tzinfo=UTC), 1),),
}


def test_report_round_trip() -> None:
    report = ReaperReport(**REPORT)
    assert ReaperReport.model_validate_json(report.to_json()) == report


@pytest.mark.parametrize(
    "changes",
    [
        {"decision": Decision.NONE},
        {"cleaned_count": 0},
        {"cleaned_count": 2},
        {"stale_count": 0},
        {"cleaned_items": (), "cleaned_count": 0},
        {"threshold_seconds": 0},
        {"asof": datetime(2026, 1, 23, 12)},  # noqa: DTZ001 - a time without an offset is what is refused
        {"evidence_refs": ("../secrets",)},
        {"schema": "TICKET_REAPER_REPORT_V2"},
        {"more": 1},
    ],
)
def test_contradicting_report_is_rejected(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ReaperReport(**REPORT | changes)


def test_default_rules() -> None:
    """000 §3, §5; TIX-7."""
    settings = ReaperSettings.load({})
    rules = settings.rules
    assert (rules.threshold_seconds, rules.max_clean, rules.excluded_types) == (86_400, 50, ())
    assert str(settings.zone) == "Asia/Seoul"


def test_configured_rules() -> None:
    settings = ReaperSettings.load(
        {
            "DPP_TIME_ZONE": "Europe/Berlin",
            "DPP_TICKET_REAPER_THRESHOLD_SECONDS": "3600",
            "DPP_TICKET_REAPER_MAX_CLEAN": "7",
            "DPP_TICKET_REAPER_EXCLUDED_TYPES": "EXECUTION_ENABLE, BUDGET_CREDIT",
            "DPP_TICKET_REAPER_BREAKER_COUNT": "9",
            "DPP_TICKET_REAPER_BREAKER_SHARE": "0.25",
        }
    )
    rules = settings.rules
    assert (rules.threshold_seconds, rules.max_clean) == (3_600, 7)
    assert rules.excluded_types == (RequestType.EXECUTION_ENABLE, RequestType.BUDGET_CREDIT)
    assert (rules.breaker.max_stale, rules.breaker.max_share) == (9, 0.25)
    assert str(settings.zone) == "Europe/Berlin"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DPP_TIME_ZONE", "Mars/Olympus"),
        ("DPP_TIME_ZONE", "../etc/passwd"),
        ("DPP_TICKET_REAPER_THRESHOLD_SECONDS", "0"),
        ("DPP_TICKET_REAPER_THRESHOLD_SECONDS", "-1"),
        ("DPP_TICKET_REAPER_THRESHOLD_SECONDS", "1e9"),
        ("DPP_TICKET_REAPER_THRESHOLD_SECONDS", "86400.5"),
        ("DPP_TICKET_REAPER_THRESHOLD_SECONDS", "nan"),
        ("DPP_TICKET_REAPER_THRESHOLD_SECONDS", "a day"),
        ("DPP_TICKET_REAPER_MAX_CLEAN", "0"),
        ("DPP_TICKET_REAPER_MAX_CLEAN", "1000000000"),
        ("DPP_TICKET_REAPER_BREAKER_SHARE", "1.5"),
        ("DPP_TICKET_REAPER_BREAKER_SHARE", "nan"),
        ("DPP_TICKET_REAPER_BREAKER_COUNT", "0"),
        ("DPP_TICKET_REAPER_EXCLUDED_TYPES", "EXECUTION_ENABLE,PIZZA"),
    ],
)
def test_invalid_setting_fails_at_start_with_its_name(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        ReaperSettings.load({name: value})
