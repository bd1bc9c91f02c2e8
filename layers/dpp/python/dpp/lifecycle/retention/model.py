"""A cleanup as its rows hold it: the report of what the chamberlain did (LIFE-8, LIFE-13). Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID


class CleanupKind(StrEnum):
    """DAILY: by the clock, once a day. MANUAL: an operator's."""

    DAILY = "DAILY"
    MANUAL = "MANUAL"


class ClassStatus(StrEnum):
    """How far a cleanup is with a class. CAPPED: as much as one cleanup deletes is gone, the rest waits for the next.
    TRIPPED: far more than usual is due, so nothing went. FAILED: it was tried often enough. STOPPED: by an operator."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    DONE = "DONE"
    CAPPED = "CAPPED"
    TRIPPED = "TRIPPED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"

    @property
    def is_over(self) -> bool:
        """Whether this cleanup does nothing more with the class."""
        return self not in {ClassStatus.WAITING, ClassStatus.RUNNING}


@dataclass(frozen=True, slots=True)
class ClassReport:
    """One class of a cleanup. `before`: what is older was due. `due`, `allowed`: as the breaker counted them, `due`
    no further than one beyond `allowed`. `bytes`: of rows, or of objects. `oldest_left_at`: when the class ended."""

    name: str
    status: ClassStatus
    before: datetime
    cursor_time: datetime | None
    cursor_id: str | None
    due: int | None
    allowed: int | None
    examined: int
    deleted: int
    bytes: int
    errors: int
    last_error: str | None
    oldest_left_at: datetime | None


@dataclass(frozen=True, slots=True)
class ClassUse:
    """What a class takes (LIFE-13). `projected_bytes`: once its period is full, at the last day's rate."""

    name: str
    days: int
    rows: int
    bytes: int
    rows_a_day: float
    bytes_a_day: float
    projected_bytes: int
    oldest_at: datetime | None

    def as_dict(self) -> dict[str, Any]:
        """As the report's JSON holds it."""
        return {
            "class": self.name,
            "days": self.days,
            "rows": self.rows,
            "bytes": self.bytes,
            "rows_a_day": self.rows_a_day,
            "bytes_a_day": self.bytes_a_day,
            "projected_bytes": self.projected_bytes,
            "oldest_at": self.oldest_at.isoformat() if self.oldest_at else None,
        }


@dataclass(frozen=True, slots=True)
class Cleanup:
    """One row of `cleanups`, with its classes. `usage`, `warnings`: of one that is done."""

    cleanup_id: UUID
    kind: CleanupKind
    day: date
    requested_by: str
    over_breaker: bool
    is_done: bool
    started_at: datetime
    ended_at: datetime | None
    usage: Sequence[Mapping[str, Any]]
    warnings: Sequence[str]
    classes: Sequence[ClassReport]

    @property
    def deleted(self) -> int:
        """Rows, of all classes."""
        return sum(one.deleted for one in self.classes)

    @property
    def bytes(self) -> int:
        """Of what was deleted."""
        return sum(one.bytes for one in self.classes)

    @property
    def errors(self) -> int:
        """Batches that failed."""
        return sum(one.errors for one in self.classes)

    def of(self, *statuses: ClassStatus) -> tuple[str, ...]:
        """The names of the classes with one of these statuses."""
        return tuple(one.name for one in self.classes if one.status in statuses)
