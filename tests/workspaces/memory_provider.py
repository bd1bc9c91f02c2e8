"""Containers, volumes and archives in memory: fast, and with faults at any call."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from dpp.workspaces.errors import OperationFailed
from dpp.workspaces.model import Archive
from dpp.workspaces.ports import ArchiveObject, Heartbeat, Observation, Provider, Volume, Volumes
from dpp.workspaces.providers.s3_archives import proof_key_of

_DIGEST_BYTES = 32
_CHUNK_BYTES = 64


def _nothing(call: str) -> None:
    pass


@dataclass(slots=True)
class Faults:
    """Hooks before and after every call, such as `volumes.install`; each may raise.

    Raising before it, the call did nothing; raising after it, it did all and the caller does not know.
    """

    before: Callable[[str], None] = _nothing
    after: Callable[[str], None] = _nothing

    def fail(self, failing: str, error: BaseException | type[BaseException], *, after: bool = False) -> None:
        """Raise before or after each call of this name from now on."""

        def hook(call: str) -> None:
            if call == failing:
                raise error

        setattr(self, "after" if after else "before", hook)

    @contextmanager
    def around(self, call: str) -> Iterator[None]:
        """Run a call between the two hooks."""
        self.before(call)
        yield
        self.after(call)


class MemoryHomes:
    """A HomeFormat whose homes are bytes; the stream is their checksum and the bytes."""

    def __init__(self) -> None:
        self.contents: dict[Path, bytes] = {}

    def pack(self, home: Path, heartbeat: Heartbeat) -> Iterator[bytes]:
        """Pack the home; an unknown folder is an empty home."""
        content = self.contents.get(home, b"")
        yield hashlib.sha256(content).digest()
        for start in range(0, len(content), _CHUNK_BYTES):
            heartbeat()
            yield content[start : start + _CHUNK_BYTES]

    def unpack(self, chunks: Iterator[bytes], into: Path, heartbeat: Heartbeat) -> None:
        """Unpack piece by piece, so that an interruption leaves half a home."""
        for piece in self._pieces(chunks, heartbeat):
            if into not in self.contents:
                raise OperationFailed("HomeUnwritable", "Another process took the folder away.")
            self.contents[into] += piece

    def verify(self, chunks: Iterator[bytes], heartbeat: Heartbeat) -> None:
        """Read the pieces."""
        for _ in self._pieces(chunks, heartbeat):
            pass

    def _pieces(self, chunks: Iterator[bytes], heartbeat: Heartbeat) -> Iterator[bytes]:
        head, digest = b"", hashlib.sha256()
        for chunk in chunks:
            heartbeat()
            missing = _DIGEST_BYTES - len(head)
            head += chunk[:missing]
            digest.update(chunk[missing:])
            yield chunk[missing:]
        if head != digest.digest():
            raise OperationFailed("ArchiveCorrupted", "The sum is another.", is_terminal=True)


class MemoryVolumes:
    """The port Volumes. `volumes`: the existing ones; None for a foreign one."""

    def __init__(self, homes: MemoryHomes, in_use: Callable[[UUID], bool], faults: Faults) -> None:
        self.volumes: dict[UUID, Volume | None] = {}
        self._homes = homes
        self._in_use = in_use
        self._faults = faults
        self._prepared: dict[UUID, Path] = {}
        self._count = 0

    def observe(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Observation]:
        with self._faults.around("volumes.observe"):
            return {
                one: Observation(ready=True, reason="VolumeProvisioned", message="Volume is ready")
                if one in self.volumes
                else Observation(ready=False, reason="VolumeNotFound", message="There is no volume")
                for one in workspace_ids
            }

    def find(self, workspace_id: UUID) -> Volume | None:
        with self._faults.around("volumes.find"):
            return self._found(workspace_id)

    def prepare(self, workspace_id: UUID, generation: str) -> Path:
        """A path that does not exist, with contents in MemoryHomes."""
        with self._faults.around("volumes.prepare"):
            self._forget(workspace_id)
            self._count += 1
            home = Path("/memory", str(workspace_id), f"{generation}.{self._count}")
            self._prepared[workspace_id] = home
            self._homes.contents[home] = b""
            return home

    def install(self, workspace_id: UUID, generation: str, restore_marker: str, prepared: Path) -> Volume:
        with self._faults.around("volumes.install"):
            existing = self._found(workspace_id)
            if existing is not None:
                if (existing.generation, existing.restore_marker) == (generation, restore_marker):
                    return existing
                raise OperationFailed("VolumeExists", "A volume of another restore stands already.")
            if self._prepared.get(workspace_id) != prepared:
                raise OperationFailed("PreparedGone", "Another process prepared this volume meanwhile.")
            del self._prepared[workspace_id]
            volume = Volume(workspace_id, generation, restore_marker, prepared)
            self.volumes[workspace_id] = volume
            return volume

    def delete(self, workspace_id: UUID, generation: str | None) -> None:
        with self._faults.around("volumes.delete"):
            volume = self.volumes.get(workspace_id)
            if workspace_id in self.volumes:
                if generation is not None and (volume is None or volume.generation != generation):
                    return
                if self._in_use(workspace_id):
                    raise OperationFailed("VolumeInUse", "A container that may write to the volume runs.")
                del self.volumes[workspace_id]
                if volume is not None:
                    del self._homes.contents[volume.home]
            prepared = self._prepared.get(workspace_id)
            if prepared is not None and generation in (None, prepared.stem):
                self._forget(workspace_id)

    def _found(self, workspace_id: UUID) -> Volume | None:
        volume = self.volumes.get(workspace_id)
        if volume is None and workspace_id in self.volumes:
            raise OperationFailed("VolumeUnproven", "Nothing says what it was made from.", is_terminal=True)
        return volume

    def _forget(self, workspace_id: UUID) -> None:
        left = self._prepared.pop(workspace_id, None)
        if left is not None:
            self._homes.contents.pop(left, None)


class MemoryContainers:
    """The port Containers. `running`: the volumes of running containers."""

    infra = "memory"

    def __init__(self, running: dict[UUID, Volume], volumes: Volumes, faults: Faults) -> None:
        self.running = running
        self._volumes = volumes
        self._faults = faults

    def observe(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Observation]:
        with self._faults.around("containers.observe"):
            return {
                one: Observation(ready=True, reason="ContainerRunning", message="Container is running")
                if one in self.running
                else Observation(ready=False, reason="ContainerNotFound", message="There is no container")
                for one in workspace_ids
            }

    def start(self, workspace_id: UUID, volume: Volume) -> None:
        with self._faults.around("containers.start"):
            if workspace_id in self.running:
                return
            existing = self._volumes.find(workspace_id)
            if existing is None or existing.generation != volume.generation:
                raise OperationFailed("VolumeGone", "The volume is not the one that it was to run on.")
            self.running[workspace_id] = existing

    def stop(self, workspace_id: UUID) -> None:
        with self._faults.around("containers.stop"):
            self.running.pop(workspace_id, None)


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class StoredObject:
    """An object. `proof`: its content, if it is a proof."""

    content: bytes
    modified_at: datetime
    proof: Archive | None = None
    expires_at: datetime | None = None

    @property
    def etag(self) -> str:
        """The same for the same bytes."""
        return hashlib.sha256(self.content).hexdigest()[:32]


@dataclass(slots=True)
class MemoryArchives:
    """The port Archives. `now`: the time of new objects; `undeletable`: keys that S3 refuses to delete."""

    faults: Faults
    now: Callable[[], datetime] = _now
    objects: dict[str, StoredObject] = field(default_factory=dict)
    undeletable: set[str] = field(default_factory=set)

    def write(self, key: str, chunks: Iterator[bytes], heartbeat: Heartbeat, replaces: str | None = None) -> Archive:
        """Store them, all or nothing."""
        with self.faults.around("archives.write"):
            content = b"".join(chunks)
            heartbeat()
            if key in self.objects and self.objects[key].etag != replaces:
                raise OperationFailed("ArchiveExists", "An object stands under the archive's key.")
            self.objects[key] = StoredObject(content, self.now())
            return Archive(key, len(content), hashlib.sha256(content).hexdigest(), self.objects[key].etag)

    def read(self, key: str, heartbeat: Heartbeat) -> Iterator[bytes]:
        with self.faults.around("archives.read"):
            if key not in self.objects:
                raise OperationFailed("ArchiveNotFound", "There is no such object.", is_terminal=True)
            content = self.objects[key].content
        for start in range(0, len(content), _CHUNK_BYTES):
            self.faults.before("archives.read.chunk")
            heartbeat()
            yield content[start : start + _CHUNK_BYTES]

    def write_proof(self, archive: Archive) -> None:
        with self.faults.around("archives.write_proof"):
            stored = StoredObject(repr(archive).encode(), self.now(), proof=archive)
            self.objects[proof_key_of(archive.key)] = stored

    def read_proof(self, key: str) -> Archive | None:
        with self.faults.around("archives.read_proof"):
            stored = self.objects.get(proof_key_of(key))
            return stored.proof if stored is not None else None

    def head(self, key: str) -> ArchiveObject | None:
        with self.faults.around("archives.head"):
            stored = self.objects.get(key)
            return None if stored is None else self._object(key, stored)

    def page(self, after: str | None, limit: int) -> Sequence[ArchiveObject]:
        with self.faults.around("archives.page"):
            keys = sorted(key for key in self.objects if after is None or key > after)[:limit]
            return [self._object(key, self.objects[key]) for key in keys]

    def delete(self, keys: Sequence[str]) -> Sequence[str]:
        if len(keys) > 1000:
            raise ValueError("at most 1000 at once")
        with self.faults.around("archives.delete"):
            for key in set(keys) - self.undeletable:
                self.objects.pop(key, None)
            return [key for key in keys if key in self.undeletable]

    def _object(self, key: str, stored: StoredObject) -> ArchiveObject:
        return ArchiveObject(key, len(stored.content), stored.etag, stored.modified_at, stored.expires_at)


class MemoryProvider:
    """All ports; `faults` may be changed at any time."""

    def __init__(self, now: Callable[[], datetime] = _now) -> None:
        self.faults = Faults()
        self.homes = MemoryHomes()
        running: dict[UUID, Volume] = {}
        self.volumes = MemoryVolumes(self.homes, running.__contains__, self.faults)
        self.containers = MemoryContainers(running, self.volumes, self.faults)
        self.archives = MemoryArchives(self.faults, now)


def provider_of(fleet: MemoryProvider) -> Provider:
    return Provider(fleet.containers, fleet.volumes, fleet.archives, fleet.homes)
