"""The rows that the cleaner deletes and keeps, once and within its limits (LIFE-1 … LIFE-8)."""

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

# The table of the source document: class, period, and start of the period.
KEPT = {"events": 7, "tasks": 7, "messages": 7, "results": 7, "prompts": 3, "session_logs": 7, "seen": 30}


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
def test_each_class_is_deleted_after_its_period_and_not_before(env: Environment, name: str, days: int) -> None:
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


def test_open_items_are_never_deleted_whatever_their_age(env: Environment) -> None:
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
def test_blocked_task_is_kept(env: Environment, needed_by: str) -> None:
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


def test_task_and_all_its_data_are_deleted_in_one_night(env: Environment) -> None:
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


def test_blocked_rows_do_not_delay_later_ones(env: Environment) -> None:
    """More blocked rows than a batch holds precede a due one."""
    for number in range(8):
        task = env.task(number, NIGHT - 30 * DAY)
        env.thread(task, NIGHT - 30 * DAY)
    free = env.task(100, NIGHT - 8 * DAY)
    env.clean()
    assert free not in env.keys("lifecycle_tasks", "task_id")
    assert env.report("tasks").examined == 9
    assert env.report("tasks").deleted == 1


def test_each_day_has_one_cleanup(env: Environment) -> None:
    first = env.clean()
    assert first.kind is CleanupKind.DAILY
    assert env.tick(NIGHT + timedelta(hours=23)).cleanup is None
    second = env.clean(NIGHT + DAY)
    assert second.day == first.day + DAY
    assert env.tick(NIGHT + DAY).cleanup is None


def test_missed_cleanup_is_made_up_for(env: Environment) -> None:
    env.clean()
    late = env.clean(NIGHT + 3 * DAY + timedelta(hours=5))
    assert late.day == NIGHT.date() + 4 * DAY  # in Seoul
    assert len(env.keys("cleanups", "cleanup_id")) == 2


def test_tick_ends_in_time_and_the_next_continues_at_the_cursor(env: Environment) -> None:
    for number in range(20):
        env.seen(f"jira:A-{number:02}", NIGHT - 40 * DAY + number * A_MOMENT)
    env.clock.step_seconds = 10.0
    ticks = 0
    while not (done := env.tick()).cleanup or not done.cleanup.is_done:
        ticks += 1
        assert ticks < 50
        report = env.report("seen")
        assert report.examined == report.deleted == 20 - len(env.keys("lifecycle_seen", "event_id"))
    assert ticks > 3
    assert env.report("seen").deleted == 20


def test_cleanup_deletes_at_most_the_maximum_of_a_class(env: Environment) -> None:
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


def test_far_more_rows_than_usual_trip_the_breaker_and_none_is_deleted(env: Environment) -> None:
    for day in range(3):
        env.cleaned(NIGHT - (day + 1) * DAY, "seen", 25)
    env.execute(
        "INSERT INTO lifecycle_seen SELECT 'jira:B-' || n, %(at)s FROM generate_series(1, 251) n", at=NIGHT - 31 * DAY
    )
    env.message(1, NIGHT - 8 * DAY)
    [previewed] = [one for one in preview(env.effects, NIGHT) if one.name == "seen"]
    assert (previewed.due, previewed.allowed, previewed.trips) == (251, 250, True)
    cleanup = env.clean()
    report = env.report("seen")
    assert (report.status, report.deleted, report.due, report.allowed) == (ClassStatus.TRIPPED, 0, 251, 250)
    assert env.report("messages").deleted == 1
    [warning] = cleanup.warnings
    assert "dpp lifecycle run --class seen --over-breaker" in warning

    start_manual(env.effects, "kim", ["seen"], over_breaker=True, now=NIGHT)
    assert env.clean().requested_by == "kim"
    assert env.report("seen").deleted == 251


def test_usual_number_of_rows_passes_the_breaker(env: Environment) -> None:
    env.cleaned(NIGHT - DAY, "seen", 25)
    env.execute(
        "INSERT INTO lifecycle_seen SELECT 'jira:B-' || n, %(at)s FROM generate_series(1, 250) n", at=NIGHT - 31 * DAY
    )
    env.clean()
    assert env.report("seen").deleted == 250


def test_tripped_and_manual_cleanups_do_not_change_the_usual_number(env: Environment) -> None:
    env.change(bounds=Bounds(max_deletes=1_000, factor=2, floor=5))
    env.execute(
        "INSERT INTO lifecycle_seen SELECT 'jira:B-' || n, %(at)s FROM generate_series(1, 40) n", at=NIGHT - 31 * DAY
    )
    assert env.clean().of(ClassStatus.TRIPPED) == ("seen",)
    start_manual(env.effects, "kim", ["seen"], over_breaker=True, now=NIGHT)
    env.clean()
    assert env.using(store.history, "seen", 14) == []


def test_only_one_cleaner_works_at_a_time(env: Environment) -> None:
    with exclusive.held(env.database, LEASE_NAME, "another", ttl_seconds=LEASE_SECONDS, now=NIGHT):
        with pytest.raises(CleanupRunning):
            env.tick()
        assert env.keys("cleanups", "cleanup_id") == set()
        # After the lease, the other cleaner can delete nothing more.
        assert env.tick(NIGHT + timedelta(seconds=LEASE_SECONDS)).cleanup is not None


def test_cleaner_suspended_past_its_lease_deletes_nothing(env: Environment) -> None:
    """Its lease is taken over during its tick: the current batch is rolled back."""
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
    """A class that fails a given number of times."""

    failures: ClassVar[list[type[Exception]]] = []
    limits: ClassVar[list[int]] = []

    def delete(
        self, connection: Connection, before: datetime, cursor: Cursor | None, limit: int, now: datetime | None
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
def test_failed_class_is_retried_with_smaller_batches_and_delays_no_other(
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


def test_class_that_always_fails_is_given_up_for_the_night(env: Environment) -> None:
    _breaking(env, 1_000, psycopg.errors.LockNotAvailable)
    cleanup = env.clean()
    assert env.report("messages").status is ClassStatus.FAILED
    assert cleanup.errors == MAX_ERRORS
    assert any(warning.startswith("messages: given up") for warning in cleanup.warnings)


def test_cleanup_with_an_unknown_class_still_ends(env: Environment) -> None:
    env.clock.step_seconds = 30.0
    env.tick()
    env.clock.step_seconds = 0.0
    env.change(classes=[one for one in env.effects.classes if one.name != "cleanups"])
    env.clean()
    assert env.report("cleanups").status is ClassStatus.FAILED


def test_manual_cleanup_has_the_named_classes_and_runs_alone(env: Environment) -> None:
    env.seen("jira:A-1", NIGHT - 40 * DAY)
    env.message(1, NIGHT - 8 * DAY)
    with pytest.raises(NoSuchClass, match="The classes are cleanups, events"):
        start_manual(env.effects, "kim", ["sen"], now=NIGHT)
    started = start_manual(env.effects, "kim", ["seen"], now=NIGHT)
    assert [one.name for one in started.classes] == ["seen"]
    with pytest.raises(CleanupRunning):
        start_manual(env.effects, "lee", now=NIGHT)
    assert env.clean().cleanup_id == started.cleanup_id
    assert len(env.keys("lifecycle_messages", "message_id")) == 1
    assert env.clean().kind is CleanupKind.DAILY  # the daily cleanup follows


def test_stopped_cleanup_is_not_started_again_that_night(env: Environment) -> None:
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


def test_batch_of_a_stopped_cleanup_is_rolled_back(env: Environment) -> None:
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


def test_cleaner_pauses_for_the_duration_of_each_batch(env: Environment) -> None:
    env.change(pace=replace(env.effects.pace, rest=2.0))
    env.clock.step_seconds = 0.25
    for number in range(9):
        env.seen(f"jira:A-{number}", NIGHT - 40 * DAY)
    env.clean()
    assert env.slept[:3] == [0.5, 0.5, 0.5]


def test_preview_deletes_nothing(env: Environment) -> None:
    env.message(1, NIGHT - 8 * DAY)
    previewed = {one.name: one for one in preview(env.effects, NIGHT)}
    assert previewed["messages"].due == 1
    assert previewed["messages"].before == NIGHT - 7 * DAY
    assert list(previewed) == [one.name for one in env.effects.classes]
    assert len(env.keys("lifecycle_messages", "message_id")) == 1
    assert env.keys("cleanups", "cleanup_id") == set()


def test_report_has_the_current_and_projected_size_of_each_class(env: Environment) -> None:
    """LIFE-13: two objects of 17 bytes were written on the last day, and the period is three days."""
    for number, age in enumerate((0.5, 0.9, 2)):
        env.object(f"state/prompts/{number}.md", "PROMPT", NIGHT - age * DAY)
    cleanup = env.clean()
    usage = {one["class"]: one for one in cleanup.usage}
    assert list(usage) == [one.name for one in env.effects.classes]
    prompts = usage["prompts"]
    assert (prompts["rows"], prompts["bytes"], prompts["days"]) == (3, 51, 3)
    assert (prompts["rows_a_day"], prompts["bytes_a_day"], prompts["projected_bytes"]) == (2, 34, 102)
    assert prompts["oldest_at"] == (NIGHT - 2 * DAY).isoformat()


def test_cleanup_ends_even_if_a_class_cannot_be_measured(env: Environment) -> None:
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


def test_overdue_threads_and_questions_are_reported(env: Environment) -> None:
    """LIFE-10: older than seven days, not exactly seven days."""
    for number, age in enumerate((7 * DAY + A_MOMENT, 7 * DAY)):
        task = env.task(number, None)
        env.thread(task, NIGHT - age)
        env.execute("INSERT INTO lifecycle_awaiting VALUES (%(id)s, 'm', %(at)s)", id=task, at=NIGHT - age)
    [threads, questions] = env.clean().warnings
    assert threads.endswith("task-20261101-000")
    assert "task-20261101-000" in questions
    assert "task-20261101-001" not in questions


def test_silent_role_is_reported_and_heartbeats_are_never_deleted(env: Environment) -> None:
    """LIFE-11: after ten minutes; the row is overwritten and never deleted."""
    with env.database.connection() as connection:
        for minutes in (60 * 24 * 400, 11):
            heartbeat.record(connection, Role.KING, NIGHT - timedelta(minutes=minutes))
        heartbeat.record(connection, Role.ENVOY, NIGHT - timedelta(minutes=10))
        # A late heartbeat does not replace a newer one.
        heartbeat.record(connection, Role.ENVOY, NIGHT - timedelta(minutes=50))
    [warning] = env.clean().warnings
    assert warning == "no heartbeat for 600 s from KING"
    assert env.keys("lifecycle_heartbeats", "role") == {"KING", "ENVOY", "CHAMBERLAIN"}


def test_old_reports_are_deleted_with_their_classes(env: Environment) -> None:
    env.cleaned(NIGHT - 91 * DAY, "seen", 1)
    recent = env.cleaned(NIGHT - 89 * DAY, "seen", 1)
    cleanup = env.clean()
    assert env.keys("cleanups", "cleanup_id") == {str(recent), str(cleanup.cleanup_id)}
    assert env.keys("cleanup_classes", "cleanup_id") == {str(recent), str(cleanup.cleanup_id)}


def test_daily_cleanup_is_announced_once_with_its_counts(env: Environment) -> None:
    announced: list[int] = []
    env.change(announce=lambda _connection, cleanup, _now: announced.append(cleanup.deleted))
    env.message(1, NIGHT - 8 * DAY)
    env.clean()
    env.tick()
    start_manual(env.effects, "kim", now=NIGHT)
    env.clean()
    assert announced == [1]


def test_default_pace_uses_the_system_clock(env: Environment) -> None:
    env.change(pace=Pace())
    assert clean(env.effects).cleanup is not None
