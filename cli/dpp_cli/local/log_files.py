"""Log files that others append to: their last lines, and taking off their head without losing a line.

Postgres, Valkey, LocalStack and the containers of workspaces keep their log open for as long as they live, and none of
them opens it anew when asked. A log that is renamed would be written on under its other name; one that is copied and
truncated would lose what came in between. So the head is taken off the file itself, which Linux does in one step beside
any writer that appends (fallocate(2)): by FALLOC_FL_COLLAPSE_RANGE (ext4, XFS), or, where a file system can't (btrfs,
tmpfs), by FALLOC_FL_PUNCH_HOLE, which gives the room back and leaves a hole in its place.
"""

import ctypes
import errno
import os
from pathlib import Path

from dpp_cli.errors import StackError

_KEEP_SIZE, _PUNCH_HOLE, _COLLAPSE_RANGE = 0x01, 0x02, 0x08
_ALIGNED_BYTES = 64 * 1024  # a multiple of what file systems count in
_CHUNK_BYTES = 1024 * 1024
_CANNOT = (errno.EOPNOTSUPP, errno.ENOSYS)


class HeadError(StackError):
    """The file system can take no head off a file."""


def bytes_used(path: Path) -> int:
    """Return the disk space of a log; a hole at its start takes none."""
    found = path.stat()
    return min(found.st_size, found.st_blocks * 512)


def head_bytes(log_fd: int) -> int:
    """Return how many bytes can be cut off now: whole blocks, never the whole log."""
    return max(os.fstat(log_fd).st_size - 1, 0) // _ALIGNED_BYTES * _ALIGNED_BYTES


def copy_head(log_fd: int, to: Path, head: int) -> int:
    """Copy the first `head` bytes to `to`, and on to the end of their last line; return where that is.

    A hole at the start is left out. What is copied changes no more, since writers only append.
    """
    position = os.lseek(log_fd, 0, os.SEEK_DATA)
    with to.open("wb") as file:
        while position < head:
            chunk = os.pread(log_fd, min(_CHUNK_BYTES, head - position), position)
            if not chunk:
                raise OSError(errno.EAGAIN, "the log was written anew meanwhile", str(to))
            file.write(chunk)
            position += len(chunk)
        if os.pread(log_fd, 1, head - 1) != b"\n":
            position = head + file.write(_rest_of_line(log_fd, head))
        file.flush()
        os.fsync(file.fileno())
    return position


def drop_head(log_fd: int, head: int, line_end: int) -> None:
    """Take the first `head` bytes off, and blank the rest of their last line, which ends at `line_end`.

    A crash before the second leaves that rest as the first line: twice there, never lost. Raises HeadError.
    """
    starts_at = 0
    if not _fallocate(log_fd, _COLLAPSE_RANGE, head):
        if not _fallocate(log_fd, _PUNCH_HOLE | _KEEP_SIZE, head):
            raise HeadError("this file system takes no head off a file that is written to")
        starts_at = head
    if line_end > head:
        os.pwrite(log_fd, b" " * (line_end - head - 1) + b"\n", starts_at)


def last_lines(path: Path, lines: int) -> list[str]:
    """The last lines of a log, read from its end. Raises FileNotFoundError."""
    found = b""
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        while position > 0 and found.count(b"\n") <= lines and not found.startswith(b"\0"):
            step = min(position, _ALIGNED_BYTES)
            position = file.seek(position - step)
            found = file.read(step) + found
    return found.lstrip(b"\0").decode("utf-8", "replace").splitlines()[-lines:] if lines else []


def _rest_of_line(log_fd: int, position: int) -> bytes:
    """From `position` to the end of its line; nothing where that is far away, or not written yet."""
    line, newline, _ = os.pread(log_fd, _ALIGNED_BYTES, position).partition(b"\n")
    return line + newline if newline else b""


def _fallocate(log_fd: int, mode: int, length: int) -> bool:
    """Do it; False where the file system can't. Raises OSError."""
    call = ctypes.CDLL(None, use_errno=True).fallocate
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if call(log_fd, mode, 0, length) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number))
