"""Volumes on EFS: folders, and the access points through which containers mount them."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from dpp.workspaces.ports import Observation, Volume, Volumes
from dpp.workspaces.providers.access_points import AccessPoints


class EfsVolumes:
    """The port Volumes, for `volumes` on the file system, together with their access points.

    A deletion removes the access points first, then the folder. After a crash in between, the volume is still observed,
    so the reconciler repeats the deletion. In the other order, a crash would leave an access point that is never
    removed, and their number is limited. A volume without an access point is intact: the next start creates one.

    No access point of a container that may write is removed: the underlying volumes refuse that deletion.
    """

    def __init__(
        self, volumes: Volumes, access_points: AccessPoints, in_use: Callable[[UUID], bool], *, owner: tuple[int, int]
    ) -> None:
        """`owner`: uid and gid with which containers write, and which own each home."""
        self._volumes = volumes
        self._access_points = access_points
        self._in_use = in_use
        self._owner = owner

    def observe(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Observation]:
        """As the underlying volumes."""
        return self._volumes.observe(workspace_ids)

    def find(self, workspace_id: UUID) -> Volume | None:
        """As the underlying volumes."""
        return self._volumes.find(workspace_id)

    def prepare(self, workspace_id: UUID, generation: str) -> Path:
        """As the underlying volumes."""
        return self._volumes.prepare(workspace_id, generation)

    def install(self, workspace_id: UUID, generation: str, restore_marker: str, prepared: Path) -> Volume:
        """Install the volume, owned by `owner`; the first start creates the access point.

        The owner is set after unpacking, since an archive sets it too, and containers can't write to a home of root.
        """
        with suppress(FileNotFoundError):  # removed meanwhile, which the underlying volumes detect
            os.chown(prepared, *self._owner)
        return self._volumes.install(workspace_id, generation, restore_marker, prepared)

    def delete(self, workspace_id: UUID, generation: str | None) -> None:
        """Delete the volume with the access points of this generation, or of all if None.

        Raises OperationFailed `VolumeInUse` if a container may still write to it, and then deletes neither.
        """
        points = self._access_points.find(workspace_id, generation)
        held = bool(points) and self._in_use(workspace_id)
        if not held:
            self._delete(points)
        self._volumes.delete(workspace_id, generation)
        if held:  # not refused: the container has ended meanwhile, or the points are of an older generation
            self._delete(points)

    def _delete(self, points: Sequence[str]) -> None:
        for point in points:
            self._access_points.delete(point)
