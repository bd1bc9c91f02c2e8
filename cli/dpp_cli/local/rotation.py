"""Keeps the logs of the local stack from filling the disk (LIFE-9): one pass over all of them.

- A log larger than `log_max_mb` is rotated to `<name>.log.old`, which replaces the one before: its head is copied
  (`.old.new`), the copy takes the name, then the head is taken off the log, beside its writer (log_files.py).
- `events.log` is split by day, in place of that (events.py).
- `.old` and logs of days older than `logs_days` are deleted.

A crash: before the copy has its name, it is half a file that the next pass removes. After that and before the head is
off, the head stands twice, and the next pass copies it once more, over itself. Nothing is lost in between. One pass at
a time: a second process leaves the pass to the first; the kernel releases the lock of a dead process.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from dpp.lifecycle.retention.periods import Retention, RetentionSettings
from dpp.platform.config import ConfigurationError, TimeZoneSettings
from dpp_cli.errors import StackError
from dpp_cli.local import events, log_files

LOCK_NAME = "logs.lock"
_FOLDERS = ("", "functions", "workspaces/containers/logs")
_MB = 1024 * 1024


@dataclass(frozen=True)
class LogRules:
    """The retention section's part for logs, and the zone whose days events are split by."""

    max_bytes: int
    kept_days: int
    zone: ZoneInfo

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "LogRules":
        """Load DPP_RETENTION and DPP_TIME_ZONE. Raises StackError for a wrong value."""
        try:
            retention, zone = RetentionSettings.load(environ).retention, TimeZoneSettings.load(environ).zone
        except ConfigurationError as error:
            raise StackError(str(error)) from None
        return cls._by(retention, zone)

    @classmethod
    def default(cls) -> "LogRules":
        """Return the rules, or defaults if a variable is wrong, for `status` and `down`."""
        return cls._by(Retention(), TimeZoneSettings().zone)

    @classmethod
    def _by(cls, retention: Retention, zone: ZoneInfo) -> "LogRules":
        return cls(retention.log_max_mb * _MB, retention.logs_days, zone)


@dataclass
class Pass:
    """The files that one pass rotated and deleted, and warnings about failures."""

    rotated: list[str] = field(default_factory=list)
    split: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def tidy(state_dir: Path, rules: LogRules, now: datetime) -> Pass:
    """Make one pass at the time `now`. Failures become warnings and do not stop the rest."""
    done = Pass()
    with _only_one(state_dir, done) as ours:
        if not ours:
            return done
        with _warning(done, events.NAME):
            if (aside := events.split(state_dir, now, rules.zone)) is not None:
                done.split.append(aside.name)
        for folder in _FOLDERS:
            for path in sorted((state_dir / folder).glob("*.log*")):
                if not path.is_symlink():
                    _tidy(path, str(path.relative_to(state_dir)), rules, now, done)
    for name in done.rotated:
        events.emit(state_dir, "log_rotated", now=now, zone_of=rules.zone, log=name)
    for name in done.deleted:
        events.emit(state_dir, "log_deleted", now=now, zone_of=rules.zone, log=name)
    return done


def rotate(path: Path, now: datetime) -> None:
    """Put all but the last lines of a log into `<name>.log.old`. Raises OSError, HeadError."""
    log_fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if (head := log_files.head_bytes(log_fd)) == 0:
            return
        new, old = path.with_name(f"{path.name}.old.new"), path.with_name(f"{path.name}.old")
        line_end = log_files.copy_head(log_fd, new, head)
        os.utime(new, (now.timestamp(), now.timestamp()))  # from which its days are counted
        new.replace(old)
        log_files.drop_head(log_fd, head, line_end)
    finally:
        os.close(log_fd)


def _tidy(path: Path, name: str, rules: LogRules, now: datetime, done: Pass) -> None:
    with _warning(done, name):
        if path.name.endswith(".log.old.new"):
            path.unlink()  # of a pass that died in it
        elif _is_over(path, rules, now):
            path.unlink()
            done.deleted.append(name)
        elif _grows(path) and log_files.bytes_used(path) > rules.max_bytes:
            rotate(path, now)
            done.rotated.append(name)


def _grows(path: Path) -> bool:
    """Split events by day; an existing day's file is never replaced."""
    return path.suffix == ".log" and path.name != events.NAME and events.day_of(path.name) is None


def _is_over(path: Path, rules: LogRules, now: datetime) -> bool:
    if (day := events.day_of(path.name)) is not None:
        return (now.astimezone(rules.zone).date() - day).days > rules.kept_days
    age = now.timestamp() - path.stat().st_mtime
    return path.name.endswith(".log.old") and age > timedelta(days=rules.kept_days).total_seconds()


@contextmanager
def _warning(done: Pass, name: str) -> Iterator[None]:
    """Ignore a log that has disappeared; turn any other error into a warning."""
    try:
        yield
    except FileNotFoundError:
        return
    except OSError as error:
        done.warnings.append(f"can't look after the log {name}: {error.strerror}")
    except log_files.HeadError as error:
        done.warnings.append(f"can't rotate the log {name}: {error}")


@contextmanager
def _only_one(state_dir: Path, done: Pass) -> Iterator[bool]:
    """True while the pass is ours; False where another is at work, or there is no writing here (a warning)."""
    try:
        lock = (state_dir / LOCK_NAME).open("a")
    except OSError as error:
        done.warnings.append(f"can't look after the logs in {state_dir}: {error.strerror}")
        yield False
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
