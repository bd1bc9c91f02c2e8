"""The ports that a provider of workspaces implements, and how they report failures (003 §6, §7; WS-9 … WS-12).

Every call may be repeated, made by two processes at once, or interrupted at any point: the next call continues from
what it finds. A call returns when its effect is in place, as far as the provider can know; the reconciler relies only
on later observations (WS-1).

A call that meets an outage raises DependencyUnavailable: its effect is unknown, and it does not count as a failure of
the operation. OperationFailed means that the operation itself can't be done.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol
from uuid import UUID

from dpp.workspaces.model import Archive

type Heartbeat = Callable[[], None]
"""Called repeatedly during long work; raises LeaseLost if another process has taken over the work."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The observed state of one resource. `reason`: CamelCase, as in conditions."""

    ready: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Volume:
    """An existing volume. `restore_marker`: the key of the archive it was restored from.

    `home`: a folder on this machine, on its disk or on a mounted file system.
    """

    workspace_id: UUID
    generation: str
    restore_marker: str
    home: Path


@dataclass(frozen=True, slots=True)
class ArchiveObject:
    """An object in the bucket of archives, without its content. `expires_at`: by the bucket's lifecycle rules."""

    key: str
    size_bytes: int
    etag: str
    modified_at: datetime
    expires_at: datetime | None = None


class Containers(Protocol):
    """The containers, each named `ws-{workspace_id}` (WS-9)."""

    @property
    def infra(self) -> str:
        """The infrastructure, as in the condition's name: `process` or `ecs`."""
        ...

    def observe(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Observation]:
        """One observation for each id; ready means that the container runs.

        The reason is `ContainerNotFound` only if nothing of the container exists, not even one that is starting.
        """
        ...

    def start(self, workspace_id: UUID, volume: Volume) -> None:
        """Start a container on this volume. Does nothing if one runs already.

        Raises OperationFailed if the volume is no longer of this generation, or the container can't be started.
        """
        ...

    def stop(self, workspace_id: UUID) -> None:
        """Stop the container. Does nothing if there is none."""
        ...


class Volumes(Protocol):
    """The volumes, each named `ws-{workspace_id}-home` (WS-9)."""

    def observe(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Observation]:
        """One observation for each id; ready means that the volume exists."""
        ...

    def find(self, workspace_id: UUID) -> Volume | None:
        """The volume, or None. Raises OperationFailed `VolumeUnproven` for a volume without a marker."""
        ...

    def prepare(self, workspace_id: UUID, generation: str) -> Path:
        """Create an empty folder for the home of a new volume, and remove leftovers of interrupted restores.

        Each call returns a new folder. A later call removes this one, and `install` then refuses it.
        """
        ...

    def install(self, workspace_id: UUID, generation: str, restore_marker: str, prepared: Path) -> Volume:
        """Turn the prepared folder into the volume, atomically.

        Returns the existing volume if it has this generation and marker. Raises OperationFailed `VolumeExists` if a
        volume of another generation exists, `VolumeUnproven` if one without a marker does (a home is never replaced),
        and `PreparedGone` if another process called `prepare` after this one.
        """
        ...

    def delete(self, workspace_id: UUID, generation: str | None) -> None:
        """Delete the volume of this generation, or of any if None. Does nothing if it does not exist.

        Also removes folders that were prepared for it and not installed. A volume without a marker has no generation.
        Raises OperationFailed `VolumeInUse` if a container may still write to it.
        """
        ...


class Archives(Protocol):
    """The archives in S3: objects that are complete or absent, each with its proof beside it (WS-10)."""

    def write(self, key: str, chunks: Iterator[bytes], heartbeat: Heartbeat, replaces: str | None = None) -> Archive:
        """Store the chunks, in constant memory. The archive is not proved yet.

        Raises OperationFailed `ArchiveExists` if, at the end, the key holds an object whose ETag is not `replaces`, so
        that a delayed process never overwrites an archive that another has proved.
        """
        ...

    def read(self, key: str, heartbeat: Heartbeat) -> Iterator[bytes]:
        """The object's bytes, in chunks. Raises OperationFailed `ArchiveNotFound`."""
        ...

    def write_proof(self, archive: Archive) -> None:
        """Store the proof beside the object: these bytes were read back completely."""
        ...

    def read_proof(self, key: str) -> Archive | None:
        """The stored proof, or None."""
        ...

    def head(self, key: str) -> ArchiveObject | None:
        """The object, without its content (S3 HEAD), or None."""
        ...

    def page(self, after: str | None, limit: int) -> Sequence[ArchiveObject]:
        """Objects in the order of their keys, including proofs, starting after the key `after`."""
        ...

    def delete(self, keys: Sequence[str]) -> Sequence[str]:
        """Delete up to 1,000 objects, and return the keys that S3 refused to delete."""
        ...


class HomeFormat(Protocol):
    """Packs a home into a stream and back; implemented by providers/home_tar.py."""

    def pack(self, home: Path, heartbeat: Heartbeat) -> Iterator[bytes]:
        """Pack the home into a stream."""
        ...

    def unpack(self, chunks: Iterator[bytes], into: Path, heartbeat: Heartbeat) -> None:
        """Unpack the stream into an empty folder; reads all chunks."""
        ...

    def verify(self, chunks: Iterator[bytes], heartbeat: Heartbeat) -> None:
        """Read the whole stream, and raise OperationFailed if `unpack` would."""
        ...


@dataclass(frozen=True, slots=True)
class Provider:
    """The implementations of all ports."""

    containers: Containers
    volumes: Volumes
    archives: Archives
    homes: HomeFormat
