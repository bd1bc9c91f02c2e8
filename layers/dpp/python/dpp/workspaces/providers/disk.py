"""Folders of this machine, opened step by step so that no symlink is ever followed, and what their failures mean."""

import ctypes
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dpp.workspaces.errors import OperationFailed, ProviderUnavailable

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a folder is opened (open(2))."""

_OUTAGES = frozenset(
    {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN, errno.EHOSTUNREACH}
)


@contextmanager
def failing_as(reason: str) -> Iterator[None]:
    """Turn a file system's error into OperationFailed `reason`, or into ProviderUnavailable where it gave no answer.

    The message has the error's name and no file's.
    """
    try:
        yield
    except OSError as cause:
        name = errno.errorcode.get(cause.errno or 0, type(cause).__name__)
        if cause.errno in _OUTAGES:
            raise ProviderUnavailable(name) from cause
        raise OperationFailed(reason, f"The file system answered {name}.") from cause


def open_folder(root_fd: int, names: Sequence[str]) -> int:
    """A descriptor of the folder that these names lead to; raises OSError where one of them is no folder.

    One step at a time: a home may be deeper than a path may be long, and none of its links leads anywhere.
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


def flush(folder: Path) -> None:
    """Return when all of the folder's file system is on its disk: syncfs(2), which Python has no name for."""
    folder_fd = os.open(folder, FOLDER)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(folder_fd):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    finally:
        os.close(folder_fd)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file that is whole or not there under its name, whatever happens to this machine."""
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Return when the names in this folder are on the disk."""
    folder_fd = os.open(folder, FOLDER)
    try:
        os.fsync(folder_fd)
    finally:
        os.close(folder_fd)


def remove(root_fd: int, *names: str) -> None:
    """Remove what these names lead to, and all below it; what vanishes meanwhile is no error.

    As deep as it may be, with two descriptors at a time: a folder that has folders is emptied of them first. Raises
    OSError.
    """
    with suppress(FileNotFoundError):
        with opened_folder(root_fd, names[:-1]) as parent_fd:
            if not stat.S_ISDIR(os.stat(names[-1], dir_fd=parent_fd, follow_symlinks=False).st_mode):
                os.unlink(names[-1], dir_fd=parent_fd)
                return
        _remove_folder(root_fd, names)


def _remove_folder(root_fd: int, names: Sequence[str]) -> None:
    way = list(names)
    while len(way) >= len(names):
        below = None
        with suppress(FileNotFoundError):
            _allow_all(root_fd, way)
            with opened_folder(root_fd, way) as folder_fd:
                below = _remove_files(folder_fd)
        if below is not None:
            way.append(below)
            continue
        try:
            with opened_folder(root_fd, way[:-1]) as parent_fd:
                os.rmdir(way[-1], dir_fd=parent_fd)
        except FileNotFoundError:
            pass
        except OSError as cause:
            if cause.errno != errno.ENOTEMPTY:
                raise
            continue  # something was written meanwhile, by who does not know yet that it is gone
        way.pop()


def _allow_all(root_fd: int, names: Sequence[str]) -> None:
    """Let the folder's owner into it, by a descriptor that needs no right to be opened (open(2), O_PATH)."""
    with opened_folder(root_fd, names[:-1]) as parent_fd:
        path_fd = os.open(names[-1], FOLDER | os.O_PATH, dir_fd=parent_fd)
        try:
            Path(f"/proc/self/fd/{path_fd}").chmod(0o700)
        finally:
            os.close(path_fd)


def _remove_files(folder_fd: int) -> str | None:
    """Remove what is not a folder; the name of a folder, or None where there is none."""
    below = None
    with os.scandir(folder_fd) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                below = entry.name
            else:
                with suppress(FileNotFoundError):
                    os.unlink(entry.name, dir_fd=folder_fd)
    return below
