"""File system calls that never follow a symlink, durable writes, and the translation of OSError."""

import ctypes
import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dpp.workspaces.errors import OperationFailed, ProviderUnavailable

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags to open a folder (open(2))."""

_OUTAGES = frozenset({errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN, errno.EHOSTUNREACH})


@contextmanager
def failing_as(reason: str) -> Iterator[None]:
    """Translate OSError to OperationFailed `reason`, or to ProviderUnavailable if the file system did not answer.

    The message contains the name of the error, but no file name.
    """
    try:
        yield
    except OSError as cause:
        name = errno.errorcode.get(cause.errno or 0, type(cause).__name__)
        if cause.errno in _OUTAGES:
            raise ProviderUnavailable(name) from cause
        raise OperationFailed(reason, f"The file system returned {name}.") from cause


def open_folder(root_fd: int, names: Sequence[str]) -> int:
    """Open the folder at this path; raises OSError if a name is not a folder.

    Opens one level at a time: a path in a home may exceed the length limit of a path, and links are not followed.
    """
    folder_fd = os.dup(root_fd)
    for name in names:
        try:
            below_fd = os.open(name, FOLDER, dir_fd=folder_fd)
        finally:
            os.close(folder_fd)
        folder_fd = below_fd
    return folder_fd


@contextmanager
def opened_folder(root_fd: int, names: Sequence[str]) -> Iterator[int]:
    """`open_folder`, closed afterwards."""
    folder_fd = open_folder(root_fd, names)
    try:
        yield folder_fd
    finally:
        os.close(folder_fd)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock (flock) on this file, which is created if needed."""
    lock_fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock_fd)


def flush(folder: Path) -> None:
    """Flush the folder's file system to disk with syncfs(2), which Python does not offer."""
    folder_fd = os.open(folder, FOLDER)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(folder_fd):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    finally:
        os.close(folder_fd)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file atomically: even after a crash of the machine it is complete or absent."""
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush the entries of this folder to disk."""
    folder_fd = os.open(folder, FOLDER)
    try:
        os.fsync(folder_fd)
    finally:
        os.close(folder_fd)


def remove(root_fd: int, *names: str) -> None:
    """Remove the file or folder at this path, and all below it. Entries that vanish meanwhile are no error.

    Works at any depth with two open descriptors: folders in a folder are removed first. Raises OSError.
    """
    with suppress(FileNotFoundError):
        with opened_folder(root_fd, names[:-1]) as parent_fd:
            if not stat.S_ISDIR(os.stat(names[-1], dir_fd=parent_fd, follow_symlinks=False).st_mode):
                os.unlink(names[-1], dir_fd=parent_fd)
                return
        _remove_folder(root_fd, names)


def _remove_folder(root_fd: int, names: Sequence[str]) -> None:
    path = list(names)
    while len(path) >= len(names):
        below = None
        with suppress(FileNotFoundError):
            _allow_all(root_fd, path)
            with opened_folder(root_fd, path) as folder_fd:
                below = _remove_files(folder_fd)
        if below is not None:
            path.append(below)
            continue
        try:
            with opened_folder(root_fd, path[:-1]) as parent_fd:
                os.rmdir(path[-1], dir_fd=parent_fd)
        except FileNotFoundError:
            pass
        except OSError as cause:
            if cause.errno != errno.ENOTEMPTY:
                raise
            continue  # a process that still has it open wrote something meanwhile
        path.pop()


def _allow_all(root_fd: int, names: Sequence[str]) -> None:
    """Give the owner access to the folder, by a descriptor that needs no permission to open (open(2), O_PATH)."""
    with opened_folder(root_fd, names[:-1]) as parent_fd:
        path_fd = os.open(names[-1], FOLDER | os.O_PATH, dir_fd=parent_fd)
        try:
            Path(f"/proc/self/fd/{path_fd}").chmod(0o700)
        finally:
            os.close(path_fd)


def _remove_files(folder_fd: int) -> str | None:
    """Remove all entries that are not folders; return the name of a folder, or None if there is none."""
    below = None
    with os.scandir(folder_fd) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                below = entry.name
            else:
                with suppress(FileNotFoundError):
                    os.unlink(entry.name, dir_fd=folder_fd)
    return below
