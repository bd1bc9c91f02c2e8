"""Logs the local stack's own events to `events.log` as JSON lines: starts and ends of parts, deployments, rotated logs.
Split by day at 00:00 in the stack's time zone into `events-YYYYMMDD.log` (LIFE-9).

Each writer splits first, under the same lock, so the log never has lines of two days and a split is one rename:
a crash leaves it done or not done, and the next line or the next look at the logs does it. A day on which nothing ran
has no log. Where a day has one already (a clock or a zone was set back), the later one is numbered: none is replaced.
"""

import fcntl
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from dpp.platform.config import ConfigurationError, TimeZoneSettings

NAME = "events.log"
LOCK_NAME = "events.lock"
_DAY = re.compile(r"events-(\d{8})(\.\d+)?\.log")


def zone() -> ZoneInfo:
    """The zone of the stack, DPP_TIME_ZONE. `up` refuses a wrong one; what only writes a log takes the default."""
    try:
        return TimeZoneSettings.load().zone
    except ConfigurationError:
        return TimeZoneSettings().zone


def emit(
    folder: Path, event: str, *, now: datetime | None = None, zone_of: ZoneInfo | None = None, **details: object
) -> None:
    """Add an event. A failure to write is reported on stderr and stops nothing."""
    zone_of = zone_of or zone()
    at = (now or datetime.now(UTC)).astimezone(zone_of)
    line = json.dumps({"at": at.isoformat(timespec="milliseconds"), "event": event, **details})
    try:
        with _locked(folder):
            _split(folder, at.date(), zone_of)
            with (folder / NAME).open("a+b") as file:
                file.write(_newline_if_cut(file.fileno()) + line.encode() + b"\n")
    except OSError as error:
        sys.stderr.write(f"warning: can't write {folder / NAME}: {error.strerror}\n")


def split(folder: Path, now: datetime, zone_of: ZoneInfo) -> Path | None:
    """Put the log of a day that is over aside; the path it has now, None where there was nothing to do.

    Raises OSError.
    """
    if not (folder / NAME).exists():
        return None
    with _locked(folder):
        return _split(folder, now.astimezone(zone_of).date(), zone_of)


def day_of(name: str) -> date | None:
    """The day whose events a log has, by its name; None for any other file."""
    found = _DAY.fullmatch(name)
    try:
        return datetime.strptime(found[1], "%Y%m%d").date() if found else None  # noqa: DTZ007 - a day, no time
    except ValueError:
        return None


def _split(folder: Path, today: date, zone_of: ZoneInfo) -> Path | None:
    path = folder / NAME
    day = _first_day(path, zone_of)
    if day is None or day >= today:
        return None
    target, number = folder / f"events-{day:%Y%m%d}.log", 0
    while target.exists():
        number += 1
        target = folder / f"events-{day:%Y%m%d}.{number}.log"
    return path.rename(target)


def _first_day(path: Path, zone_of: ZoneInfo) -> date | None:
    """The day of the first line, or of the last change where that says none; None where there is no event."""
    try:
        with path.open("rb") as file:
            first = file.readline()
    except FileNotFoundError:
        return None
    if not first:
        return None
    try:
        at = datetime.fromisoformat(json.loads(first)["at"])
    except (ValueError, KeyError, TypeError):
        at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return at.astimezone(zone_of).date()


def _newline_if_cut(file_fd: int) -> bytes:
    """Ends the line of a writer that died in it, so that it spoils no other."""
    size = os.fstat(file_fd).st_size
    return b"\n" if size and os.pread(file_fd, 1, size - 1) != b"\n" else b""


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / LOCK_NAME).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
