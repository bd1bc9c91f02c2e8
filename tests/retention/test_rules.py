"""The due day, the breaker's limit, and checks of the retention section (LIFE-8)."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.lifecycle.flow.errors import RetentionContradiction
from dpp.lifecycle.retention.breaker import Bounds
from dpp.lifecycle.retention.classes import CLASSES
from dpp.lifecycle.retention.periods import Retention, RetentionSettings
from dpp.lifecycle.retention.registry import ordered
from dpp.lifecycle.retention.schedule import due_at, due_day
from dpp.platform.config import ConfigurationError
from dpp.platform.db.retention import RetentionClass

SEED = {
    "log_max_mb": 100,
    "logs_days": 7,
    "results_days": 7,
    "queue_days": 7,
    "prompts_days": 3,
    "session_logs_days": 7,
    "seen_days": 30,
}
"""The retention section of the source document."""


def test_section_has_the_names_and_defaults_of_the_document() -> None:
    section = Retention().model_dump()
    assert {name: section[name] for name in SEED} == SEED


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ('{"seen_days": 28}', "seen_days is 28, but must be greater than horizon_days (28)"),
        ('{"horizon_days": 30}', "seen_days is 30, but must be greater than horizon_days (30)"),
        ('{"results_days": 8}', "results_days is 8, but must not exceed queue_days (7)"),
        ('{"queue_days": 31}', "queue_days is 31, but must not exceed seen_days (30)"),
        ('{"outbox_days": 181}', "outbox_days is 181, but must not exceed auth_errors_days (180)"),
        ('{"workspace_events_days": 181}', "workspace_events_days is 181, but must not exceed workspaces_days (180)"),
        ('{"seen_days": 0}', "DPP_RETENTION.seen_days"),
        ('{"seen_days": "45"}', "DPP_RETENTION.seen_days"),
        ('{"seen_days": 45.5}', "DPP_RETENTION.seen_days"),
        ('{"seen_days": true}', "DPP_RETENTION.seen_days"),
        ('{"sen_days": 45}', "DPP_RETENTION.sen_days"),
        ("[]", "DPP_RETENTION"),
        ("seen_days=45", "not JSON"),
    ],
)
def test_invalid_section_is_rejected_with_its_names(section: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        RetentionSettings.load({"DPP_RETENTION": section})
    assert message in str(refused.value)


def test_section_changes_only_the_named_periods() -> None:
    changed = RetentionSettings.load({"DPP_RETENTION": '{"seen_days": 45}'}).retention
    assert changed == Retention(seen_days=45)
    assert RetentionSettings.load({"DPP_RETENTION": ""}).retention == Retention()


@dataclass(frozen=True)
class Kept:
    """A class with a name and a period only."""

    name: str
    period: str = "queue_days"
    points_at: tuple[str, ...] = field(default=())


def _ordered(*classes: Kept) -> list[str]:
    return [one.name for one in ordered(cast(Any, classes), Retention())]


def test_class_is_deleted_before_the_classes_that_it_points_at() -> None:
    names = _ordered(Kept("c"), Kept("b", points_at=("c",)), Kept("a", points_at=("b", "c")))
    assert names == ["a", "b", "c"]
    own = [one.name for one in ordered(CLASSES, Retention())]
    for one in CLASSES:
        for target in one.points_at:
            assert own.index(one.name) < own.index(target)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ((Kept("a"), Kept("a")), "two classes have the same name: a"),
        ((Kept("a", "no_days"),), "the retention section has no no_days"),
        ((Kept("a", points_at=("b",)),), "a points at b, which does not exist"),
        ((Kept("a", points_at=("b",)), Kept("b", points_at=("a",))), "point at each other"),
        ((Kept("a", "seen_days", ("b",)), Kept("b")), "would be kept longer"),
    ],
)
def test_inconsistent_classes_are_rejected(classes: tuple[Kept, ...], message: str) -> None:
    with pytest.raises(RetentionContradiction) as refused:
        _ordered(*classes)
    assert message in str(refused.value)


def test_classes_implement_the_port() -> None:
    for one in CLASSES:
        kept: RetentionClass = one
        assert kept.period in Retention.model_fields


ZONES = ("Asia/Seoul", "UTC", "America/New_York", "Europe/Helsinki", "Europe/Chisinau", "Australia/Lord_Howe")


@pytest.mark.parametrize(
    ("zone", "now", "day"),
    [
        ("Asia/Seoul", "2026-11-28T17:59:59Z", date(2026, 11, 28)),
        ("Asia/Seoul", "2026-11-28T18:00:00Z", date(2026, 11, 29)),
        # In Helsinki the clocks change from 03:00 to 04:00 on 2026-03-29, at 01:00 UTC: 03:00 does not exist.
        ("Europe/Helsinki", "2026-03-29T00:59:59Z", date(2026, 3, 28)),
        ("Europe/Helsinki", "2026-03-29T01:00:00Z", date(2026, 3, 29)),
        # They change from 04:00 to 03:00 on 2026-10-25, at 01:00 UTC: 03:00 occurs twice, and the first is used.
        ("Europe/Helsinki", "2026-10-24T23:59:59Z", date(2026, 10, 24)),
        ("Europe/Helsinki", "2026-10-25T00:00:00Z", date(2026, 10, 25)),
        ("Europe/Helsinki", "2026-10-25T01:00:00Z", date(2026, 10, 25)),
        # In New York they change from 02:00 to 03:00 on 2026-03-08, at 07:00 UTC.
        ("America/New_York", "2026-03-08T06:59:59Z", date(2026, 3, 7)),
        ("America/New_York", "2026-03-08T07:00:00Z", date(2026, 3, 8)),
    ],
)
def test_day_is_due_from_three_oclock_on(zone: str, now: str, day: date) -> None:
    assert due_day(datetime.fromisoformat(now), ZoneInfo(zone)) == day


@given(st.integers(0, 15 * 365 * 1_440), st.sampled_from(ZONES))
def test_every_day_is_due_once_across_clock_changes(minute: int, name: str) -> None:
    """Checked every minute: each calendar day is due once, in order, 22 to 26 hours after the previous one."""
    zone, now = ZoneInfo(name), datetime(2020, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
    day = due_day(now, zone)
    assert due_at(day, zone) <= now < due_at(day + timedelta(days=1), zone)
    assert due_day(now + timedelta(minutes=1), zone) in {day, day + timedelta(days=1)}
    length = due_at(day + timedelta(days=1), zone) - due_at(day, zone)
    assert timedelta(hours=22) <= length <= timedelta(hours=26)


@pytest.mark.parametrize(
    ("history", "allowed"), [([], 200), ([0, 0, 0], 200), ([30], 300), ([30, 10, 1_000], 300), ([1_000, 1_000], 10_000)]
)
def test_breaker_allows_ten_times_the_median_and_at_least_the_floor(history: list[int], allowed: int) -> None:
    assert Bounds(max_deletes=100_000, factor=10, floor=200).allowed(history) == allowed
