"""How a cleanup begins, is looked at beforehand, is stopped, and ends (LIFE-8, LIFE-13)."""

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

SCHEDULED = "the clock"


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast: rows a batch, seconds a firing, and how long to rest after a batch, in times of what it took.

    Measured (`make bench-cleanup`; other paces: `CLEANUP=--sweep`): 20,000 to 30,000 tombstones a second on two busy
    cores, a batch's locks held for 10 ms (p99 30), a submit's p99 over a run 0.99 to 1.24 × that without. 1,000 rows
    and half the rest are up to twice as fast, at 1.2 to 1.3 ×; 2,000 come to 1.5 ×, all that a cleanup may cost.
    """

    batch_rows: int = 500
    seconds: float = 40.0
    rest: float = 1.0
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class CleanerEffects:
    """What the chamberlain touches, and his rules; `classes` in order (`registry.ordered`).

    `announce` writes the message that tells of a daily cleanup, in the transaction that ends it.
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
    """What a cleanup of now would do with a class. `due`: counted up to one beyond `allowed`; what is due and still
    needed is counted, and would not be deleted."""

    name: str
    days: int
    before: datetime
    due: int
    allowed: int

    @property
    def trips(self) -> bool:
        """Whether the breaker would let nothing of it go."""
        return self.due > self.allowed


def preview(effects: CleanerEffects, now: datetime | None = None) -> list[Preview]:
    """What a cleanup of now would do, class by class in its order; nothing is changed."""
    previews = []
    with effects.database.connection() as connection:
        at = store.clock(connection, now)
        for one in effects.classes:
            days = days_of(one, effects.retention)
            before, allowed = at - timedelta(days=days), allowance(connection, effects, one.name)
            previews.append(
                Preview(one.name, days, before, one.due(connection, before, allowed + 1), allowed)
            )
    return previews


def allowance(connection: Connection, effects: CleanerEffects, name: str) -> int:
    """How many rows of a class may be due before the breaker trips."""
    return effects.bounds.allowed(store.history(connection, name, HISTORY_DAYS))


def begin_daily(
    connection: Connection, effects: CleanerEffects, now: datetime | None = None
) -> Cleanup | None:
    """Begin the latest due day's cleanup; None where it was begun before, or an operator's is under way."""
    day = due_day(store.clock(connection, now), effects.zone)
    if store.daily_was_begun(connection, day):
        return None
    new = _new(connection, effects, effects.classes, SCHEDULED, now)
    return _begun(connection, new, now)


def begin_manual(
    effects: CleanerEffects,
    requested_by: str,
    names: Sequence[str] = (),
    *,
    over_breaker: bool = False,
    now: datetime | None = None,
) -> Cleanup:
    """Begin an operator's cleanup, of all classes or of these. Raises CleanupRunning, NoSuchClass."""
    known = {one.name for one in effects.classes}
    if unknown := [name for name in names if name not in known]:
        raise NoSuchClass(f"There is no class {unknown[0]}; there are {', '.join(sorted(known))}.")
    chosen = [one for one in effects.classes if not names or one.name in names]
    with effects.database.connection() as connection:
        new = _new(connection, effects, chosen, requested_by, now)
        begun = _begun(connection, replace(new, kind=CleanupKind.MANUAL, over_breaker=over_breaker), now)
    if begun is None:
        raise CleanupRunning("A cleanup is under way: stop it, or wait for its end.")
    return begun


def stop(effects: CleanerEffects, actor: str, now: datetime | None = None) -> Cleanup | None:
    """Stop the cleanup under way, whose batch at this moment is undone; None where there is none.

    What was deleted stays deleted, and a day's cleanup that was stopped is not begun again.
    """
    with effects.database.connection() as connection:
        found = store.running(connection)
        if found is None:
            return None
        store.stop_classes(connection, found.cleanup_id, f"stopped by {actor}")
    return end(effects, found.cleanup_id, now)


def end(effects: CleanerEffects, cleanup_id: UUID, now: datetime | None = None) -> Cleanup | None:
    """Measure, and write down the end of a cleanup whose classes are over; the cleanup as it then stands."""
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


def _begun(connection: Connection, new: NewCleanup, now: datetime | None) -> Cleanup | None:
    return store.find(connection, new.cleanup_id) if store.begin(connection, new, now) else None
