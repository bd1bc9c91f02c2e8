"""EFS access points, each of which limits a container to one home on the file system."""

import hashlib
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING
from uuid import UUID

from dpp.platform.aws.clients import efs_client
from dpp.workspaces.errors import ProviderUnavailable
from dpp.workspaces.providers.aws_failures import code_of, provider_failures
from dpp.workspaces.providers.aws_settings import AwsWorkspaceSettings

if TYPE_CHECKING:
    from mypy_boto3_efs import EFSClient
    from mypy_boto3_efs.type_defs import AccessPointDescriptionTypeDef, TagTypeDef

GENERATION_TAG = "dpp:generation"

_REJECTED = "AccessPointRejected"
_PAGE = 100
_UNUSABLE_STATES = ("deleting", "deleted", "error")


class AccessPoints:
    """The access points of one file system, one per generation of a volume. The client is built at the first call.

    EFS allows at most 100 characters and four folders for an access point's root. The layout of DirectoryVolumes uses
    all of them, so its root must be the root of the file system.

    An access point creates no folder (it has no CreationInfo): without its volume it can't be mounted, so that a
    leftover access point does not recreate a home.
    """

    def __init__(self, settings: AwsWorkspaceSettings, client_factory: "Callable[[], EFSClient]" = efs_client) -> None:
        self._settings = settings
        self._client_factory = client_factory

    def ensure(self, workspace_id: UUID, generation: str, path: str) -> str:
        """Create this generation's access point if needed, and return its id. `path`: of the home on the file system.

        Repeated calls create one access point, since they have the same client token. Raises OperationFailed
        `AccessPointLimitReached`, and ProviderUnavailable while an access point is being deleted.
        """
        from botocore.exceptions import ClientError  # noqa: PLC0415

        with provider_failures(_REJECTED):
            try:
                created = self._client.create_access_point(
                    ClientToken=_token(workspace_id, path),
                    FileSystemId=self._settings.efs_id,
                    PosixUser={"Uid": self._settings.posix_uid, "Gid": self._settings.posix_gid},
                    RootDirectory={"Path": path},
                    Tags=[
                        {"Key": "Name", "Value": f"ws-{workspace_id}-home"},
                        {"Key": GENERATION_TAG, "Value": generation},
                    ],
                )
            except ClientError as error:
                if code_of(error) != "AccessPointAlreadyExists":
                    raise
                point = str(error.response.get("AccessPointId", ""))
                (found,) = self._client.describe_access_points(AccessPointId=point)["AccessPoints"]
                return self._mountable(found["AccessPointId"], found["LifeCycleState"])
        return self._mountable(created["AccessPointId"], created["LifeCycleState"])

    def find(self, workspace_id: UUID, generation: str | None) -> list[str]:
        """The ids of the access points of this generation, or of all generations if None.

        EFS has no lookup by token or tag, so this reads all access points of the file system, 100 per call.
        """
        with provider_failures(_REJECTED):
            return [point["AccessPointId"] for point in self._all() if _is_of(point, workspace_id, generation)]

    def delete(self, access_point_id: str) -> None:
        """Delete the access point. Does nothing if it doesn't exist."""
        from botocore.exceptions import ClientError  # noqa: PLC0415

        with provider_failures(_REJECTED):
            try:
                self._client.delete_access_point(AccessPointId=access_point_id)
            except ClientError as error:
                if code_of(error) != "AccessPointNotFound":
                    raise

    def _mountable(self, access_point_id: str, state: str) -> str:
        """The id if the access point is usable. A failed one is deleted, so that the next call creates another."""
        if state == "error":
            self.delete(access_point_id)
        if state in _UNUSABLE_STATES:
            raise ProviderUnavailable(f"the access point is {state}")
        return access_point_id

    def _all(self) -> "Iterator[AccessPointDescriptionTypeDef]":
        pages = self._client.get_paginator("describe_access_points")
        found = pages.paginate(FileSystemId=self._settings.efs_id, PaginationConfig={"PageSize": _PAGE})
        for page in found:
            yield from page["AccessPoints"]

    @cached_property
    def _client(self) -> "EFSClient":
        return self._client_factory()


def _token(workspace_id: UUID, path: str) -> str:
    """64 characters, the maximum: the workspace, by which its access points are found, and a hash of the folder."""
    return workspace_id.hex + hashlib.sha256(path.encode()).hexdigest()[:32]


def _is_of(point: "AccessPointDescriptionTypeDef", workspace_id: UUID, generation: str | None) -> bool:
    if not point.get("ClientToken", "").startswith(workspace_id.hex):
        return False
    tag: TagTypeDef = {"Key": GENERATION_TAG, "Value": generation or ""}
    return generation is None or tag in point.get("Tags", [])
