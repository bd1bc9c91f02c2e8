"""Data that is read while it is deleted is read completely or not at all (LIFE-12), in a race of threads."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import psycopg
import pytest

from dpp.auth_errors import retention as auth_errors_retention
from dpp.auth_errors.api import read as auth_errors
from dpp.auth_errors.errors import AuthErrorNotFound
from dpp.lifecycle.flow.errors import TaskNotFound
from dpp.lifecycle.flow.reading import read as lifecycle
from dpp.lifecycle.retention import classes, deletions
from dpp.platform.db.postgres import Connection, Database
from dpp.platform.db.retention import Cursor, RetentionClass
from dpp.tickets import read as tickets
from dpp.tickets import retention as tickets_retention
from dpp.tickets.errors import TicketNotFound
from tests.retention.environment import DAY, NIGHT, Environment
from tests.retention.filled import fill
from tests.support.retention_batches import deleted, named
from tests.support.threads import at_once

_GONE = "gone"
_FAR = datetime.max.replace(tzinfo=NIGHT.tzinfo)


@dataclass(slots=True)
class Race:
    """Items are deleted one by one, and each is read repeatedly meanwhile; counts the results."""

    items: int
    read: Callable[[Connection, int], str]
    delete: Callable[[Database, int], None]
    found: Counter[str] = field(default_factory=Counter)
    _next: int = 0
    _was_read: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def run(self, url: str) -> Counter[str]:
        """Run until all items are deleted."""
        at_once(url, self._reads, self._deletes)
        return self.found

    def _reads(self, database: Database) -> None:
        try:
            while (item := self._next) < self.items:
                found = database.using(self.read, item)
                self.found[found] += 1
                if found != _GONE:
                    self._was_read.release()
        finally:
            self._was_read.release(self.items)

    def _deletes(self, database: Database) -> None:
        try:
            for item in range(self.items):
                self._was_read.acquire()
                self.delete(database, item)
                self._next = item + 1
        finally:
            self._next = self.items


@dataclass(slots=True)
class Batches:
    """A class of which each call deletes a batch."""

    kept: RetentionClass
    rows: int = 1
    cursor: Cursor | None = None

    def one(self, database: Database, _item: int = 0) -> None:
        """Delete as the cleaner does."""
        with database.connection() as connection, connection.transaction():
            batch = self.kept.delete(connection, _FAR, self.cursor, self.rows, NIGHT)
        self.cursor = batch.cursor or self.cursor


ITEMS = 60


def _id(item: int) -> UUID:
    """The oldest is deleted first."""
    return UUID(f"00000000-0000-4000-8000-{ITEMS - item:012x}")


def _ticket(connection: Connection, item: int) -> str:
    try:
        whole = tickets.read(connection, _id(item))
    except TicketNotFound:
        return _GONE
    return f"{len(whole.transitions)} transitions, {'a' if whole.result else 'no'} result"


def _auth_error(connection: Connection, item: int) -> str:
    try:
        whole = auth_errors.read(connection, _id(item))
    except AuthErrorNotFound:
        return _GONE
    return f"{len(whole.transitions)} transitions, {len(whole.decisions)} decision, {len(whole.clusters)} cluster"


@pytest.mark.parametrize(
    ("read", "kept", "whole"),
    [
        (_ticket, named(tickets_retention.CLASSES, "tickets"), "2 transitions, a result"),
        (_auth_error, named(auth_errors_retention.CLASSES, "auth_errors"), "2 transitions, 1 decision, 1 cluster"),
    ],
    ids=["ticket", "auth error"],
)
def test_item_is_read_with_its_whole_history_or_not_found(
    database_url: str, read: Callable[[Connection, int], str], kept: RetentionClass, whole: str
) -> None:
    """A ticket is never read without its result, nor an error without its decisions."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        fill(connection, ITEMS, open_rows=0)
        deleted(connection, named(auth_errors_retention.CLASSES, "outbox"), _FAR)
    found = Race(ITEMS, read, Batches(kept).one).run(database_url)
    assert found.keys() <= {whole, _GONE}
    assert found[whole] >= ITEMS


_SUFFIXES = (".json", "-raw.json", "-session-id", "-soldier-id")
_TASKS = 15


def test_task_is_read_with_all_its_results_or_with_none(env: Environment) -> None:
    """LIFE-3: batches of three rows, four results per task, and a call to S3 after each batch."""
    old = NIGHT - 10 * DAY
    ids = [env.task(number, old) for number in range(_TASKS)]
    for number, task_id in enumerate(ids):
        for suffix in _SUFFIXES:
            env.object(f"state/results/{task_id}{suffix}", "RESULT", old - (_TASKS - number) * DAY, task_id=task_id)
    batches = Batches(named(classes.CLASSES, "results"), rows=3)

    def read(connection: Connection, item: int) -> str:
        try:
            found = lifecycle.whole(connection, env.bucket.store(), ids[item]).objects
        except TaskNotFound:
            return _GONE
        return f"{len(found)} results" if found else _GONE

    def delete(database: Database, _item: int) -> None:
        batches.one(database)
        deletions.delete_listed(database, env.bucket.store(), deletions.DeletionReport(), NIGHT)

    found = Race(_TASKS, read, delete).run(env.url)
    assert found.keys() <= {"4 results", _GONE}
    assert found["4 results"] >= _TASKS
    assert env.bucket.objects == {}
