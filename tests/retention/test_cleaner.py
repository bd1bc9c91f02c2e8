"""What the chamberlain deletes, what he keeps, and that he does it once and within bounds (LIFE-1 … LIFE-8)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

import psycopg
import pytest

from dpp.lifecycle.flow import heartbeat
from dpp.lifecycle.flow.errors import CleanupRunning, NoSuchClass
from dpp.lifecycle.flow.ports import Role
from dpp.lifecycle.retention import classes, store
from dpp.lifecycle.retention.breaker import Bounds
from dpp.lifecycle.retention.cleaner import LEASE_NAME, LEASE_SECONDS, MAX_ERRORS, clean
from dpp.lifecycle.retention.control import Pace, preview, start_manual, stop
from dpp.lifecycle.retention.model import ClassStatus, CleanupKind
from dpp.platform.db import exclusive
from dpp.platform.db.postgres import Connection, Database
from dpp.platform.db.retention import Batch, Cursor
from dpp.platform.db.retention_table import TableClass
from tests.retention.environment import DAY, NIGHT, Environment
from tests.support.retention_batches import as_kind

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


def _put(env: Environment, name: str, number: int, at: datetime) -> str:
    if name in _OBJECTS:
        kind, key = _OBJECTS[name]
        return env.object(key.format(number), kind, at)
    if name == "seen":
        env.seen(f"jira:A-{number}", at)
        return f"jira:A-{number}"
    put: Mapping[str, Callable[[int, datetime | None], str]] = {
        "events": env.event,
        "tasks": env.task,
        "messages": env.message,
    }
    return put[name](number, at)


def _left(env: Environment, name: str) -> set[str]:
    if name in _OBJECTS:
        keys = env.keys("lifecycle_objects", "object_key")
        assert keys == set(env.bucket.objects), "a row without an object, or an object without a row"
        return keys
    column = {"events": "event_id", "tasks": "task_id", "messages": "message_id", "seen": "event_id"}[name]
    return env.keys(f"lifecycle_{name}", column)


@pytest.mark.parametrize(("name", "days"), KEPT.items())
def test_each_class_goes_when_its_days_are_over_and_not_a_moment_before(
    env: Environment, name: str, days: int
) -> None:
    gone = {_put(env, name, number, NIGHT - days * DAY - (number + 1) * A_MOMENT) for number in range(7)}
    kept = {_put(env, name, 10 + number, NIGHT - days * DAY + number * DAY) for number in range(2)}
    assert _left(env, name) == gone | kept
    cleanup = env.clean()
    assert _left(env, name) == kept
    report = env.report(name)
    assert (report.status, report.deleted, report.examined) == (ClassStatus.DONE, 7, 7)
    assert report.bytes > 0
    assert report.oldest_left_at == NIGHT - days * DAY
    assert not cleanup.warnings
    assert env.keys("lifecycle_deletions", "object_key") == set()


def test_what_is_under_way_is_never_deleted_however_old_it_is(env: Environment) -> None:
    event = env.event(1, None, seen_at=NIGHT - 100 * DAY)
    task = env.task(1, None, event_id=event)
    env.object("state/prompts/a.md", "PROMPT", NIGHT - 100 * DAY, task_id=task)
    env.object("state/results/a.json", "RESULT", NIGHT - 100 * DAY, task_id=task)
    env.message(1, None, task_id=task)
    cleanup = env.clean()
    assert cleanup.deleted == 0
    assert env.report("prompts").examined == 1
    assert env.report("seen").examined == 1
    assert set(env.bucket.objects) == {"state/prompts/a.md", "state/results/a.json"}


@pytest.mark.parametrize("needed_by", ["message", "thread", "object"])
def test_a_task_stays_for_what_is_still_told_of_it(env: Environment, needed_by: str) -> None:
    old = NIGHT - 20 * DAY
    event = env.event(2, old)
    task = env.task(1, old, event_id=event)
    if needed_by == "message":
        env.message(1, None, task_id=task)
    elif needed_by == "thread":
        env.thread(task, old)
    else:
        env.object("state/results/a.json", "RESULT", NIGHT - DAY, task_id=task)
    env.clean()
    assert env.keys("lifecycle_tasks", "task_id") == {task}
    assert env.keys("lifecycle_events", "event_id") == {event}


def test_a_task_goes_with_all_that_is_its_in_one_night(env: Environment) -> None:
    old = NIGHT - 8 * DAY
    event = env.event(3, old, seen_at=NIGHT - 31 * DAY)
    task = env.task(1, old, event_id=event)
    env.object("state/results/a.json", "RESULT", old, task_id=task)
    env.message(1, old, task_id=task)
    env.clean()
    tables = ("tasks", "events", "messages", "objects", "seen", "deletions")
    counts = [env.execute(f"SELECT count(*) FROM lifecycle_{name}") for name in tables]
    assert counts == [[(0,)]] * len(tables)
    assert env.bucket.objects == {}


def test_what_can_not_go_never_keeps_what_stands_behind_it(env: Environment) -> None:
    """More needed rows than a batch holds stand before one that is due."""
    for number in range(8):
        task = env.task(number, NIGHT - 30 * DAY)
        env.thread(task, NIGHT - 30 * DAY)
    free = env.task(100, NIGHT - 8 * DAY)
    env.clean()
    assert free not in env.keys("lifecycle_tasks", "task_id")
    assert env.report("tasks").examined == 9
    assert env.report("tasks").deleted == 1


def test_a_day_is_cleaned_once_and_the_next_day_again(env: Environment) -> None:
    first = env.clean()
    assert first.kind is CleanupKind.DAILY
    assert env.tick(NIGHT + timedelta(hours=23)).cleanup is None
    second = env.clean(NIGHT + DAY)
    assert second.day == first.day + DAY
    assert env.tick(NIGHT + DAY).cleanup is None


def test_a_night_that_was_missed_is_made_up_for(env: Environment) -> None:
    env.clean()
    late = env.clean(NIGHT + 3 * DAY + timedelta(hours=5))
    assert late.day == NIGHT.date() + 4 * DAY  # of Seoul
    assert len(env.keys("cleanups", "cleanup_id")) == 2


def test_a_firing_ends_when_its_time_does_and_the_next_goes_on_at_the_cursor(env: Environment) -> None:
    for number in range(20):
        env.seen(f"jira:A-{number:02}", NIGHT - 40 * DAY + number * A_MOMENT)
    env.clock.step_seconds = 10.0
    firings = 0
    while not (done := env.tick()).cleanup or not done.cleanup.is_done:
        firings += 1
        assert firings < 50
        report = env.report("seen")
        assert report.examined == report.deleted == 20 - len(env.keys("lifecycle_seen", "event_id"))
    assert firings > 3
    assert env.report("seen").deleted == 20


def test_a_cleanup_deletes_no_more_of_a_class_than_its_cap(env: Environment) -> None:
    env.change(bounds=Bounds(max_deletes=10, factor=10, floor=200))
    for number in range(25):
        env.seen(f"jira:A-{number:02}", NIGHT - 40 * DAY + number * A_MOMENT)
    cleanup = env.clean()
    assert env.report("seen").status is ClassStatus.CAPPED
    assert env.report("seen").deleted == 10
    assert env.report("seen").oldest_left_at == NIGHT - 40 * DAY + 10 * A_MOMENT
    assert any("seen" in warning for warning in cleanup.warnings)
    env.clean(NIGHT + DAY)
    env.clean(NIGHT + 2 * DAY)
    assert env.keys("lifecycle_seen", "event_id") == set()


def test_far_more_than_usual_trips_the_breaker_and_nothing_of_the_class_goes(env: Environment) -> None:
    for day in range(3):
        env.cleaned(NIGHT - (day + 1) * DAY, "seen", 25)
    env.execute(
        "INSERT INTO lifecycle_seen SELECT 'jira:B-' || n, %(at)s FROM generate_series(1, 251) n",
        at=NIGHT - 31 * DAY,
    )
    env.message(1, NIGHT - 8 * DAY)
    [shown] = [one for one in preview(env.effects, NIGHT) if one.name == "seen"]
    assert (shown.due, shown.allowed, shown.trips) == (251, 250, True)
    cleanup = env.clean()
    report = env.report("seen")
    assert (report.status, report.deleted, report.due, report.allowed) == (ClassStatus.TRIPPED, 0, 251, 250)
    assert env.report("messages").deleted == 1
    [warning] = cleanup.warnings
    assert "dpp lifecycle run --class seen --over-breaker" in warning

    start_manual(env.effects, "kim", ["seen"], over_breaker=True, now=NIGHT)
    assert env.clean().requested_by == "kim"
    assert env.report("seen").deleted == 251


def test_as_much_as_usual_is_let_through(env: Environment) -> None:
    env.cleaned(NIGHT - DAY, "seen", 25)
    env.execute(
        "INSERT INTO lifecycle_seen SELECT 'jira:B-' || n, %(at)s FROM generate_series(1, 250) n",
        at=NIGHT - 31 * DAY,
    )
    env.clean()
    assert env.report("seen").deleted == 250


def test_what_a_tripped_night_or_an_operator_deleted_is_not_what_is_usual(env: Environment) -> None:
    env.change(bounds=Bounds(max_deletes=1_000, factor=2, floor=5))
    env.execute(
        "INSERT INTO lifecycle_seen SELECT 'jira:B-' || n, %(at)s FROM generate_series(1, 40) n",
        at=NIGHT - 31 * DAY,
    )
    assert env.clean().of(ClassStatus.TRIPPED) == ("seen",)
    start_manual(env.effects, "kim", ["seen"], over_breaker=True, now=NIGHT)
    env.clean()
    with env.database.connection() as connection:
        assert store.history(connection, "seen", 14) == []


def test_two_chamberlains_are_one(env: Environment) -> None:
    with exclusive.held(env.database, LEASE_NAME, "another", ttl_seconds=LEASE_SECONDS, now=NIGHT):
        with pytest.raises(CleanupRunning):
            env.tick()
        assert env.keys("cleanups", "cleanup_id") == set()
        # Past the lease the other is dead, or deletes nothing more.
        assert env.tick(NIGHT + timedelta(seconds=LEASE_SECONDS)).cleanup is not None


def test_a_chamberlain_that_slept_past_its_time_deletes_nothing(env: Environment) -> None:
    """Its lease is taken in the middle of its firing: the batch under way is undone."""
    env.seen("jira:A-1", NIGHT - 40 * DAY)

    class Slept(TableClass):
        def due(self, connection: Connection, before: datetime, limit: int) -> int:
            env.execute("UPDATE exclusive_leases SET token = gen_random_uuid()")
            return 1

    env.change(classes=[as_kind(Slept, classes.SEEN)])
    env.tick()
    assert env.keys("lifecycle_seen", "event_id") == {"jira:A-1"}
    assert env.report("seen").deleted == 0


class Breaking(TableClass):
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


def _breaking(env: Environment, failures: int, error: type[Exception]) -> None:
    Breaking.failures, Breaking.limits = [error] * failures, []
    breaking = replace(as_kind(Breaking, classes.MESSAGES), points_at=())
    changed = [breaking if one.name == "messages" else one for one in env.effects.classes]
    env.change(classes=changed, pace=replace(env.effects.pace, batch_rows=8))


@pytest.mark.parametrize("error", [psycopg.errors.LockNotAvailable, psycopg.errors.ForeignKeyViolation])
def test_a_class_that_fails_holds_up_no_other_and_is_tried_with_less(
    env: Environment, error: type[Exception]
) -> None:
    _breaking(env, 2, error)
    env.message(1, NIGHT - 8 * DAY)
    env.seen("jira:A-1", NIGHT - 40 * DAY)
    done = env.tick()
    assert done.errors == 1
    assert env.keys("lifecycle_seen", "event_id") == set()
    assert env.report("messages").status is ClassStatus.RUNNING
    cleanup = env.clean()
    assert Breaking.limits[:3] == [8, 4, 2]
    assert cleanup.errors == 2
    assert env.report("messages").deleted == 1
    assert error.__name__ in (env.report("messages").last_error or "")


def test_a_class_that_fails_always_is_given_up_for_the_night(env: Environment) -> None:
    _breaking(env, 1_000, psycopg.errors.LockNotAvailable)
    cleanup = env.clean()
    assert env.report("messages").status is ClassStatus.FAILED
    assert cleanup.errors == MAX_ERRORS
    assert any(warning.startswith("messages: given up") for warning in cleanup.warnings)


def test_a_class_of_an_older_release_ends_the_cleanup_all_the_same(env: Environment) -> None:
    env.clock.step_seconds = 30.0
    env.tick()
    env.clock.step_seconds = 0.0
    env.change(classes=[one for one in env.effects.classes if one.name != "cleanups"])
    env.clean()
    assert env.report("cleanups").status is ClassStatus.FAILED


def test_an_operator_begins_what_he_names_and_only_one_at_a_time(env: Environment) -> None:
    env.seen("jira:A-1", NIGHT - 40 * DAY)
    env.message(1, NIGHT - 8 * DAY)
    with pytest.raises(NoSuchClass, match="The classes are cleanups, events"):
        start_manual(env.effects, "kim", ["sen"], now=NIGHT)
    begun = start_manual(env.effects, "kim", ["seen"], now=NIGHT)
    assert [one.name for one in begun.classes] == ["seen"]
    with pytest.raises(CleanupRunning):
        start_manual(env.effects, "lee", now=NIGHT)
    assert env.clean().cleanup_id == begun.cleanup_id
    assert len(env.keys("lifecycle_messages", "message_id")) == 1
    assert env.clean().kind is CleanupKind.DAILY  # the night's own comes after it


def test_an_operator_stops_a_cleanup_and_the_night_is_over(env: Environment) -> None:
    for number in range(9):
        env.seen(f"jira:A-{number}", NIGHT - 40 * DAY)
    assert stop(env.effects, "kim", NIGHT) is None
    env.clock.step_seconds = 3.0
    env.tick()
    while env.report("seen").deleted == 0:
        env.tick()
    stopped = stop(env.effects, "kim", NIGHT)
    assert stopped is not None
    assert stopped.is_done
    assert env.report("seen").status is ClassStatus.STOPPED
    left = env.keys("lifecycle_seen", "event_id")
    assert left
    assert env.tick().cleanup is None
    assert env.keys("lifecycle_seen", "event_id") == left


def test_a_batch_that_an_operator_stopped_is_undone(env: Environment) -> None:
    env.seen("jira:A-1", NIGHT - 40 * DAY)

    class StoppedMeanwhile(TableClass):
        def delete(self, *args: Any) -> Batch:
            other = Database(env.url)
            stop(replace(env.effects, database=other), "kim", NIGHT)
            other.close()
            return super().delete(*args)

    env.change(classes=[as_kind(StoppedMeanwhile, classes.SEEN)])
    cleanup = env.clean()
    assert env.keys("lifecycle_seen", "event_id") == {"jira:A-1"}
    assert cleanup.deleted == 0
    assert cleanup.of(ClassStatus.STOPPED) == ("seen",)


def test_he_rests_as_long_as_a_batch_took(env: Environment) -> None:
    env.change(pace=replace(env.effects.pace, rest=2.0))
    env.clock.step_seconds = 0.25
    for number in range(9):
        env.seen(f"jira:A-{number}", NIGHT - 40 * DAY)
    env.clean()
    assert env.slept[:3] == [0.5, 0.5, 0.5]


def test_nothing_is_deleted_by_looking(env: Environment) -> None:
    env.message(1, NIGHT - 8 * DAY)
    shown = {one.name: one for one in preview(env.effects, NIGHT)}
    assert shown["messages"].due == 1
    assert shown["messages"].before == NIGHT - 7 * DAY
    assert list(shown) == [one.name for one in env.effects.classes]
    assert len(env.keys("lifecycle_messages", "message_id")) == 1
    assert env.keys("cleanups", "cleanup_id") == set()


def test_the_report_says_what_each_class_takes_and_will_take(env: Environment) -> None:
    """LIFE-13: two objects of 17 bytes were written within the last day, and are kept for three."""
    for number, age in enumerate((0.5, 0.9, 2)):
        env.object(f"state/prompts/{number}.md", "PROMPT", NIGHT - age * DAY)
    cleanup = env.clean()
    usage = {one["class"]: one for one in cleanup.usage}
    assert list(usage) == [one.name for one in env.effects.classes]
    prompts = usage["prompts"]
    assert (prompts["rows"], prompts["bytes"], prompts["days"]) == (3, 51, 3)
    assert (prompts["rows_a_day"], prompts["bytes_a_day"], prompts["projected_bytes"]) == (2, 34, 102)
    assert prompts["oldest_at"] == (NIGHT - 2 * DAY).isoformat()


def test_a_class_that_can_not_be_measured_keeps_no_report_from_its_end(env: Environment) -> None:
    class Unmeasured(TableClass):
        def use(self, *args: Any) -> Any:
            raise psycopg.errors.QueryCanceled

    env.seen("jira:A-1", NIGHT)
    unmeasured = as_kind(Unmeasured, classes.SEEN)
    env.tick(NIGHT - DAY)
    env.change(classes=[unmeasured if one.name == "seen" else one for one in env.effects.classes])
    cleanup = env.clean()
    assert "seen" not in {one["class"] for one in cleanup.usage}
    assert "not measured: seen" in cleanup.warnings


def test_threads_and_questions_that_outlived_any_task_are_warned_of(env: Environment) -> None:
    """LIFE-10: of seven days and a moment, and not of seven days."""
    for number, age in enumerate((7 * DAY + A_MOMENT, 7 * DAY)):
        task = env.task(number, None)
        env.thread(task, NIGHT - age)
        env.execute("INSERT INTO lifecycle_awaiting VALUES (%(id)s, 'm', %(at)s)", id=task, at=NIGHT - age)
    [threads, questions] = env.clean().warnings
    assert threads.endswith("task-20261101-000")
    assert "task-20261101-000" in questions
    assert "task-20261101-001" not in questions


def test_a_role_that_fell_silent_is_warned_of_and_a_heartbeat_is_never_collected(env: Environment) -> None:
    """LIFE-11: ten minutes; the row is overwritten, and stays whatever its age."""
    with env.database.connection() as connection:
        for minutes in (60 * 24 * 400, 11):
            heartbeat.record(connection, Role.KING, NIGHT - timedelta(minutes=minutes))
        heartbeat.record(connection, Role.ENVOY, NIGHT - timedelta(minutes=10))
        # A beat that arrives late takes nothing back.
        heartbeat.record(connection, Role.ENVOY, NIGHT - timedelta(minutes=50))
    [warning] = env.clean().warnings
    assert warning == "no heartbeat for 600 s from KING"
    assert env.keys("lifecycle_heartbeats", "role") == {"KING", "ENVOY", "CHAMBERLAIN"}


def test_the_reports_of_old_are_deleted_with_their_classes(env: Environment) -> None:
    env.cleaned(NIGHT - 91 * DAY, "seen", 1)
    recent = env.cleaned(NIGHT - 89 * DAY, "seen", 1)
    cleanup = env.clean()
    assert env.keys("cleanups", "cleanup_id") == {str(recent), str(cleanup.cleanup_id)}
    assert env.keys("cleanup_classes", "cleanup_id") == {str(recent), str(cleanup.cleanup_id)}


def test_the_end_of_a_night_is_announced_once_with_its_figures(env: Environment) -> None:
    told: list[int] = []
    env.change(announce=lambda _connection, cleanup, _now: told.append(cleanup.deleted))
    env.message(1, NIGHT - 8 * DAY)
    env.clean()
    env.tick()
    start_manual(env.effects, "kim", now=NIGHT)
    env.clean()
    assert told == [1]


def test_by_default_he_takes_his_time_from_the_machine(env: Environment) -> None:
    env.change(pace=Pace())
    assert clean(env.effects).cleanup is not None
