"""A cleanup and its report, as stored (LIFE-8, LIFE-13). Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID


class CleanupKind(StrEnum):
    """DAILY: scheduled, once a day. MANUAL: started by an operator."""

    DAILY = "DAILY"
    MANUAL = "MANUAL"


class ClassStatus(StrEnum):
    """The progress of a class in a cleanup. CAPPED: the maximum was deleted, the rest waits for the next cleanup.
    TRIPPED: far more rows than usual were due, so none was deleted. FAILED: too many batches failed. STOPPED: stopped
    by an operator."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    DONE = "DONE"
    CAPPED = "CAPPED"
    TRIPPED = "TRIPPED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"

    @property
    def is_over(self) -> bool:
        """True if this cleanup is finished with the class."""
        return self not in {ClassStatus.WAITING, ClassStatus.RUNNING}


@dataclass(frozen=True, slots=True)
class ClassReport:
    """The result of one class. Rows older than `before` were due. `due` and `allowed` are the breaker's counts (`due`
    up to one beyond `allowed`). `bytes` is the size of rows or objects. `oldest_left_at` is the oldest deletable row at
    the end."""

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
    """The size of a class (LIFE-13). `projected_bytes`: the size after a full period at the rate of the last day."""

    name: str
    days: int
    rows: int
    bytes: int
    rows_a_day: float
    bytes_a_day: float
    projected_bytes: int
    oldest_at: datetime | None

    def as_dict(self) -> dict[str, Any]:
        """The JSON form in the report."""
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
    """One row of `cleanups` with its classes. `usage` and `warnings` are set at the end."""

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
        """Deleted rows of all classes."""
        return sum(one.deleted for one in self.classes)

    @property
    def bytes(self) -> int:
        """Deleted bytes of all classes."""
        return sum(one.bytes for one in self.classes)

    @property
    def errors(self) -> int:
        """Failed batches of all classes."""
        return sum(one.errors for one in self.classes)

    def of(self, *statuses: ClassStatus) -> tuple[str, ...]:
        """The names of the classes with one of these statuses."""
        return tuple(one.name for one in self.classes if one.status in statuses)
