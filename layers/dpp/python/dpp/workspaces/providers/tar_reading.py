"""Read a home's tar completely, member by member, in the order in which it is written: depth first.

Each member must be in a folder that is still open. So no member can be below a link or occur twice, and the reader has
to remember only the names of one folder per depth.
"""

from collections.abc import Iterator
from typing import Protocol, assert_never

from dpp.workspaces.ports import Heartbeat
from dpp.workspaces.providers.tar_members import Kind, Member, names_of, next_member, refused, skip_padding
from dpp.workspaces.providers.zstd_stream import ZstdReader

PIECE_BYTES = 256 << 10
"""Files are read in pieces of this size."""


class Sink(Protocol):
    """Receives the members of an archive."""

    def enter(self, folder: Member) -> None:
        """A folder starts."""
        ...

    def leave(self, folder: Member) -> None:
        """A folder is complete; inner folders first."""
        ...

    def file(self, member: Member, pieces: Iterator[bytes]) -> None:
        """A file. The sink must read all pieces."""
        ...

    def symlink(self, member: Member) -> None:
        """A symlink."""
        ...

    def hard_link(self, member: Member, target: tuple[str, ...]) -> None:
        """Another name of an earlier file."""
        ...


class DiscardSink:
    """A sink that discards everything."""

    def enter(self, folder: Member) -> None:
        """Nothing."""

    def leave(self, folder: Member) -> None:
        """Nothing."""

    def file(self, member: Member, pieces: Iterator[bytes]) -> None:  # noqa: ARG002
        """Read the pieces."""
        for _ in pieces:
            pass

    def symlink(self, member: Member) -> None:
        """Nothing."""

    def hard_link(self, member: Member, target: tuple[str, ...]) -> None:
        """Nothing."""


class _MemberOrder:
    """Checks the order of members: the open folders with their names, and the files that hard links may refer to."""

    def __init__(self) -> None:
        self._open: list[tuple[Member, set[str]]] = []
        self._linked: set[tuple[str, ...]] = set()

    def admit(self, member: Member) -> list[Member]:
        """Check the next member, and return the folders that end before it. Raises OperationFailed `ArchiveRefused`."""
        if not self._open:
            if member.names or member.kind is not Kind.FOLDER:
                raise refused("The archive does not start with the home folder.")
            self._open.append((member, set()))
            return []
        if not member.names:
            raise refused("The home folder occurs twice.")
        depth = len(member.names)
        if depth > len(self._open) or self._open[depth - 1][0].names != member.names[:-1]:
            raise refused("A member is not in an open folder.")
        left = [folder for folder, _ in reversed(self._open[depth:])]
        del self._open[depth:]
        siblings = self._open[-1][1]
        if member.names[-1] in siblings:
            raise refused("A name occurs twice.")
        siblings.add(member.names[-1])
        if member.kind is Kind.FOLDER:
            self._open.append((member, set()))
        elif member.kind is Kind.FILE and member.is_linked:
            self._linked.add(member.names)
        return left

    def target_of(self, member: Member) -> tuple[str, ...]:
        """The file that a hard link refers to. Raises OperationFailed `ArchiveRefused`."""
        target = names_of(member.target)
        if target not in self._linked:
            raise refused("A hard link does not refer to an earlier file.")
        return target

    def end(self) -> list[Member]:
        """The folders that are still open. Raises OperationFailed `ArchiveRefused` if the archive had no member."""
        if not self._open:
            raise refused("The archive does not start with the home folder.")
        return [folder for folder, _ in reversed(self._open)]


def read_members(chunks: Iterator[bytes], sink: Sink, heartbeat: Heartbeat) -> None:
    """Read a compressed tar, and pass its members to the sink.

    If this raises, the sink must discard everything: only the end shows that the archive is intact. Raises
    OperationFailed `ArchiveCorrupted` or `ArchiveRefused`.
    """
    reader, order = ZstdReader(chunks, heartbeat), _MemberOrder()
    while (member := next_member(reader)) is not None:
        heartbeat()
        for folder in order.admit(member):
            sink.leave(folder)
        match member.kind:
            case Kind.FOLDER:
                sink.enter(member)
            case Kind.FILE:
                sink.file(member, _pieces(reader, member.size_bytes, heartbeat))
            case Kind.SYMLINK:
                sink.symlink(member)
            case Kind.HARD_LINK:
                sink.hard_link(member, order.target_of(member))
            case _:
                assert_never(member.kind)
    for folder in order.end():
        sink.leave(folder)


def _pieces(reader: ZstdReader, size_bytes: int, heartbeat: Heartbeat) -> Iterator[bytes]:
    for start in range(0, size_bytes, PIECE_BYTES):
        heartbeat()
        yield reader.read_exactly(min(PIECE_BYTES, size_bytes - start))
    skip_padding(reader, size_bytes)
