"""Every call that a cleanup makes to Postgres and S3, failed in every way (LIFE-3, LIFE-4, LIFE-8).

At the crash no object is without a row or an entry in the list of deletions, and the reports count what is gone. After
the recovery all that is due is gone, once, and the day has one report.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from dpp.lifecycle.flow.ports import Objects
from dpp.lifecycle.retention import classes, cleaner, control, deletions, store
from dpp.lifecycle.retention.control import CleanerEffects, start_daily, start_manual, stop
from dpp.lifecycle.retention.model import ClassReport, Cleanup
from dpp.platform.db.postgres import Database
from dpp.platform.db.retention import Batch, Cursor, RetentionClass
from tests.retention.crash_environment import Act, CleanerCrashes, announce
from tests.retention.environment import DAY, NIGHT, Environment
from tests.support.crash_matrix import Plant

_OLD = NIGHT - 40 * DAY
_YOUNG = NIGHT - DAY
_PROMPT = "state/prompts/{}.md"


def _tasks_and_events(crashes: CleanerCrashes) -> None:
    """Three of each are due, one is blocked by a thread, one is recent."""
    env = crashes.env
    for number in range(5):
        at = _YOUNG if number == 4 else _OLD
        task = env.task(number, at, event_id=env.event(number, at))
        if number == 3:
            env.thread(task, _OLD)


def _tasks_and_prompts(crashes: CleanerCrashes) -> None:
    """Three of each are due, one task is in progress, one is recent; S3 refuses one due prompt."""
    env = crashes.env
    for number, ended_at in enumerate((_OLD, _OLD, _OLD, None, _YOUNG)):
        task = env.task(number, ended_at)
        env.object(_PROMPT.format(number), "PROMPT", _YOUNG if number == 4 else _OLD, task_id=task)
    env.bucket.refused[_PROMPT.format(1)] = "AccessDenied"


def _on_the_list(crashes: CleanerCrashes) -> None:
    """The cleanup is done, but S3 was unavailable."""
    _tasks_and_prompts(crashes)
    crashes.env.bucket.is_away = True
    cleaner.clean(crashes.effects, NIGHT)
    crashes.env.bucket.is_away = False


def _ids(crashes: CleanerCrashes) -> None:
    for number in range(6):
        crashes.env.seen(f"jira:A-{number}", _YOUNG if number == 5 else _OLD + number * timedelta(hours=1))


def _half_way(crashes: CleanerCrashes) -> None:
    """One batch of ids is deleted when the tick's time is up."""
    _ids(crashes)
    crashes.env.clock.step_seconds = 10.0
    while not crashes.figures() or crashes.figures()["seen"][1] == 0:
        cleaner.clean(crashes.effects, NIGHT)
    crashes.env.clock.step_seconds = 0.0


def _all_over(crashes: CleanerCrashes) -> None:
    """Only the end of the cleanup is left."""
    crashes.env.database.using(start_daily, crashes.effects, NIGHT)
    crashes.rows("UPDATE cleanup_classes SET status = 'DONE'")


def _end(effects: Any) -> None:
    running = effects.database.using(store.running)
    assert running is not None
    control.end(effects, running.cleanup_id, NIGHT)


def _clean(effects: Any) -> None:
    cleaner.clean(effects, NIGHT)


_BEGINS = {"postgres.begin", "postgres.start", "postgres.add_class", "postgres.commit transaction"}
_DELETES = {
    *(
        f"postgres.{name}"
        for name in ("take_lease", "record_heartbeat", "let_through", "lock_lease", "act_as_chamberlain")
    ),
    *(f"postgres.{name}" for name in ("advance", "commit transaction", "end_class", "release_lease")),
}
_DRAINS = {"postgres.due_deletions", "s3.delete_objects", "postgres.deleted_objects", "postgres.refused_object"}
_ENDS = {"postgres.end", "postgres.insert_message", "postgres.commit transaction"}
_TASKS = frozenset(f"task-20261101-{number:03}" for number in (3, 4))
ACTS = {
    "rows": Act(
        _clean,
        ("tasks", "events", "seen"),
        _tasks_and_events,
        _TASKS | {f"github:o/r/issues/{number}" for number in (3, 4)},
        frozenset(_BEGINS | _DELETES | _ENDS | {"postgres.delete_tasks", "postgres.delete_events"}),
    ),
    "objects": Act(
        _clean,
        ("prompts", "tasks"),
        _tasks_and_prompts,
        _TASKS | {_PROMPT.format(number) for number in (3, 4)},
        frozenset(_BEGINS | _DELETES | _ENDS | _DRAINS | {"postgres.delete_prompts"}),
    ),
    "list": Act(
        _clean,
        ("prompts", "tasks"),
        _on_the_list,
        _TASKS | {_PROMPT.format(number) for number in (3, 4)},
        frozenset(_DRAINS | {"postgres.commit transaction"}),
    ),
    "begin": Act(
        lambda effects: start_manual(effects, "kim", ["seen"], now=NIGHT),
        ("seen",),
        _ids,
        frozenset({"jira:A-5"}),
        frozenset(_BEGINS),
    ),
    "stop": Act(
        lambda effects: stop(effects, "kim", NIGHT),
        ("seen",),
        _half_way,
        frozenset({"jira:A-5"}),
        frozenset(_ENDS | {"postgres.stop_classes"}),
        may_stop=True,
    ),
    "end": Act(_end, ("seen",), _all_over, frozenset(), frozenset(_ENDS | {"postgres.use_of_seen"})),
}


@pytest.fixture(scope="module")
def crashes(shared_database: str) -> Iterator[CleanerCrashes]:
    """One for the whole module."""
    with closing(Database(shared_database)) as database, psycopg.connect(shared_database, autocommit=True) as admin:
        yield CleanerCrashes(Environment(shared_database, database), admin, ACTS)


@pytest.mark.parametrize("act", list(ACTS))
def test_every_call_is_a_crash_point(crashes: CleanerCrashes, act: str) -> None:
    """A recording that misses calls would pass, too."""
    assert ACTS[act].calls <= crashes.calls_of_clean_run(act)


@pytest.mark.parametrize("act", list(ACTS))
def test_crash_at_any_call_loses_and_repeats_nothing(crashes: CleanerCrashes, act: str) -> None:
    """LIFE-3, LIFE-4, LIFE-8: all calls of this act, one after the other."""
    assert list(crashes.crash_everywhere(act)) == []


def _delete_object_first(patch: pytest.MonkeyPatch) -> None:
    """Delete the object before its row."""
    real = cleaner._Tick._batch

    def batch(self: Any, *args: Any) -> Batch:
        with self.effects.database.connection() as connection:
            due = connection.execute(
                classes.PROMPTS.statements["due_prompts"], {"before": _YOUNG, "limit": 1}
            ).fetchone()
        if due is not None:
            self.effects.storage.delete([_PROMPT.format(0)])
        return real(self, *args)

    patch.setattr(cleaner._Tick, "_batch", batch)


def _write_counts_later(patch: pytest.MonkeyPatch) -> None:
    """Write a batch's counts after its commit."""

    def batch(self: Any, report: ClassReport, kept: RetentionClass, cursor: Cursor | None, limit: int) -> Batch:
        with self.effects.database.connection() as connection:
            with connection.transaction():
                done = kept.delete(connection, report.before, cursor, limit, self.now)
            store.advance(connection, self.cleanup.cleanup_id, kept.name, done, cursor)
        return done

    patch.setattr(cleaner._Tick, "_batch", batch)


def _empty_the_list_first(patch: pytest.MonkeyPatch) -> None:
    """Empty the deletion list before S3's reply."""

    def delete_listed(
        database: Database, storage: Objects, done: deletions.DeletionReport, now: datetime | None
    ) -> bool:
        with database.connection() as connection:
            keys = store.due_deletions(connection, now)
            store.note_deletions(connection, keys, {}, now)
        if keys:
            storage.delete(keys)
        return False

    patch.setattr(cleaner, "delete_listed", delete_listed)


def _delay_nothing(patch: pytest.MonkeyPatch) -> None:
    """Process the classes that a failed class points at."""
    real = cleaner._Tick._class

    def turn(self: Any, *args: Any) -> bool:
        real(self, *args)
        return True

    patch.setattr(cleaner._Tick, "_class", turn)


def _announce_later(patch: pytest.MonkeyPatch) -> None:
    """Announce the cleanup after the transaction that ends it."""
    real = control.end

    def end(effects: CleanerEffects, cleanup_id: UUID, now: datetime | None) -> Cleanup | None:
        ended = real(replace(effects, announce=None), cleanup_id, now)
        with effects.database.connection() as connection, connection.transaction():
            assert ended is not None
            announce(connection, ended, now)
        return ended

    patch.setattr(control, "end", end)


@pytest.mark.parametrize(
    ("plant", "act", "violation"),
    [
        (_delete_object_first, "objects", "rows without their object"),
        (_empty_the_list_first, "objects", "objects without a row"),
        (_write_counts_later, "rows", "are reported as deleted"),
        (_delay_nothing, "rows", "that are due are left"),
        (_announce_later, "end", "the day's reports"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_planted_fault_is_found(
    crashes: CleanerCrashes, monkeypatch: pytest.MonkeyPatch, plant: Plant, act: str, violation: str
) -> None:
    """Without these the matrix could pass by finding nothing."""
    crashes.record(act)
    plant(monkeypatch)
    assert any(violation in one for one in crashes.crash_everywhere(act))
