"""What a provider of workspaces offers, and how it says that it can't (003 §6, §7; WS-9 … WS-12).

Every call may be made twice, by two processes at once, or be cut off anywhere: the second call finds what the first
left and goes on from there. No call answers before what it was asked for stands, as far as it can know; what counts is
what is observed afterwards (WS-1).

A call that met an outage raises DependencyUnavailable: nothing is known, and nothing is held against the operation.
OperationFailed says that the operation itself can't be done.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol
from uuid import UUID

from dpp.workspaces.model import Archive

type Beat = Callable[[], None]
"""Called again and again during long work; raises where the work is no longer this process's (LeaseLost)."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was found of one resource. `reason` in CamelCase, as conditions have it."""

    ready: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume that exists: which generation, from which archive, and where its files are.

    `home` is a folder of this machine's, on its disk or on a file system that is mounted.
    """

    workspace_id: UUID
    generation: str
    restore_marker: str
    home: Path


@dataclass(frozen=True, slots=True)
class ArchiveObject:
    """An archive as S3 tells of it without reading it. `expires_at`: when the bucket's rules end it, where they do."""

    key: str
    size_bytes: int
    etag: str
    modified_at: datetime
    expires_at: datetime | None = None


class Containers(Protocol):
    """The containers, each named `ws-{workspace_id}` (WS-9)."""

    @property
    def infra(self) -> str:
        """What they run on, as the condition's name has it: `process`, `ecs`."""
        ...

    def observe(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Seen]:
        """What is really there, one entry for each id asked for; ready means that the container runs.

        Where there is nothing of it at all, neither running nor on its way, the reason is `ContainerNotFound`.
        """
        ...

    def start(self, workspace_id: UUID, volume: Volume) -> None:
        """Have a container run on this volume. Nothing happens where one does.

        Raises OperationFailed where the volume is not this generation any more, or the container can't be started.
        """
        ...

    def stop(self, workspace_id: UUID) -> None:
        """Have none run. Nothing happens where none does."""
        ...


class Volumes(Protocol):
    """The volumes, each named `ws-{workspace_id}-home` (WS-9)."""

    def observe(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Seen]:
        """What is really there, one entry for each id asked for; ready means that the volume exists."""
        ...

    def find(self, workspace_id: UUID) -> Volume | None:
        """The volume, or None where there is none. Raises OperationFailed `VolumeUnproven` for one without marker."""
        ...

    def prepare(self, workspace_id: UUID, generation: str) -> Path:
        """An empty folder for the home of a volume to be, a new one each time; what interrupted restores left is gone.

        It is the caller's alone: whoever prepares after it takes it away, and `install` then refuses it.
        """
        ...

    def install(self, workspace_id: UUID, generation: str, restore_marker: str, prepared: Path) -> Volume:
        """Make what was prepared the volume, in one step: before it none of it is seen, after it all of it.

        Raises OperationFailed `VolumeExists` where a volume of another generation stands, `VolumeUnproven` where one
        without marker does (a home is never covered by another), and `PreparedGone` where another process prepared
        after this one. A volume of this generation and marker is answered as it is.
        """
        ...

    def delete(self, workspace_id: UUID, generation: str | None) -> None:
        """Delete the volume of this generation, or of any for None. Nothing happens where there is none, or another.

        What was prepared for it and not installed goes, too. A volume without marker is of no generation. Raises
        OperationFailed `VolumeInUse` where a container may still write to it.
        """
        ...


class Archives(Protocol):
    """The archives in S3, as objects that are whole or not there, each with its proof beside it (WS-10)."""

    def write(self, key: str, chunks: Iterator[bytes], beat: Beat, replaces: str | None = None) -> Archive:
        """Store what comes, in constant memory; what it is called is not yet believed.

        Raises OperationFailed `ArchiveExists` where, by the end, an object stands under the key that has not the ETag
        `replaces`: no process that comes late covers what another has proved by then.
        """
        ...

    def read(self, key: str, beat: Beat) -> Iterator[bytes]:
        """The object's bytes, in pieces. Raises OperationFailed `ArchiveNotFound`."""
        ...

    def prove(self, archive: Archive) -> None:
        """Note beside the object that these bytes were read back and found whole."""
        ...

    def proof(self, key: str) -> Archive | None:
        """What was noted, or None."""
        ...

    def look(self, key: str) -> ArchiveObject | None:
        """The object as HEAD tells of it, or None where there is none."""
        ...

    def page(self, after: str | None, limit: int) -> Sequence[ArchiveObject]:
        """Objects in the order of their keys, proofs among them, beginning behind `after`."""
        ...

    def delete(self, keys: Sequence[str]) -> Sequence[str]:
        """Delete objects, 1,000 at most; the keys that S3 refused to delete."""
        ...


class HomeFormat(Protocol):
    """How a home becomes a stream and one a home; providers/home_tar.py is how."""

    def pack(self, home: Path, beat: Beat) -> Iterator[bytes]:
        """The home as a stream."""
        ...

    def unpack(self, chunks: Iterator[bytes], into: Path, beat: Beat) -> None:
        """The stream as a home, in an empty folder; all chunks are read."""
        ...

    def verify(self, chunks: Iterator[bytes], beat: Beat) -> None:
        """Read all of the stream, and raise OperationFailed where `unpack` would."""
        ...


@dataclass(frozen=True, slots=True)
class Provider:
    """All of them."""

    containers: Containers
    volumes: Volumes
    archives: Archives
    homes: HomeFormat
