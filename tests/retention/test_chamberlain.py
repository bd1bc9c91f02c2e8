"""What the chamberlain deletes, what he keeps, and that he does it once and within bounds (LIFE-1 … LIFE-8)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

import psycopg
import pytest

from dpp.lifecycle.flow import heartbeat
from dpp.lifecycle.flow.errors import CleanupRunning, NoSuchClass
from dpp.lifecycle.flow.model import Role
from dpp.lifecycle.retention import cleanup_rows
from dpp.lifecycle.retention.begin import Pace, begin_manual, preview, stop
from dpp.lifecycle.retention.breaker import Bounds
from dpp.lifecycle.retention.cleaner import LEASE_NAME, LEASE_SECONDS, MAX_ERRORS, tend
from dpp.lifecycle.retention.cleanup import ClassStatus, CleanupKind
from dpp.platform.db import exclusive
from dpp.platform.db.postgres import Connection, Database
from dpp.platform.db.retention import Batch, Cursor, QueriedClass
from tests.retention.house import DAY, NIGHT, House

A_MOMENT = timedelta(microseconds=1)

# The source document's table: what is kept for how many days after what.
KEPT = {
    "events": 7,
    "tasks": 7,
    "messages": 7,
    "results": 7,
    "prompts": 3,
    "session_logs": 7,
    "seen": 30,
}


_OBJECTS = {
    "results": ("RESULT", "state/results/task-{}.json"),
    "prompts": ("PROMPT", "state/prompts/task-{}.md"),
    "session_logs": ("SESSION_LOG", "logs/sessions/{}.err"),
}


def _put(house: House, name: str, number: int, at: datetime) -> str:
    if name in _OBJECTS:
        kind, key = _OBJECTS[name]
        return house.object(key.format(number), kind, at)
    if name == "seen":
        house.seen(f"jira:A-{number}", at)
        return f"jira:A-{number}"
    put: Mapping[str, Callable[[int, datetime | None], str]] = {
        "events": house.event,
        "tasks": house.task,
        "messages": house.message,
    }
    return put[name](number, at)


def _left(house: House, name: str) -> set[str]:
    if name in _OBJECTS:
        keys = house.keys("lifecycle_objects", "object_key")
        assert keys == set(house.bucket.objects), "a row without an object, or an object without a row"
        return keys
    column = {"events": "event_id", "tasks": "task_id", "messages": "message_id", "seen": "event_id"}[name]
    return house.keys(f"lifecycle_{name}", column)


@pytest.mark.parametrize(("name", "days"), KEPT.items())
def test_each_class_goes_when_its_days_are_over_and_not_a_moment_before(
    house: House, name: str, days: int
) -> None:
    gone = {_put(house, name, number, NIGHT - days * DAY - (number + 1) * A_MOMENT) for number in range(7)}
    kept = {_put(house, name, 10 + number, NIGHT - days * DAY + number * DAY) for number in range(2)}
    assert _left(house, name) == gone | kept
    cleanup = house.clean()
    assert _left(house, name) == kept
    report = house.report(name)
    assert (report.status, report.deleted, report.examined) == (ClassStatus.DONE, 7, 7)
    assert report.bytes > 0
    assert report.oldest_left_at == NIGHT - days * DAY
    assert not cleanup.warnings
    assert house.keys("lifecycle_deletions", "object_key") == set()


def test_what_is_under_way_is_never_deleted_however_old_it_is(house: House) -> None:
    event = house.event(1, None, seen_at=NIGHT - 100 * DAY)
    task = house.task(1, None, event_id=event)
    house.object("state/prompts/a.md", "PROMPT", NIGHT - 100 * DAY, task_id=task)
    house.object("state/results/a.json", "RESULT", NIGHT - 100 * DAY, task_id=task)
    house.message(1, None, task_id=task)
    cleanup = house.clean()
    assert cleanup.deleted == 0
    assert house.report("prompts").examined == 1
    assert house.report("seen").examined == 1
    assert set(house.bucket.objects) == {"state/prompts/a.md", "state/results/a.json"}


@pytest.mark.parametrize("needed_by", ["message", "thread", "object"])
def test_a_task_stays_for_what_is_still_told_of_it(house: House, needed_by: str) -> None:
    old = NIGHT - 20 * DAY
    event = house.event(2, old)
    task = house.task(1, old, event_id=event)
    if needed_by == "message":
        house.message(1, None, task_id=task)
    elif needed_by == "thread":
        house.thread(task, old)
    else:
        house.object("state/results/a.json", "RESULT", NIGHT - DAY, task_id=task)
    house.clean()
    assert house.keys("lifecycle_tasks", "task_id") == {task}
    assert house.keys("lifecycle_events", "event_id") == {event}


def test_a_task_goes_with_all_that_is_its_in_one_night(house: House) -> None:
    old = NIGHT - 8 * DAY
    event = house.event(3, old, seen_at=NIGHT - 31 * DAY)
    task = house.task(1, old, event_id=event)
    house.object("state/results/a.json", "RESULT", old, task_id=task)
    house.message(1, old, task_id=task)
    house.clean()
    tables = ("tasks", "events", "messages", "objects", "seen", "deletions")
    counts = [house.execute(f"SELECT count(*) FROM lifecycle_{name}") for name in tables]
    assert counts == [[(0,)]] * len(tables)
    assert house.bucket.objects == {}


def test_what_can_not_go_never_keeps_what_stands_behind_it(house: House) -> None:
    """More needed rows than a batch holds stand before one that is due."""
    for number in range(8):
        task = house.task(number, NIGHT - 30 * DAY)
        house.thread(task, NIGHT - 30 * DAY)
    free = house.task(100, NIGHT - 8 * DAY)
    house.clean()
    assert free not in house.keys("lifecycle_tasks", "task_id")
    assert house.report("tasks").examined == 9
    assert house.report("tasks").deleted == 1


def test_a_day_is_cleaned_once_and_the_next_day_again(house: House) -> None:
    first = house.clean()
    assert first.kind is CleanupKind.DAILY
    assert house.tend(NIGHT + timedelta(hours=23)).cleanup is None
    second = house.clean(NIGHT + DAY)
    assert second.day == first.day + DAY
    assert house.tend(NIGHT + DAY).cleanup is None


def test_a_night_that_was_missed_is_made_up_for(house: House) -> None:
    house.clean()
    late = house.clean(NIGHT + 3 * DAY + timedelta(hours=5))
    assert late.day == NIGHT.date() + 4 * DAY  # of Seoul
    assert len(house.keys("cleanups", "cleanup_id")) == 2


def test_a_firing_ends_when_its_time_does_and_the_next_goes_on_at_the_cursor(house: House) -> None:
    for number in range(20):
        house.seen(f"jira:A-{number:02}", NIGHT - 40 * DAY + number * A_MOMENT)
    house.glass.a_look = 10.0
    firings = 0
    while not (done := house.tend()).cleanup or not done.cleanup.is_done:
        firings += 1
        assert firings < 50
        report = house.report("seen")
        assert report.examined == report.deleted == 20 - len(house.keys("lifecycle_seen", "event_id"))
    assert firings > 3
    assert house.report("seen").deleted == 20


def test_a_cleanup_deletes_no_more_of_a_class_than_its_cap(house: House) -> None:
    house.change(bounds=Bounds(max_deletes=10, factor=10, floor=200))
    for number in range(25):
        house.seen(f"jira:A-{number:02}", NIGHT - 40 * DAY + number * A_MOMENT)
    cleanup = house.clean()
    assert house.report("seen").status is ClassStatus.CAPPED
    assert house.report("seen").deleted == 10
    assert house.report("seen").oldest_left_at == NIGHT - 40 * DAY + 10 * A_MOMENT
    assert any("seen" in warning for warning in cleanup.warnings)
    house.clean(NIGHT + DAY)
    house.clean(NIGHT + 2 * DAY)
    assert house.keys("lifecycle_seen", "event_id") == set()


def test_far_more_than_usual_trips_the_breaker_and_nothing_of_the_class_goes(house: House) -> None:
    for day in range(3):
        house.cleaned(NIGHT - (day + 1) * DAY, "seen", 25)
    house.execute(
        "INSERT INTO lifecycle_seen SELECT 'jira:B-' || n, %(at)s FROM generate_series(1, 251) n",
        at=NIGHT - 31 * DAY,
    )
    house.message(1, NIGHT - 8 * DAY)
    [shown] = [one for one in preview(house.effects, NIGHT) if one.name == "seen"]
    assert (shown.due, shown.allowed, shown.trips) == (251, 250, True)
    cleanup = house.clean()
    report = house.report("seen")
    assert (report.status, report.deleted, report.due, report.allowed) == (ClassStatus.TRIPPED, 0, 251, 250)
    assert house.report("messages").deleted == 1
    [warning] = cleanup.warnings
    assert "dpp lifecycle run --class seen --over-breaker" in warning

    begin_manual(house.effects, "kim", ["seen"], over_breaker=True, now=NIGHT)
    assert house.clean().requested_by == "kim"
    assert house.report("seen").deleted == 251


def test_as_much_as_usual_is_let_through(house: House) -> None:
    house.cleaned(NIGHT - DAY, "seen", 25)
    house.execute(
        "INSERT INTO lifecycle_seen SELECT 'jira:B-' || n, %(at)s FROM generate_series(1, 250) n",
        at=NIGHT - 31 * DAY,
    )
    house.clean()
    assert house.report("seen").deleted == 250


def test_what_a_tripped_night_or_an_operator_deleted_is_not_what_is_usual(house: House) -> None:
    house.change(bounds=Bounds(max_deletes=1_000, factor=2, floor=5))
    house.execute(
        "INSERT INTO lifecycle_seen SELECT 'jira:B-' || n, %(at)s FROM generate_series(1, 40) n",
        at=NIGHT - 31 * DAY,
    )
    assert house.clean().of(ClassStatus.TRIPPED) == ("seen",)
    begin_manual(house.effects, "kim", ["seen"], over_breaker=True, now=NIGHT)
    house.clean()
    with house.database.connection() as connection:
        assert cleanup_rows.history(connection, "seen", 14) == []


def test_two_chamberlains_are_one(house: House) -> None:
    with exclusive.held(house.database, LEASE_NAME, "another", ttl_seconds=LEASE_SECONDS, now=NIGHT):
        with pytest.raises(CleanupRunning):
            house.tend()
        assert house.keys("cleanups", "cleanup_id") == set()
        # Past the lease the other is dead, or deletes nothing more.
        assert house.tend(NIGHT + timedelta(seconds=LEASE_SECONDS)).cleanup is not None


def test_a_chamberlain_that_slept_past_its_time_deletes_nothing(house: House) -> None:
    """Its lease is taken in the middle of its firing: the batch under way is undone."""
    house.seen("jira:A-1", NIGHT - 40 * DAY)

    class Slept(QueriedClass):
        def due(self, connection: Connection, before: datetime, limit: int) -> int:
            house.execute("UPDATE exclusive_leases SET token = gen_random_uuid()")
            return 1

    [seen] = [one for one in house.effects.classes if one.name == "seen"]
    assert isinstance(seen, QueriedClass)
    house.change(classes=[Slept(seen.name, seen.period, seen.queries)])
    house.tend()
    assert house.keys("lifecycle_seen", "event_id") == {"jira:A-1"}
    assert house.report("seen").deleted == 0


class Breaking(QueriedClass):
    """Fails as often as it is told to."""

    failures: ClassVar[list[type[Exception]]] = []
    limits: ClassVar[list[int]] = []

    def delete(
        self,
        connection: Connection,
        before: datetime,
        cursor: Cursor | None,
        limit: int,
        now: datetime | None,
    ) -> Batch:
        self.limits.append(limit)
        if self.failures:
            raise self.failures.pop()
        return super().delete(connection, before, cursor, limit, now)


def _breaking(house: House, failures: int, error: type[Exception]) -> None:
    Breaking.failures, Breaking.limits = [error] * failures, []
    classes = [
        Breaking(one.name, one.period, one.queries) if one.name == "messages" else one
        for one in house.effects.classes
        if isinstance(one, QueriedClass)
    ]
    house.change(classes=classes, pace=replace(house.effects.pace, batch_rows=8))


@pytest.mark.parametrize("error", [psycopg.errors.LockNotAvailable, psycopg.errors.ForeignKeyViolation])
def test_a_class_that_fails_holds_up_no_other_and_is_tried_with_less(
    house: House, error: type[Exception]
) -> None:
    _breaking(house, 2, error)
    house.message(1, NIGHT - 8 * DAY)
    house.seen("jira:A-1", NIGHT - 40 * DAY)
    done = house.tend()
    assert done.errors == 1
    assert house.keys("lifecycle_seen", "event_id") == set()
    assert house.report("messages").status is ClassStatus.RUNNING
    cleanup = house.clean()
    assert Breaking.limits[:3] == [8, 4, 2]
    assert cleanup.errors == 2
    assert house.report("messages").deleted == 1
    assert error.__name__ in (house.report("messages").last_error or "")


def test_a_class_that_fails_always_is_given_up_for_the_night(house: House) -> None:
    _breaking(house, 1_000, psycopg.errors.LockNotAvailable)
    cleanup = house.clean()
    assert house.report("messages").status is ClassStatus.FAILED
    assert cleanup.errors == MAX_ERRORS
    assert any(warning.startswith("messages: given up") for warning in cleanup.warnings)


def test_a_class_of_an_older_release_ends_the_cleanup_all_the_same(house: House) -> None:
    house.glass.a_look = 30.0
    house.tend()
    house.glass.a_look = 0.0
    house.change(classes=[one for one in house.effects.classes if one.name != "cleanups"])
    house.clean()
    assert house.report("cleanups").status is ClassStatus.FAILED


def test_an_operator_begins_what_he_names_and_only_one_at_a_time(house: House) -> None:
    house.seen("jira:A-1", NIGHT - 40 * DAY)
    house.message(1, NIGHT - 8 * DAY)
    with pytest.raises(NoSuchClass, match="there are cleanups, events"):
        begin_manual(house.effects, "kim", ["sen"], now=NIGHT)
    begun = begin_manual(house.effects, "kim", ["seen"], now=NIGHT)
    assert [one.name for one in begun.classes] == ["seen"]
    with pytest.raises(CleanupRunning):
        begin_manual(house.effects, "lee", now=NIGHT)
    assert house.clean().cleanup_id == begun.cleanup_id
    assert len(house.keys("lifecycle_messages", "message_id")) == 1
    assert house.clean().kind is CleanupKind.DAILY  # the night's own comes after it


def test_an_operator_stops_a_cleanup_and_the_night_is_over(house: House) -> None:
    for number in range(9):
        house.seen(f"jira:A-{number}", NIGHT - 40 * DAY)
    assert stop(house.effects, "kim", NIGHT) is None
    house.glass.a_look = 3.0
    house.tend()
    while house.report("seen").deleted == 0:
        house.tend()
    stopped = stop(house.effects, "kim", NIGHT)
    assert stopped is not None
    assert stopped.is_done
    assert house.report("seen").status is ClassStatus.STOPPED
    left = house.keys("lifecycle_seen", "event_id")
    assert left
    assert house.tend().cleanup is None
    assert house.keys("lifecycle_seen", "event_id") == left


def test_a_batch_that_an_operator_stopped_is_undone(house: House) -> None:
    house.seen("jira:A-1", NIGHT - 40 * DAY)

    class StoppedMeanwhile(QueriedClass):
        def delete(self, *args: Any) -> Batch:
            other = Database(house.url)
            stop(replace(house.effects, database=other), "kim", NIGHT)
            other.close()
            return super().delete(*args)

    [seen] = [one for one in house.effects.classes if one.name == "seen"]
    assert isinstance(seen, QueriedClass)
    house.change(classes=[StoppedMeanwhile(seen.name, seen.period, seen.queries)])
    cleanup = house.clean()
    assert house.keys("lifecycle_seen", "event_id") == {"jira:A-1"}
    assert cleanup.deleted == 0
    assert cleanup.of(ClassStatus.STOPPED) == ("seen",)


def test_he_rests_as_long_as_a_batch_took(house: House) -> None:
    house.change(pace=replace(house.effects.pace, rest=2.0))
    house.glass.a_look = 0.25
    for number in range(9):
        house.seen(f"jira:A-{number}", NIGHT - 40 * DAY)
    house.clean()
    assert house.glass.rested[:3] == [0.5, 0.5, 0.5]


def test_nothing_is_deleted_by_looking(house: House) -> None:
    house.message(1, NIGHT - 8 * DAY)
    shown = {one.name: one for one in preview(house.effects, NIGHT)}
    assert shown["messages"].due == 1
    assert shown["messages"].before == NIGHT - 7 * DAY
    assert list(shown) == [one.name for one in house.effects.classes]
    assert len(house.keys("lifecycle_messages", "message_id")) == 1
    assert house.keys("cleanups", "cleanup_id") == set()


def test_the_report_says_what_each_class_takes_and_will_take(house: House) -> None:
    """LIFE-13: two objects of 17 bytes were written within the last day, and are kept for three."""
    for number, age in enumerate((0.5, 0.9, 2)):
        house.object(f"state/prompts/{number}.md", "PROMPT", NIGHT - age * DAY)
    cleanup = house.clean()
    usage = {one["class"]: one for one in cleanup.usage}
    assert list(usage) == [one.name for one in house.effects.classes]
    prompts = usage["prompts"]
    assert (prompts["rows"], prompts["bytes"], prompts["days"]) == (3, 51, 3)
    assert (prompts["rows_a_day"], prompts["bytes_a_day"], prompts["projected_bytes"]) == (2, 34, 102)
    assert prompts["oldest_at"] == (NIGHT - 2 * DAY).isoformat()


def test_a_class_that_can_not_be_measured_keeps_no_report_from_its_end(house: House) -> None:
    class Unmeasured(QueriedClass):
        def use(self, *args: Any) -> Any:
            raise psycopg.errors.QueryCanceled

    house.seen("jira:A-1", NIGHT)
    classes = [one for one in house.effects.classes if isinstance(one, QueriedClass)]
    house.tend(NIGHT - DAY)
    house.change(
        classes=[Unmeasured(o.name, o.period, o.queries) if o.name == "seen" else o for o in classes],
    )
    cleanup = house.clean()
    assert "seen" not in {one["class"] for one in cleanup.usage}
    assert "not measured: seen" in cleanup.warnings


def test_threads_and_questions_that_outlived_any_task_are_warned_of(house: House) -> None:
    """LIFE-10: of seven days and a moment, and not of seven days."""
    for number, age in enumerate((7 * DAY + A_MOMENT, 7 * DAY)):
        task = house.task(number, None)
        house.thread(task, NIGHT - age)
        house.execute("INSERT INTO lifecycle_awaiting VALUES (%(id)s, 'm', %(at)s)", id=task, at=NIGHT - age)
    [threads, questions] = house.clean().warnings
    assert threads.endswith("task-20261101-000")
    assert "task-20261101-000" in questions
    assert "task-20261101-001" not in questions


def test_a_role_that_fell_silent_is_warned_of_and_a_heartbeat_is_never_collected(house: House) -> None:
    """LIFE-11: ten minutes; the row is overwritten, and stays whatever its age."""
    with house.database.connection() as connection:
        for minutes in (60 * 24 * 400, 11):
            heartbeat.beat(connection, Role.KING, NIGHT - timedelta(minutes=minutes))
        heartbeat.beat(connection, Role.ENVOY, NIGHT - timedelta(minutes=10))
        # A beat that arrives late takes nothing back.
        heartbeat.beat(connection, Role.ENVOY, NIGHT - timedelta(minutes=50))
    [warning] = house.clean().warnings
    assert warning == "nothing was heard for 600 s of KING"
    assert house.keys("lifecycle_heartbeats", "role") == {"KING", "ENVOY", "CHAMBERLAIN"}


def test_the_reports_of_old_are_deleted_with_their_classes(house: House) -> None:
    house.cleaned(NIGHT - 91 * DAY, "seen", 1)
    recent = house.cleaned(NIGHT - 89 * DAY, "seen", 1)
    cleanup = house.clean()
    assert house.keys("cleanups", "cleanup_id") == {str(recent), str(cleanup.cleanup_id)}
    assert house.keys("cleanup_classes", "cleanup_id") == {str(recent), str(cleanup.cleanup_id)}


def test_the_end_of_a_night_is_announced_once_with_its_figures(house: House) -> None:
    told: list[int] = []
    house.change(announce=lambda _connection, cleanup, _now: told.append(cleanup.deleted))
    house.message(1, NIGHT - 8 * DAY)
    house.clean()
    house.tend()
    begin_manual(house.effects, "kim", now=NIGHT)
    house.clean()
    assert told == [1]


def test_by_default_he_takes_his_time_from_the_machine(house: House) -> None:
    house.change(pace=Pace())
    assert tend(house.effects).cleanup is not None
