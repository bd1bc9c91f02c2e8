"""Volumes on EFS: folders, and the access points by which containers mount them."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from dpp.workspaces.ports import Seen, Volume, Volumes
from dpp.workspaces.providers.access_points import AccessPoints


class EfsVolumes:
    """Any `Volumes` whose folders stand on the file system, and their access points along with them.

    On a delete the access points go first, then the folder. What makes the reconciler delete once more, after a crash
    between the two, is that the volume is still observed: so nothing may be left to do when it isn't. The other way
    round a crash would leave an access point that nobody asks after ever again, and a file system has room for a
    limited number. A volume without an access point is whole: the next start makes it anew.

    No access point is taken from under a container: while one may write, the volumes underneath refuse.
    """

    def __init__(
        self,
        volumes: Volumes,
        access_points: AccessPoints,
        in_use: Callable[[UUID], bool],
        *,
        owner: tuple[int, int],
    ) -> None:
        """`owner`: uid and gid as which containers write, who therefore owns each home."""
        self._volumes = volumes
        self._access_points = access_points
        self._in_use = in_use
        self._owner = owner

    def observe(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Seen]:
        """As the volumes underneath have it."""
        return self._volumes.observe(workspace_ids)

    def find(self, workspace_id: UUID) -> Volume | None:
        """As the volumes underneath have it."""
        return self._volumes.find(workspace_id)

    def prepare(self, workspace_id: UUID, generation: str) -> Path:
        """As the volumes underneath have it."""
        return self._volumes.prepare(workspace_id, generation)

    def install(self, workspace_id: UUID, generation: str, restore_marker: str, prepared: Path) -> Volume:
        """The folder, given to whom containers write as; the access point is made by the first start.

        Given when all was unpacked: an archive sets the folder's owner, too, and root's could not be written to.
        """
        with suppress(FileNotFoundError):  # taken away meanwhile, which the volumes underneath refuse
            os.chown(prepared, *self._owner)
        return self._volumes.install(workspace_id, generation, restore_marker, prepared)

    def delete(self, workspace_id: UUID, generation: str | None) -> None:
        """The access points of this generation, or of all for None, and the volume.

        Raises OperationFailed `VolumeInUse` where a container may still write to it, and leaves both then.
        """
        points = self._access_points.find(workspace_id, generation)
        held = bool(points) and self._in_use(workspace_id)
        if not held:
            self._delete(points)
        self._volumes.delete(workspace_id, generation)
        if held:  # No refusal: either the container is gone by now, or these are of a generation that no longer stands.
            self._delete(points)

    def _delete(self, points: Sequence[str]) -> None:
        for point in points:
            self._access_points.delete(point)
