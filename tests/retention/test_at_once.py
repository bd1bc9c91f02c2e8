"""Chamberlains at the same time, in threads on real Postgres: what goes is told once, and nobody is stuck (LIFE-8)."""

import threading
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from dpp.lifecycle.flow.errors import CleanupRunning
from dpp.lifecycle.retention import classes
from dpp.lifecycle.retention.cleaner import LEASE_SECONDS, clean
from dpp.lifecycle.retention.control import start_manual, stop
from dpp.platform.db.postgres import Database
from dpp.platform.db.retention import Batch, RetentionClass
from dpp.platform.db.retention_table import TableClass
from tests.retention.environment import DAY, NIGHT, Environment
from tests.support.retention_batches import as_kind
from tests.support.threads import at_once

MANY = 30
_OLD = NIGHT - 40 * DAY


def _fill(env: Environment) -> None:
    """Ids to be forgotten, and prompts with their objects."""
    env.execute(
        "INSERT INTO lifecycle_seen SELECT 'jira:A-' || n, %(at)s FROM generate_series(1, %(many)s) n",
        at=_OLD,
        many=MANY,
    )
    for number in range(MANY // 3):
        env.object(f"state/prompts/{number}.md", "PROMPT", _OLD)


def _told(env: Environment) -> tuple[int, int]:
    [row] = env.execute("SELECT sum(deleted)::int, sum(examined)::int FROM cleanup_classes")
    return row[0], row[1]


def _all_is_gone(env: Environment) -> bool:
    tables = ("lifecycle_seen", "lifecycle_objects", "lifecycle_deletions", "exclusive_leases")
    left = [env.execute(f"SELECT 1 FROM {table}") for table in tables]
    return not any(left) and env.bucket.objects == {}


@pytest.mark.parametrize("chamberlains", [2, 4])
def test_chamberlains_at_once_delete_and_tell_of_each_row_once(env: Environment, chamberlains: int) -> None:
    """Fired again and again, whoever has the lease; each firing ends after a few looks at the time."""
    _fill(env)
    announced: list[int] = []
    env.change(announce=lambda _connection, cleanup, _now: announced.append(cleanup.deleted))
    objects: list[int] = []

    def firings(database: Database) -> None:
        pace = replace(env.effects.pace, seconds=0.002, monotonic=_own_clock(), sleep=lambda _: None)
        effects = replace(env.effects, database=database, pace=pace)
        for _ in range(60):
            with suppress(CleanupRunning):
                objects.append(clean(effects, NIGHT).objects.deleted)

    at_once(env.url, *[firings] * chamberlains)
    env.clean() if not announced else env.tick()
    assert _all_is_gone(env)
    assert _told(env) == (MANY + MANY // 3, MANY + MANY // 3)
    assert announced == [MANY + MANY // 3]
    assert sum(objects) <= MANY // 3
    assert env.execute("SELECT kind, status FROM cleanups") == [("DAILY", "DONE")]


def _own_clock() -> Any:
    """A clock of this thread's own, a millisecond a look."""
    looks = iter(range(1_000_000))
    return lambda: next(looks) / 1_000


class Interrupted(TableClass):
    """A class at whose first batch something happens, in the middle of it."""

    meanwhile: Any = staticmethod(lambda: None)

    def delete(self, *args: Any) -> Batch:
        batch = super().delete(*args)
        happening, Interrupted.meanwhile = Interrupted.meanwhile, staticmethod(lambda: None)
        happening()
        return batch


def _interrupted(env: Environment) -> list[RetentionClass]:
    return [as_kind(Interrupted, classes.SEEN) if one.name == "seen" else one for one in env.effects.classes]


def test_one_who_takes_over_waits_for_the_batch_under_way_and_counts_it_once(env: Environment) -> None:
    """The first one's time is over in the middle of a batch: he may end that and lose the lease at any later one."""
    _fill(env)
    later = NIGHT + timedelta(seconds=LEASE_SECONDS)
    taken_over = threading.Thread(target=at_once, args=(env.url, partial(_clean, env, later)))

    def overslept() -> None:
        taken_over.start()
        _wait_for_a_waiter(env)

    Interrupted.meanwhile = staticmethod(overslept)
    first = clean(replace(env.effects, classes=_interrupted(env)), NIGHT)
    taken_over.join()
    assert env.effects.pace.batch_rows <= first.rows["seen"] <= MANY
    assert _all_is_gone(env)
    assert _told(env)[0] == MANY + MANY // 3


def _wait_for_a_waiter(env: Environment) -> None:
    """Until somebody waits for a lock in this database."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    while not env.execute(waiting):
        pass


def test_an_operator_beside_a_chamberlain_begins_nothing_twice(env: Environment) -> None:
    """The night's own, one by hand and a stop: whichever comes first."""
    for night in range(5):
        now = NIGHT + night * DAY
        _fill(env)
        at_once(env.url, *(partial(does, env, now) for does in (_clean, _by_hand, _stop)))
        while env.tick(now).cleanup is not None:
            pass
        [[deleted]] = env.execute("SELECT sum(deleted)::int FROM cleanup_classes")
        left = env.execute("SELECT 1 FROM lifecycle_seen") + env.execute("SELECT 1 FROM lifecycle_objects")
        assert deleted + len(left) == MANY + MANY // 3
        assert env.execute("SELECT 1 FROM cleanups WHERE status = 'RUNNING'") == []
        assert len(env.execute("SELECT 1 FROM cleanups WHERE kind = 'DAILY'")) == 1
        env.execute("TRUNCATE cleanups, cleanup_classes, lifecycle_objects, lifecycle_seen CASCADE")


def _clean(env: Environment, now: datetime, database: Database) -> None:
    clean(replace(env.effects, database=database), now)


def _by_hand(env: Environment, now: datetime, database: Database) -> None:
    with suppress(CleanupRunning):
        start_manual(replace(env.effects, database=database), "kim", ["seen"], now=now)


def _stop(env: Environment, now: datetime, database: Database) -> None:
    stop(replace(env.effects, database=database), "lee", now)
