"""LIFE-9: what the local stack does is one log a day, split at 00:00 of its zone, and none replaces another."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from dpp_cli.local import events
from dpp_cli.local.rotation import tidy
from tests.local.test_log_rotation import DAY, NOW, RULES, SEOUL, Crash


def put_events(folder: Path, *times: datetime) -> None:
    for at in times:
        events.emit(folder, "deployed", now=at, zone_of=SEOUL)


def test_the_day_ends_at_midnight_of_the_zone(tmp_path: Path) -> None:
    put_events(tmp_path, datetime(2026, 11, 28, 23, 59, 59, tzinfo=SEOUL))
    assert tidy(tmp_path, RULES, datetime(2026, 11, 28, 23, 59, 59, 999_999, tzinfo=SEOUL)).split == []
    midnight = datetime(2026, 11, 29, 0, 0, tzinfo=SEOUL)
    assert tidy(tmp_path, RULES, midnight).split == ["events-20261128.log"]
    assert not (tmp_path / "events.log").exists()


def test_the_writer_of_the_first_event_of_a_day_splits_too(tmp_path: Path) -> None:
    put_events(tmp_path, NOW - DAY, NOW)
    assert len((tmp_path / "events-20261127.log").read_text().splitlines()) == 1
    (line,) = (tmp_path / "events.log").read_text().splitlines()
    assert json.loads(line) == {"at": "2026-11-28T12:00:00.000+09:00", "event": "deployed"}


def test_days_on_which_nothing_ran_have_no_log(tmp_path: Path) -> None:
    put_events(tmp_path, NOW - 5 * DAY, NOW)
    assert sorted(path.name for path in tmp_path.glob("events*.log")) == ["events-20261123.log", "events.log"]


@pytest.mark.parametrize(
    ("zone", "before", "after", "day"),
    [  # in UTC
        ("Europe/Berlin", "2026-10-25T22:59:59", "2026-10-25T23:00:00", "20261025"),  # of 25 hours
        ("Europe/Berlin", "2026-03-29T21:59:59", "2026-03-29T22:00:00", "20260329"),  # of 23 hours
        ("Africa/Cairo", "2026-04-23T21:59:59", "2026-04-23T22:00:00", "20260423"),  # 00:00 is left out
        ("Pacific/Apia", "2011-12-30T09:59:59", "2011-12-30T10:00:00", "20111229"),  # the 30th is left out
    ],
)
def test_a_day_is_what_the_zone_says(tmp_path: Path, zone: str, before: str, after: str, day: str) -> None:
    there = ZoneInfo(zone)
    last, first = (datetime.fromisoformat(at).replace(tzinfo=UTC) for at in (before, after))
    events.emit(tmp_path, "deployed", now=last - timedelta(hours=20), zone_of=there)
    assert events.split(tmp_path, last, there) is None
    moved = events.split(tmp_path, first, there)
    assert moved is not None
    assert moved.name == f"events-{day}.log"


def test_a_clock_that_is_set_back_replaces_no_day(tmp_path: Path) -> None:
    put_events(tmp_path, NOW - DAY, NOW, NOW - DAY)  # the third is added to today's
    assert len((tmp_path / "events.log").read_text().splitlines()) == 2
    events.split(tmp_path, NOW + DAY, SEOUL)
    put_events(tmp_path, NOW, NOW + DAY)
    days = {path.name: len(path.read_text().splitlines()) for path in tmp_path.glob("events-*.log")}
    assert days == {"events-20261127.log": 1, "events-20261128.log": 2, "events-20261128.1.log": 1}


def test_a_crash_in_the_split_leaves_it_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_events(tmp_path, NOW - DAY)
    with monkeypatch.context() as patch:

        def dies(*_: object) -> None:
            raise Crash

        patch.setattr(Path, "rename", dies)
        with pytest.raises(Crash):
            put_events(tmp_path, NOW)
    assert tidy(tmp_path, RULES, NOW).split == ["events-20261127.log"]


def test_half_a_line_of_one_that_died_spoils_no_other(tmp_path: Path) -> None:
    (tmp_path / "events.log").write_text('{"at": "2026-11-2')
    os.utime(tmp_path / "events.log", (NOW.timestamp(), NOW.timestamp()))
    put_events(tmp_path, NOW)
    assert json.loads((tmp_path / "events.log").read_text().splitlines()[1])["event"] == "deployed"


def test_events_are_never_rotated_by_size(tmp_path: Path) -> None:
    put_events(tmp_path, NOW)
    with (tmp_path / "events.log").open("ab") as file:
        file.write(b" " * (RULES.max_bytes + 1))
    assert tidy(tmp_path, RULES, NOW).rotated == []


def test_events_of_many_at_once_are_whole_lines_and_split_once(tmp_path: Path) -> None:
    put_events(tmp_path, NOW - DAY)

    def add(number: int) -> None:
        events.emit(tmp_path, "deployed", now=NOW, zone_of=SEOUL, number=number)

    with ThreadPoolExecutor(8) as many:
        list(many.map(add, range(100)))
    lines = [json.loads(line) for line in (tmp_path / "events.log").read_text().splitlines()]
    assert sorted(line["number"] for line in lines) == list(range(100))
    assert [path.name for path in tmp_path.glob("events-*")] == ["events-20261127.log"]


def test_days_of_events_are_counted_by_their_name(tmp_path: Path) -> None:
    for day in ("20261120", "20261121", "20261120.1", "20261399"):
        (tmp_path / f"events-{day}.log").touch()
    assert tidy(tmp_path, RULES, NOW).deleted == ["events-20261120.1.log", "events-20261120.log"]
