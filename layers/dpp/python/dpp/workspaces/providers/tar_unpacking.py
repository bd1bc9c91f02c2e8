"""Write a home's members below one folder: never through a link, never over an existing file, with holes."""

import os
from collections.abc import Iterator
from pathlib import Path

from dpp.workspaces.providers.disk import FOLDER, open_folder, opened_folder
from dpp.workspaces.providers.tar_members import Member

_PAGE_BYTES = 4 << 10
_EMPTY_PAGE = bytes(_PAGE_BYTES)
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVATE = 0o700


class UnpackSink:
    """A sink (tar_reading.Sink) that writes files, with two descriptors: of the root, and of the current folder.

    Restores owners if this process is root. Raises OSError.
    """

    def __init__(self, into: Path) -> None:
        self._root_fd = os.open(into, FOLDER)
        self._folder_fd = os.dup(self._root_fd)
        self._is_root = os.geteuid() == 0

    def close(self) -> None:
        """Close the descriptors."""
        os.close(self._folder_fd)
        os.close(self._root_fd)

    def enter(self, folder: Member) -> None:
        """Create a folder, private until it is complete."""
        if folder.names:
            os.mkdir(folder.names[-1], _PRIVATE, dir_fd=self._folder_fd)
            self._switch_to(os.open(folder.names[-1], FOLDER, dir_fd=self._folder_fd))

    def leave(self, folder: Member) -> None:
        """Set the folder's owner, mode and time, now that nothing more is written into it."""
        self._set_attributes(self._folder_fd, folder)
        self._switch_to(open_folder(self._root_fd, folder.names[:-1]))

    def file(self, member: Member, pieces: Iterator[bytes]) -> None:
        """Write a file."""
        file_fd = os.open(member.names[-1], _NEW_FILE, _PRIVATE, dir_fd=self._folder_fd)
        try:
            at = 0
            for piece in pieces:
                _write_sparsely(file_fd, piece, at)
                at += len(piece)
            os.ftruncate(file_fd, member.size_bytes)
            self._set_attributes(file_fd, member)
        finally:
            os.close(file_fd)

    def symlink(self, member: Member) -> None:
        """Write a symlink with its original text. It is never followed."""
        name = member.names[-1]
        os.symlink(member.target, name, dir_fd=self._folder_fd)
        if self._is_root:
            os.chown(name, member.uid, member.gid, dir_fd=self._folder_fd, follow_symlinks=False)
        times = (member.mtime_ns, member.mtime_ns)
        os.utime(name, ns=times, dir_fd=self._folder_fd, follow_symlinks=False)

    def hard_link(self, member: Member, target: tuple[str, ...]) -> None:
        """Create another name of an earlier file."""
        with opened_folder(self._root_fd, target[:-1]) as target_fd:
            os.link(
                target[-1], member.names[-1], src_dir_fd=target_fd, dst_dir_fd=self._folder_fd, follow_symlinks=False
            )

    def _switch_to(self, folder_fd: int) -> None:
        os.close(self._folder_fd)
        self._folder_fd = folder_fd

    def _set_attributes(self, fd: int, member: Member) -> None:
        if self._is_root:
            os.fchown(fd, member.uid, member.gid)
        os.fchmod(fd, member.mode)  # after the owner, since chown clears setuid
        os.utime(fd, ns=(member.mtime_ns, member.mtime_ns))


def _write_sparsely(file_fd: int, piece: bytes, at: int) -> None:
    """Write all pages except zero pages, which stay holes."""
    for start, end in _full_runs(piece):
        run = memoryview(piece)[start:end]
        while run:
            written = os.pwrite(file_fd, run, at + end - len(run))
            run = run[written:]


def _full_runs(piece: bytes) -> Iterator[tuple[int, int]]:
    """The ranges of consecutive pages that are not zero."""
    begun: int | None = None
    for start in range(0, len(piece), _PAGE_BYTES):
        page = piece[start : start + _PAGE_BYTES]
        if page == _EMPTY_PAGE[: len(page)]:
            if begun is not None:
                yield begun, start
                begun = None
        elif begun is None:
            begun = start
    if begun is not None:
        yield begun, len(piece)
