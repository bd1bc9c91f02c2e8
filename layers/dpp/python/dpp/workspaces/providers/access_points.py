"""EFS access points: the one door through which a container sees a home and nothing else of the file system."""

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
_GOING = ("deleting", "deleted", "error")


class AccessPoints:
    """The access points of one file system, one a generation of a volume; the client is made at the first call.

    EFS takes 100 characters and four folders at most for an access point's root. DirectoryVolumes' layout has as many,
    so its root has to be the file system's.

    An access point makes no folder (it has no CreationInfo): without its volume it can't be mounted, so that one that
    was left over brings no home back to life.
    """

    def __init__(
        self, settings: AwsWorkspaceSettings, client_factory: "Callable[[], EFSClient]" = efs_client
    ) -> None:
        self._settings = settings
        self._client_factory = client_factory

    def ensure(self, workspace_id: UUID, generation: str, path: str) -> str:
        """The id of this generation's access point, made where there is none. `path`: of its home in the file system.

        Two calls make one: the token tells EFS that they mean the same. Raises OperationFailed
        `AccessPointLimitReached`, and ProviderUnavailable while one is being deleted.
        """
        from botocore.exceptions import ClientError  # noqa: PLC0415

        with provider_failures(_REJECTED):
            try:
                made = self._client.create_access_point(
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
        return self._mountable(made["AccessPointId"], made["LifeCycleState"])

    def find(self, workspace_id: UUID, generation: str | None) -> list[str]:
        """The ids of this generation's access points, or of all generations' for None.

        EFS looks nothing up by token or tag, so that this reads all of the file system's, a hundred a call.
        """
        with provider_failures(_REJECTED):
            return [
                point["AccessPointId"] for point in self._all() if _is_of(point, workspace_id, generation)
            ]

    def delete(self, access_point_id: str) -> None:
        """Delete it. Nothing happens where there is none."""
        from botocore.exceptions import ClientError  # noqa: PLC0415

        with provider_failures(_REJECTED):
            try:
                self._client.delete_access_point(AccessPointId=access_point_id)
            except ClientError as error:
                if code_of(error) != "AccessPointNotFound":
                    raise

    def _mountable(self, access_point_id: str, state: str) -> str:
        """The id of one that can be mounted or soon will be; one that failed is deleted, to be made anew."""
        if state == "error":
            self.delete(access_point_id)
        if state in _GOING:
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
    """64 characters, as many as EFS takes: the workspace, so that all of its can be told, and the folder."""
    return workspace_id.hex + hashlib.sha256(path.encode()).hexdigest()[:32]


def _is_of(point: "AccessPointDescriptionTypeDef", workspace_id: UUID, generation: str | None) -> bool:
    if not point.get("ClientToken", "").startswith(workspace_id.hex):
        return False
    tag: TagTypeDef = {"Key": GENERATION_TAG, "Value": generation or ""}
    return generation is None or tag in point.get("Tags", [])
