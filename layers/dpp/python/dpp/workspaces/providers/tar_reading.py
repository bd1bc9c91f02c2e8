"""Read a home's tar to its very end, member by member, in the one order in which it is written: depth first.

A member stands in a folder that is still open, so it can stand below no link and nowhere twice, and what must be
remembered is one folder's names at each depth instead of all there are.
"""

from collections.abc import Iterator
from typing import Protocol, assert_never

from dpp.workspaces.ports import Beat
from dpp.workspaces.providers.tar_members import Kind, Member, names_of, next_member, refused, skip_padding
from dpp.workspaces.providers.zstd_stream import ZstdTape

PIECE_BYTES = 256 << 10
"""A file comes in pieces of so many bytes, the last one of what is left."""


class Sink(Protocol):
    """What becomes of the members."""

    def enter(self, folder: Member) -> None:
        """A folder begins."""
        ...

    def leave(self, folder: Member) -> None:
        """A folder has all that is in it; the innermost first."""
        ...

    def file(self, member: Member, pieces: Iterator[bytes]) -> None:
        """A file; the pieces must be taken to their end."""
        ...

    def symlink(self, member: Member) -> None:
        """A symlink."""
        ...

    def hard_link(self, member: Member, target: tuple[str, ...]) -> None:
        """Another name of a file that came before."""
        ...


class Discard:
    """A sink that keeps nothing."""

    def enter(self, folder: Member) -> None:
        """Nothing."""

    def leave(self, folder: Member) -> None:
        """Nothing."""

    def file(self, member: Member, pieces: Iterator[bytes]) -> None:  # noqa: ARG002
        """Take the pieces."""
        for _ in pieces:
            pass

    def symlink(self, member: Member) -> None:
        """Nothing."""

    def hard_link(self, member: Member, target: tuple[str, ...]) -> None:
        """Nothing."""


class _Order:
    """Which folders are open, which names each has, and which files may be linked to."""

    def __init__(self) -> None:
        self._open: list[tuple[Member, set[str]]] = []
        self._linked: set[tuple[str, ...]] = set()

    def admit(self, member: Member) -> list[Member]:
        """The folders that this member is no more in. Raises OperationFailed `ArchiveRefused`."""
        if not self._open:
            if member.names or member.kind is not Kind.FOLDER:
                raise refused("The archive does not begin with the home's own folder.")
            self._open.append((member, set()))
            return []
        if not member.names:
            raise refused("The home's own folder comes twice.")
        depth = len(member.names)
        if depth > len(self._open) or self._open[depth - 1][0].names != member.names[:-1]:
            raise refused("A member stands in no open folder.")
        left = [folder for folder, _ in reversed(self._open[depth:])]
        del self._open[depth:]
        siblings = self._open[-1][1]
        if member.names[-1] in siblings:
            raise refused("A name comes twice.")
        siblings.add(member.names[-1])
        if member.kind is Kind.FOLDER:
            self._open.append((member, set()))
        elif member.kind is Kind.FILE and member.is_linked:
            self._linked.add(member.names)
        return left

    def target_of(self, member: Member) -> tuple[str, ...]:
        """The file that a hard link is another name of. Raises OperationFailed `ArchiveRefused`."""
        target = names_of(member.target)
        if target not in self._linked:
            raise refused("A hard link leads to what is no file that came before.")
        return target

    def end(self) -> list[Member]:
        """The folders that are still open. Raises OperationFailed `ArchiveRefused` where the archive had no member."""
        if not self._open:
            raise refused("The archive does not begin with the home's own folder.")
        return [folder for folder, _ in reversed(self._open)]


def read_members(chunks: Iterator[bytes], sink: Sink, beat: Beat) -> None:
    """Read a compressed tar, and give the sink what it holds.

    What the sink was given is worth nothing unless this returns: only the end tells that all of it was whole. Raises
    OperationFailed `ArchiveCorrupted` or `ArchiveRefused`.
    """
    tape, order = ZstdTape(chunks, beat), _Order()
    while (member := next_member(tape)) is not None:
        beat()
        for folder in order.admit(member):
            sink.leave(folder)
        match member.kind:
            case Kind.FOLDER:
                sink.enter(member)
            case Kind.FILE:
                sink.file(member, _pieces(tape, member.size_bytes, beat))
            case Kind.SYMLINK:
                sink.symlink(member)
            case Kind.HARD_LINK:
                sink.hard_link(member, order.target_of(member))
            case _:
                assert_never(member.kind)
    for folder in order.end():
        sink.leave(folder)


def _pieces(tape: ZstdTape, size_bytes: int, beat: Beat) -> Iterator[bytes]:
    for start in range(0, size_bytes, PIECE_BYTES):
        beat()
        yield tape.exactly(min(PIECE_BYTES, size_bytes - start))
    skip_padding(tape, size_bytes)
