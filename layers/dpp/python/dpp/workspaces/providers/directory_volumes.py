"""Volumes as folders below one folder, on a local disk or on a file system that is mounted, such as EFS (WS-9).

    ws-{id}-home                      the volume: a symlink to one of the following
    generations/{id}/{generation}.{token}/home/         its files
    generations/{id}/{generation}.{token}/marker.json   what it was made from, written before it is linked
    locks/{id}                        held (flock) while the link or what it leads to changes
    trash/{id}.{token}                what was unlinked and is being removed

A folder that the link doesn't lead to is no volume, however much is in it: an interrupted restore or deletion leaves
such a one, and the workspace's next `prepare` or `delete` takes it away.
"""

import errno
import fcntl
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID, uuid4

from dpp.workspaces.errors import OperationFailed, ProviderUnavailable
from dpp.workspaces.ports import Seen, Volume
from dpp.workspaces.providers.disk import FOLDER, failing_as, flush, remove, sync_folder, write_durably

_GENERATION = re.compile(r"[A-Za-z0-9_-]{1,100}")
_GENERATIONS, _LOCKS, _TRASH = "generations", "locks", "trash"
_MARKER, _HOME, _LINK = "marker.json", "home", "link"
# So that a home's path has 100 characters where the generation is a UUID, as many as EFS takes for an access point.
_TOKEN = 8
_FOREIGN = "+"  # no generation is called so

_PROVISIONED = Seen(ready=True, reason="VolumeProvisioned", message="Volume is ready")
_NOT_FOUND = Seen(ready=False, reason="VolumeNotFound", message="There is no volume")


class DirectoryVolumes:
    """The port Volumes. `in_use`: whether a container that may write to the workspace's volume runs.

    Every call raises ProviderUnavailable where the folder was not set up: a file system that is not mounted is not a
    place without volumes.
    """

    def __init__(self, root: Path, in_use: Callable[[UUID], bool]) -> None:
        self._root = root
        self._in_use = in_use

    def set_up(self) -> None:
        """Make of a folder a place for volumes: once, by who provides it, and never by who merely uses it."""
        for name in (_LOCKS, _TRASH, _GENERATIONS):
            (self._root / name).mkdir(parents=True, exist_ok=True)

    def observe(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Seen]:
        """Which volumes exist, with or without marker."""
        try:
            self._check_root()
            return {one: _PROVISIONED if self._exists(one) else _NOT_FOUND for one in workspace_ids}
        except OSError as cause:
            raise ProviderUnavailable(type(cause).__name__) from cause

    def find(self, workspace_id: UUID) -> Volume | None:
        """The volume. Raises OperationFailed `VolumeUnproven`, terminal."""
        with failing_as("VolumeUnreadable"):
            self._check_root()
            while True:
                folder = self._linked_folder(workspace_id)
                if folder is None:
                    return None
                volume = _volume_in(folder, workspace_id)
                if volume is not None:
                    return volume
                if folder == self._linked_folder(workspace_id):  # and it was not deleted while it was read
                    raise _unproven()

    def prepare(self, workspace_id: UUID, generation: str) -> Path:
        """An empty folder of the caller's own."""
        if not _GENERATION.fullmatch(generation):
            raise ValueError("a generation is letters, digits, hyphens and underscores")
        with failing_as("VolumeUnwritable"):
            with self._locked(workspace_id):
                self._discard_unlinked(workspace_id, None)
                home = self._generations_of(workspace_id) / f"{generation}.{uuid4().hex[:_TOKEN]}" / _HOME
                home.mkdir(parents=True)
            self._empty_trash(workspace_id)
        return home

    def install(self, workspace_id: UUID, generation: str, restore_marker: str, prepared: Path) -> Volume:
        """Link what was prepared, once all of it is on the disk."""
        folder = prepared.parent
        if folder.parent != self._generations_of(workspace_id) or folder.stem != generation:
            raise ValueError("this was not prepared for this volume")
        with failing_as("VolumeUnwritable"):
            with suppress(FileNotFoundError):  # taken away: found below, where it can't be any more
                flush(prepared)
            with self._locked(workspace_id):
                standing = self.find(workspace_id)
                if standing is not None:
                    if (standing.generation, standing.restore_marker) == (generation, restore_marker):
                        return standing
                    raise OperationFailed("VolumeExists", "A volume of another restore stands already.")
                if not prepared.is_dir():
                    raise OperationFailed("PreparedGone", "Another process prepared this volume meanwhile.")
                marker = {"restore_marker": restore_marker, "generation": generation}
                write_durably(folder / _MARKER, json.dumps(marker).encode())
                self._link(workspace_id, folder)
        return Volume(workspace_id, generation, restore_marker, prepared)

    def delete(self, workspace_id: UUID, generation: str | None) -> None:
        """Unlink, then remove.

        Who starts a container looks for the volume once more after starting it, and this looks for a container once
        more after unlinking: one of the two sees the other.
        """
        with failing_as("VolumeUnwritable"):
            with self._locked(workspace_id):
                if self._exists(workspace_id):
                    if generation is not None and generation != self._generation_of(workspace_id):
                        return
                    self._unlink(workspace_id)
                self._discard_unlinked(workspace_id, generation)
                with suppress(OSError):  # not there, or of another generation
                    self._generations_of(workspace_id).rmdir()
            self._empty_trash(workspace_id)

    def _check_root(self) -> None:
        if not (self._root / _GENERATIONS).is_dir():
            raise ProviderUnavailable("its folder is not set up, or not mounted")

    @contextmanager
    def _locked(self, workspace_id: UUID) -> Iterator[None]:
        self._check_root()
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        lock_fd = os.open(self._root / _LOCKS / str(workspace_id), flags, 0o600)
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock_fd)

    def _volume(self, workspace_id: UUID) -> Path:
        return self._root / f"ws-{workspace_id}-home"

    def _generations_of(self, workspace_id: UUID) -> Path:
        return self._root / _GENERATIONS / str(workspace_id)

    def _exists(self, workspace_id: UUID) -> bool:
        try:
            self._volume(workspace_id).lstat()
        except FileNotFoundError:
            return False
        return True

    def _linked_folder(self, workspace_id: UUID) -> Path | None:
        """Where the link leads, or None where there is none. Raises `VolumeUnproven` for what we did not link."""
        try:
            target = self._volume(workspace_id).readlink()
        except FileNotFoundError:
            return None
        except OSError as cause:
            if cause.errno != errno.EINVAL:  # what it says of a thing that is no link
                raise
            raise _unproven() from cause
        folder = self._root / target
        if folder.parent != self._generations_of(workspace_id):
            raise _unproven()
        return folder

    def _generation_of(self, workspace_id: UUID) -> str | None:
        """None for a volume without marker, which is of none."""
        try:
            standing = self.find(workspace_id)
        except OperationFailed as failed:
            if failed.reason != "VolumeUnproven":
                raise
            return None
        return None if standing is None else standing.generation

    def _link(self, workspace_id: UUID, folder: Path) -> None:
        sync_folder(folder.parent)
        link = folder / _LINK  # until it is moved, gone with the folder if this process is
        link.unlink(missing_ok=True)
        link.symlink_to(folder.relative_to(self._root))
        link.rename(self._volume(workspace_id))
        sync_folder(self._root)

    def _unlink(self, workspace_id: UUID) -> None:
        self._refuse_use(workspace_id)
        volume, generations = self._volume(workspace_id), self._generations_of(workspace_id)
        generations.mkdir(exist_ok=True)
        aside = generations / f"{self._generation_of(workspace_id) or _FOREIGN}.{uuid4().hex}"
        volume.rename(aside)
        try:
            self._refuse_use(workspace_id)
        except BaseException:
            aside.rename(volume)
            raise
        sync_folder(self._root)

    def _refuse_use(self, workspace_id: UUID) -> None:
        if self._in_use(workspace_id):
            raise OperationFailed("VolumeInUse", "A container that may write to the volume runs.")

    def _discard_unlinked(self, workspace_id: UUID, generation: str | None) -> None:
        """Move to the trash what the link doesn't lead to, of one generation or of all."""
        generations, linked = self._generations_of(workspace_id), None
        with suppress(OperationFailed):  # a volume that we did not link leads to nothing of ours
            linked = self._linked_folder(workspace_id)
        if not generations.is_dir():
            return
        for folder in [*generations.iterdir()]:
            if folder != linked and generation in (None, folder.stem):
                folder.rename(self._root / _TRASH / f"{workspace_id}.{uuid4().hex}")

    def _empty_trash(self, workspace_id: UUID) -> None:
        """Remove what was unlinked; not under the lock, since that may take long and nobody finds it any more."""
        trash_fd = os.open(self._root / _TRASH, FOLDER)
        try:
            for left in (self._root / _TRASH).glob(f"{workspace_id}.*"):
                remove(trash_fd, left.name)
        finally:
            os.close(trash_fd)


def _volume_in(folder: Path, workspace_id: UUID) -> Volume | None:
    """The volume in a folder, or None where it has no marker that can be read, or no home."""
    try:
        marker = json.loads((folder / _MARKER).read_bytes())
        home = folder / _HOME
        volume = Volume(workspace_id, str(marker["generation"]), str(marker["restore_marker"]), home)
        is_whole = stat.S_ISDIR(home.lstat().st_mode)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return volume if is_whole else None


def _unproven() -> OperationFailed:
    message = "Something stands where the volume belongs, and nothing says what it was made from."
    return OperationFailed("VolumeUnproven", message, is_terminal=True)
