"""Volumes as folders below a root folder, on a local disk or on a mounted file system such as EFS (WS-9).

    ws-{id}-home                      the volume: a symlink to one of the following folders
    generations/{id}/{generation}.{token}/home/         its files
    generations/{id}/{generation}.{token}/marker.json   its archive, written before the folder is linked
    locks/{id}                        locked (flock) while the link or its target changes
    trash/{id}.{token}                unlinked, and being removed

A folder that is not linked is no volume, whatever it contains: it is a leftover of an interrupted restore or deletion,
and the workspace's next `prepare` or `delete` removes it.
"""

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from uuid import UUID, uuid4

from dpp.workspaces.errors import OperationFailed, ProviderUnavailable
from dpp.workspaces.ports import Observation, Volume
from dpp.workspaces.providers.disk import FOLDER, failing_as, flush, locked, remove, sync_folder, write_durably

_GENERATION = re.compile(r"[A-Za-z0-9_-]{1,100}")
_GENERATIONS, _LOCKS, _TRASH = "generations", "locks", "trash"
_MARKER, _HOME, _LINK = "marker.json", "home", "link"
# With a UUID as generation, a home's path then has 100 characters, the limit of EFS for an access point.
_TOKEN = 8
_FOREIGN = "+"  # not a valid generation

_PROVISIONED = Observation(ready=True, reason="VolumeProvisioned", message="Volume is ready")
_NOT_FOUND = Observation(ready=False, reason="VolumeNotFound", message="There is no volume")


class DirectoryVolumes:
    """The port Volumes. `in_use`: whether a container that may write to the workspace's volume runs.

    Every call raises ProviderUnavailable if the root was not set up: an unmounted file system must not look like one
    without volumes.
    """

    def __init__(self, root: Path, in_use: Callable[[UUID], bool]) -> None:
        self._root = root
        self._in_use = in_use

    def set_up(self) -> None:
        """Create the folders below the root; called once, when the provider is built."""
        for name in (_LOCKS, _TRASH, _GENERATIONS):
            (self._root / name).mkdir(parents=True, exist_ok=True)

    def observe(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Observation]:
        """One observation for each id; a volume without a marker exists, too."""
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
                if folder == self._linked_folder(workspace_id):  # it was not deleted while it was read
                    raise _unproven()

    def prepare(self, workspace_id: UUID, generation: str) -> Path:
        """Create an empty folder for a new volume."""
        if not _GENERATION.fullmatch(generation):
            raise ValueError("a generation consists of letters, digits, hyphens and underscores")
        with failing_as("VolumeUnwritable"):
            with self._locked(workspace_id):
                self._discard_unlinked(workspace_id, None)
                home = self._generations_of(workspace_id) / f"{generation}.{uuid4().hex[:_TOKEN]}" / _HOME
                home.mkdir(parents=True)
            self._empty_trash(workspace_id)
        return home

    def install(self, workspace_id: UUID, generation: str, restore_marker: str, prepared: Path) -> Volume:
        """Link the prepared folder, once all of it is on disk."""
        folder = prepared.parent
        if folder.parent != self._generations_of(workspace_id) or folder.stem != generation:
            raise ValueError("the folder was not prepared for this volume")
        with failing_as("VolumeUnwritable"):
            with suppress(FileNotFoundError):  # removed meanwhile, which is detected below, under the lock
                flush(prepared)
            with self._locked(workspace_id):
                existing = self.find(workspace_id)
                if existing is not None:
                    if (existing.generation, existing.restore_marker) == (generation, restore_marker):
                        return existing
                    raise OperationFailed("VolumeExists", "A volume of another restore already exists.")
                if not prepared.is_dir():
                    raise OperationFailed("PreparedGone", "Another process has prepared this volume meanwhile.")
                marker = {"restore_marker": restore_marker, "generation": generation}
                write_durably(folder / _MARKER, json.dumps(marker).encode())
                self._link(workspace_id, folder)
        return Volume(workspace_id, generation, restore_marker, prepared)

    def delete(self, workspace_id: UUID, generation: str | None) -> None:
        """Unlink the volume, then remove it.

        This checks for a container again after unlinking, and a start checks for the volume again after starting: one
        of two concurrent calls detects the other.
        """
        with failing_as("VolumeUnwritable"):
            with self._locked(workspace_id):
                if self._exists(workspace_id):
                    if generation is not None and generation != self._generation_of(workspace_id):
                        return
                    self._unlink(workspace_id)
                self._discard_unlinked(workspace_id, generation)
                with suppress(OSError):  # missing, or has another generation
                    self._generations_of(workspace_id).rmdir()
            self._empty_trash(workspace_id)

    def _check_root(self) -> None:
        if not (self._root / _GENERATIONS).is_dir():
            raise ProviderUnavailable("the folder of volumes is not set up, or not mounted")

    def _locked(self, workspace_id: UUID) -> AbstractContextManager[None]:
        self._check_root()
        return locked(self._root / _LOCKS / str(workspace_id))

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
        """The target of the link, or None if there is none. Raises `VolumeUnproven` for anything but such a link."""
        try:
            target = self._volume(workspace_id).readlink()
        except FileNotFoundError:
            return None
        except OSError as cause:
            if cause.errno != errno.EINVAL:  # not a symlink
                raise
            raise _unproven() from cause
        folder = self._root / target
        if folder.parent != self._generations_of(workspace_id):
            raise _unproven()
        return folder

    def _generation_of(self, workspace_id: UUID) -> str | None:
        """The volume's generation; None for a volume without a marker."""
        try:
            existing = self.find(workspace_id)
        except OperationFailed as failed:
            if failed.reason != "VolumeUnproven":
                raise
            return None
        return None if existing is None else existing.generation

    def _link(self, workspace_id: UUID, folder: Path) -> None:
        sync_folder(folder.parent)
        link = folder / _LINK  # if this process dies before the rename, the link is removed with the folder
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
            raise OperationFailed("VolumeInUse", "A container that may write to the volume is running.")

    def _discard_unlinked(self, workspace_id: UUID, generation: str | None) -> None:
        """Move folders that are not linked to the trash, of one generation or of all."""
        generations, linked = self._generations_of(workspace_id), None
        with suppress(OperationFailed):  # a foreign volume does not link to these folders
            linked = self._linked_folder(workspace_id)
        if not generations.is_dir():
            return
        for folder in [*generations.iterdir()]:
            if folder != linked and generation in (None, folder.stem):
                folder.rename(self._root / _TRASH / f"{workspace_id}.{uuid4().hex}")

    def _empty_trash(self, workspace_id: UUID) -> None:
        """Remove unlinked folders. Without the lock: this may take long, and nothing else uses them."""
        trash_fd = os.open(self._root / _TRASH, FOLDER)
        try:
            for left in (self._root / _TRASH).glob(f"{workspace_id}.*"):
                remove(trash_fd, left.name)
        finally:
            os.close(trash_fd)


def _volume_in(folder: Path, workspace_id: UUID) -> Volume | None:
    """The volume in a folder, or None if it has no readable marker or no home."""
    try:
        marker = json.loads((folder / _MARKER).read_bytes())
        home = folder / _HOME
        volume = Volume(workspace_id, str(marker["generation"]), str(marker["restore_marker"]), home)
        is_whole = stat.S_ISDIR(home.lstat().st_mode)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return volume if is_whole else None


def _unproven() -> OperationFailed:
    message = "Something exists in place of the volume, without a marker that names its archive."
    return OperationFailed("VolumeUnproven", message, is_terminal=True)
