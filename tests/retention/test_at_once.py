"""Concurrent cleaners, in threads on real Postgres: each deleted row is reported once, and none is blocked (LIFE-8)."""

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
    """Add ids and prompts that are due."""
    env.execute(
        "INSERT INTO lifecycle_seen SELECT 'jira:A-' || n, %(at)s FROM generate_series(1, %(many)s) n",
        at=_OLD,
        many=MANY,
    )
    for number in range(MANY // 3):
        env.object(f"state/prompts/{number}.md", "PROMPT", _OLD)


def _counts(env: Environment) -> tuple[int, int]:
    [row] = env.execute("SELECT sum(deleted)::int, sum(examined)::int FROM cleanup_classes")
    return row[0], row[1]


def _all_deleted(env: Environment) -> bool:
    tables = ("lifecycle_seen", "lifecycle_objects", "lifecycle_deletions", "exclusive_leases")
    left = [env.execute(f"SELECT 1 FROM {table}") for table in tables]
    return not any(left) and env.bucket.objects == {}


@pytest.mark.parametrize("chamberlains", [2, 4])
def test_concurrent_cleaners_delete_and_report_each_row_once(env: Environment, chamberlains: int) -> None:
    """Both run ticks repeatedly, and each tick ends after a few readings of the clock."""
    _fill(env)
    announced: list[int] = []
    env.change(announce=lambda _connection, cleanup, _now: announced.append(cleanup.deleted))
    objects: list[int] = []

    def ticks(database: Database) -> None:
        pace = replace(env.effects.pace, seconds=0.002, monotonic=_own_clock(), sleep=lambda _: None)
        effects = replace(env.effects, database=database, pace=pace)
        for _ in range(60):
            with suppress(CleanupRunning):
                objects.append(clean(effects, NIGHT).objects.deleted)

    at_once(env.url, *[ticks] * chamberlains)
    env.clean() if not announced else env.tick()
    assert _all_deleted(env)
    assert _counts(env) == (MANY + MANY // 3, MANY + MANY // 3)
    assert announced == [MANY + MANY // 3]
    assert sum(objects) <= MANY // 3
    assert env.execute("SELECT kind, status FROM cleanups") == [("DAILY", "DONE")]


def _own_clock() -> Any:
    """A clock for one thread, which advances by a millisecond per reading."""
    readings = iter(range(1_000_000))
    return lambda: next(readings) / 1_000


class Interrupted(TableClass):
    """A class during whose first batch something happens."""

    meanwhile: Any = staticmethod(lambda: None)

    def delete(self, *args: Any) -> Batch:
        batch = super().delete(*args)
        happening, Interrupted.meanwhile = Interrupted.meanwhile, staticmethod(lambda: None)
        happening()
        return batch


def _interrupted(env: Environment) -> list[RetentionClass]:
    return [as_kind(Interrupted, classes.SEEN) if one.name == "seen" else one for one in env.effects.classes]


def test_takeover_waits_for_the_current_batch_and_counts_it_once(env: Environment) -> None:
    """The lease of the first cleaner expires during a batch. It may finish the batch, and loses the lease at a later
    one."""
    _fill(env)
    later = NIGHT + timedelta(seconds=LEASE_SECONDS)
    taken_over = threading.Thread(target=at_once, args=(env.url, partial(_clean, env, later)))

    def lease_expires() -> None:
        taken_over.start()
        _wait_for_a_waiter(env)

    Interrupted.meanwhile = staticmethod(lease_expires)
    first = clean(replace(env.effects, classes=_interrupted(env)), NIGHT)
    taken_over.join()
    assert env.effects.pace.batch_rows <= first.rows["seen"] <= MANY
    assert _all_deleted(env)
    assert _counts(env)[0] == MANY + MANY // 3


def _wait_for_a_waiter(env: Environment) -> None:
    """Return when a session waits for a lock in this database."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    while not env.execute(waiting):
        pass


def test_operator_and_cleaner_start_nothing_twice(env: Environment) -> None:
    """A daily cleanup, a manual one and a stop, in any order."""
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
