"""Pack a home into a stream and back (003 §7, WS-10): a pax tar in one zstd frame, in constant memory.

Kept: numeric owners (restored if the process is root), modes including setuid, setgid and sticky, modification times to
the nanosecond, empty files and folders, names of any length and any bytes, hard links within the home, symlinks, holes.
Not kept: sockets, FIFOs and devices, which mean nothing without their process, extended attributes and access times.

Symlinks are kept whatever their target: homes are full of them (virtual environments, node_modules). They are harmless,
because no code here follows one.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpp.workspaces.errors import OperationFailed
from dpp.workspaces.ports import Heartbeat
from dpp.workspaces.providers.disk import FOLDER, failing_as, open_folder
from dpp.workspaces.providers.tar_members import END, Kind, Member, header_of, padding_of
from dpp.workspaces.providers.tar_reading import DiscardSink, read_members
from dpp.workspaces.providers.tar_unpacking import UnpackSink
from dpp.workspaces.providers.zstd_stream import compressed

_READ_BYTES = 1 << 20
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def pack(home: Path, heartbeat: Heartbeat) -> Iterator[bytes]:
    """Pack the home into a compressed tar. The same home gives the same bytes with the same release of zstd.

    Raises OperationFailed `HomeChanged` if something is written to the home meanwhile, `HomeUnreadable` for other
    errors of the file system, ProviderUnavailable if that does not answer, and what `heartbeat` raises.
    """
    return compressed(_Packer(home, heartbeat).blocks())


def unpack(chunks: Iterator[bytes], into: Path, heartbeat: Heartbeat) -> None:
    """Unpack the output of `pack` into an empty folder; if this raises, the folder is incomplete.

    Raises OperationFailed `ArchiveCorrupted` and `ArchiveRefused`, both terminal, `HomeUnwritable`, and what
    `heartbeat` and the chunks raise.
    """
    with failing_as("HomeUnwritable"):
        if any(into.iterdir()):
            raise OperationFailed("HomeUnwritable", "The folder to unpack into is not empty.")
        with closing(UnpackSink(into)) as sink:
            read_members(chunks, sink, heartbeat)


def verify(chunks: Iterator[bytes], heartbeat: Heartbeat) -> None:
    """Read the output of `pack` completely, and write nothing. Raises the same errors as `unpack`."""
    read_members(chunks, DiscardSink(), heartbeat)


@dataclass(slots=True)
class _OpenFolder:
    """A folder being packed. `pending`: its remaining names, the next one last."""

    names: tuple[str, ...]
    found: os.stat_result
    pending: list[str]


class _Packer:
    """Walks through a home with two descriptors: of its root, and of the folder being read."""

    def __init__(self, home: Path, heartbeat: Heartbeat) -> None:
        self._home = home
        self._heartbeat = heartbeat
        self._linked: dict[tuple[int, int], tuple[str, ...]] = {}
        self._root_fd = self._folder_fd = -1

    def blocks(self) -> Iterator[bytes]:
        """The uncompressed tar."""
        with failing_as("HomeUnreadable"), _unchanged():
            self._root_fd = os.open(self._home, FOLDER)
            self._folder_fd = os.dup(self._root_fd)
            try:
                yield from self._walk()
            finally:
                os.close(self._folder_fd)
                os.close(self._root_fd)
        yield END

    def _walk(self) -> Iterator[bytes]:
        path = [self._opened(())]
        yield header_of(_member(Kind.FOLDER, (), path[0].found))
        while path:
            self._heartbeat()
            folder = path[-1]
            if not folder.pending:
                _compare(folder.found, os.fstat(self._folder_fd))
                self._switch_to(open_folder(self._root_fd, folder.names[:-1]))
                path.pop()
                continue
            names = (*folder.names, folder.pending.pop())
            found = os.stat(names[-1], dir_fd=self._folder_fd, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                self._switch_to(os.open(names[-1], FOLDER, dir_fd=self._folder_fd))
                path.append(self._opened(names))
                yield header_of(_member(Kind.FOLDER, names, path[-1].found))
            elif stat.S_ISREG(found.st_mode):
                yield from self._file(names)
            elif stat.S_ISLNK(found.st_mode):
                target = os.readlink(names[-1], dir_fd=self._folder_fd)
                yield header_of(_member(Kind.SYMLINK, names, found, target=target))

    def _opened(self, names: tuple[str, ...]) -> _OpenFolder:
        found = os.fstat(self._folder_fd)
        entries = os.listdir(self._folder_fd)  # noqa: PTH208 - a descriptor
        return _OpenFolder(names, found, sorted(entries, reverse=True))

    def _file(self, names: tuple[str, ...]) -> Iterator[bytes]:
        file_fd = os.open(names[-1], _FILE, dir_fd=self._folder_fd)
        try:
            found = os.fstat(file_fd)
            inode, is_linked = (found.st_dev, found.st_ino), found.st_nlink > 1
            if is_linked and inode in self._linked:
                target = "/".join(self._linked[inode])
                yield header_of(_member(Kind.HARD_LINK, names, found, target=target))
                return
            if is_linked:
                self._linked[inode] = names
            yield header_of(_member(Kind.FILE, names, found, is_linked=is_linked))
            left = found.st_size
            while left:
                self._heartbeat()
                piece = os.read(file_fd, min(left, _READ_BYTES))
                if not piece:
                    raise _changed()
                left -= len(piece)
                yield piece
            _compare(found, os.fstat(file_fd))
            yield padding_of(found.st_size)
        finally:
            os.close(file_fd)

    def _switch_to(self, folder_fd: int) -> None:
        os.close(self._folder_fd)
        self._folder_fd = folder_fd


def _member(
    kind: Kind, names: tuple[str, ...], found: os.stat_result, *, target: str = "", is_linked: bool = False
) -> Member:
    return Member(
        kind=kind,
        names=names,
        mode=stat.S_IMODE(found.st_mode),
        uid=found.st_uid,
        gid=found.st_gid,
        mtime_ns=found.st_mtime_ns,
        size_bytes=found.st_size if kind is Kind.FILE else 0,
        target=target,
        is_linked=is_linked,
    )


def _compare(before: os.stat_result, after: os.stat_result) -> None:
    if any(getattr(before, what) != getattr(after, what) for what in ("st_size", "st_mtime_ns", "st_ctime_ns")):
        raise _changed()


def _changed() -> OperationFailed:
    return OperationFailed("HomeChanged", "The home was changed while it was being archived.")


@contextmanager
def _unchanged() -> Iterator[None]:
    """An entry that was listed and then is missing, or has another type, was changed."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as cause:
        raise _changed() from cause
