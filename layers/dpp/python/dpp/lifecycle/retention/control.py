"""Previews, starts, stops and ends cleanups (LIFE-8, LIFE-13)."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

from dpp.lifecycle.flow.errors import CleanupRunning, NoSuchClass
from dpp.lifecycle.flow.ports import Objects
from dpp.lifecycle.retention import store
from dpp.lifecycle.retention.breaker import HISTORY_DAYS, Bounds
from dpp.lifecycle.retention.model import Cleanup, CleanupKind
from dpp.lifecycle.retention.periods import Retention
from dpp.lifecycle.retention.registry import days_of
from dpp.lifecycle.retention.schedule import due_day
from dpp.lifecycle.retention.store import NewCleanup
from dpp.lifecycle.retention.usage import measure
from dpp.lifecycle.retention.warnings import warnings_of
from dpp.platform.db.postgres import Connection, Database
from dpp.platform.db.retention import RetentionClass

SCHEDULED = "schedule"


@dataclass(frozen=True, slots=True)
class Pace:
    """`batch_rows` per batch, `seconds` per tick, and `rest`: the pause after a batch, as a multiple of its duration.

    Measured on two busy cores (`make bench-cleanup`; other paces: `CLEANUP=--sweep`): 20,000 to 30,000 tombstones a
    second, the locks of a batch held for 10 ms (p99 30), p99 of a submit 0.99 to 1.24 × that without a cleanup. 1,000
    rows and half the rest are up to twice as fast, at 1.2 to 1.3 ×. 2,000 rows reach 1.5 ×, the most that is accepted.
    """

    batch_rows: int = 500
    seconds: float = 40.0
    rest: float = 1.0
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class CleanerEffects:
    """Connections, clients and limits that the cleaner uses; `classes` in their order (`registry.ordered`).

    `announce` writes the report of a daily cleanup in the transaction that ends it.
    """

    database: Database
    storage: Objects
    classes: Sequence[RetentionClass]
    retention: Retention
    zone: ZoneInfo
    bounds: Bounds
    pace: Pace = field(default_factory=Pace)
    announce: Callable[[Connection, Cleanup, datetime | None], None] | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect that a cleanup would have on a class now. `due` is counted up to one beyond `allowed`, and includes
    blocked rows, which would not be deleted."""

    name: str
    days: int
    before: datetime
    due: int
    allowed: int

    @property
    def trips(self) -> bool:
        """True if the breaker would stop the class."""
        return self.due > self.allowed


def preview(effects: CleanerEffects, now: datetime | None = None) -> list[Preview]:
    """The effect that a cleanup would have now, class by class; nothing is changed."""
    previews = []
    with effects.database.connection() as connection:
        at = store.clock(connection, now)
        for one in effects.classes:
            days = days_of(one, effects.retention)
            before, allowed = at - timedelta(days=days), allowance(connection, effects, one.name)
            previews.append(Preview(one.name, days, before, one.due(connection, before, allowed + 1), allowed))
    return previews


def allowance(connection: Connection, effects: CleanerEffects, name: str) -> int:
    """The number of due rows of a class above which the breaker trips."""
    return effects.bounds.allowed(store.history(connection, name, HISTORY_DAYS))


def start_daily(connection: Connection, effects: CleanerEffects, now: datetime | None = None) -> Cleanup | None:
    """Start the cleanup of the latest due day. Returns None if it was started before, or if another cleanup is
    running."""
    day = due_day(store.clock(connection, now), effects.zone)
    if store.daily_was_started(connection, day):
        return None
    new = _new(connection, effects, effects.classes, SCHEDULED, now)
    return _start(connection, new, now)


def start_manual(
    effects: CleanerEffects,
    requested_by: str,
    names: Sequence[str] = (),
    *,
    over_breaker: bool = False,
    now: datetime | None = None,
) -> Cleanup:
    """Start an operator's cleanup of the named classes, or of all. Raises CleanupRunning, NoSuchClass."""
    known = {one.name for one in effects.classes}
    if unknown := [name for name in names if name not in known]:
        raise NoSuchClass(f"There is no class {unknown[0]}. The classes are {', '.join(sorted(known))}.")
    chosen = [one for one in effects.classes if not names or one.name in names]
    with effects.database.connection() as connection:
        new = _new(connection, effects, chosen, requested_by, now)
        started = _start(connection, replace(new, kind=CleanupKind.MANUAL, over_breaker=over_breaker), now)
    if started is None:
        raise CleanupRunning("A cleanup is running: stop it (dpp lifecycle stop), or wait for its end.")
    return started


def stop(effects: CleanerEffects, actor: str, now: datetime | None = None) -> Cleanup | None:
    """Stop the running cleanup and roll back its current batch. Returns None if none is running.

    Deleted rows stay deleted. A stopped daily cleanup is not started again that day.
    """
    with effects.database.connection() as connection:
        found = store.running(connection)
        if found is None:
            return None
        store.stop_classes(connection, found.cleanup_id, f"stopped by {actor}")
    return end(effects, found.cleanup_id, now)


def end(effects: CleanerEffects, cleanup_id: UUID, now: datetime | None = None) -> Cleanup | None:
    """Measure the classes and mark the cleanup as done. Returns the cleanup as it is then."""
    usage = measure(effects.database, effects.classes, effects.retention, now)
    with effects.database.connection() as connection, connection.transaction():
        warnings = warnings_of(connection, cleanup_id, usage, now)
        is_first = store.end(connection, cleanup_id, usage.classes, warnings, now)
        ended = store.find(connection, cleanup_id)
        daily = ended is not None and ended.kind is CleanupKind.DAILY
        if is_first and ended is not None and daily and effects.announce is not None:
            effects.announce(connection, ended, now)
    return ended


def _new(
    connection: Connection,
    effects: CleanerEffects,
    classes: Sequence[RetentionClass],
    requested_by: str,
    now: datetime | None,
) -> NewCleanup:
    at = store.clock(connection, now)
    befores = [(one.name, at - timedelta(days=days_of(one, effects.retention))) for one in classes]
    return NewCleanup(
        cleanup_id=uuid4(),
        kind=CleanupKind.DAILY,
        day=due_day(at, effects.zone),
        requested_by=requested_by,
        over_breaker=False,
        classes=befores,
    )


def _start(connection: Connection, new: NewCleanup, now: datetime | None) -> Cleanup | None:
    return store.find(connection, new.cleanup_id) if store.start(connection, new, now) else None
