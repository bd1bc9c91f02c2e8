"""The ECS task definitions of workspaces, in families `ws-{workspace_id}`."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from dpp.workspaces.providers.aws_settings import AwsWorkspaceSettings

if TYPE_CHECKING:
    from mypy_boto3_ecs import ECSClient
    from mypy_boto3_ecs.type_defs import (
        ContainerDefinitionUnionTypeDef,
        RegisterTaskDefinitionRequestTypeDef,
        TaskDefinitionTypeDef,
    )

_FINGERPRINT = "dpp.fingerprint"
_CONTAINER = "workspace"
_VOLUME = "home"
_STOP_SECONDS = 30  # between SIGTERM and SIGKILL


def family_of(workspace_id: UUID) -> str:
    """The name of the family, and of the service (WS-9)."""
    return f"ws-{workspace_id}"


@dataclass(frozen=True, slots=True)
class DesiredDefinition:
    """A desired definition. `fingerprint`: of the request; stored as a label, since ECS returns additional fields."""

    request: "RegisterTaskDefinitionRequestTypeDef"
    access_point: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class RegisteredDefinition:
    """A definition registered in ECS. None for members that it lacks."""

    arn: str
    access_point: str | None
    fingerprint: str | None


class TaskDefinitions:
    """Registers, finds and deregisters task definitions."""

    def __init__(self, settings: AwsWorkspaceSettings, client: "ECSClient") -> None:
        self._settings = settings
        self._client = client

    def desired(self, workspace_id: UUID, access_point: str) -> DesiredDefinition:
        """The definition that a container of this workspace should have now."""
        request = self._request(workspace_id, access_point)
        fingerprint = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
        (container,) = request["containerDefinitions"]
        labelled = {**request, "containerDefinitions": [{**container, "dockerLabels": {_FINGERPRINT: fingerprint}}]}
        return DesiredDefinition(labelled, access_point, fingerprint)  # type: ignore[arg-type]

    def describe(self, arn: str) -> RegisteredDefinition:
        """Read a definition; deregistered ones can be read, too."""
        return _registered(self._client.describe_task_definition(taskDefinition=arn)["taskDefinition"])

    def ensure(self, workspace_id: UUID, desired: DesiredDefinition) -> str:
        """The ARN of the family's latest definition if it is the desired one, else of a new one."""
        newest = self._client.list_task_definitions(
            familyPrefix=family_of(workspace_id), status="ACTIVE", sort="DESC", maxResults=1
        )["taskDefinitionArns"]
        if newest and self.describe(newest[0]).fingerprint == desired.fingerprint:
            return newest[0]
        return self._client.register_task_definition(**desired.request)["taskDefinition"]["taskDefinitionArn"]

    def deregister(self, arn: str) -> None:
        """Deregister a definition. Running tasks are not affected."""
        self._client.deregister_task_definition(taskDefinition=arn)

    def of(self, workspace_id: UUID) -> Iterator[str]:
        """The ARNs of all registered definitions of the family."""
        pages = self._client.get_paginator("list_task_definitions")
        for page in pages.paginate(familyPrefix=family_of(workspace_id), status="ACTIVE"):
            yield from page["taskDefinitionArns"]

    def _request(self, workspace_id: UUID, access_point: str) -> "RegisterTaskDefinitionRequestTypeDef":
        settings = self._settings
        return {
            "family": family_of(workspace_id),
            "requiresCompatibilities": ["FARGATE"],
            "networkMode": "awsvpc",
            "cpu": str(settings.cpu),
            "memory": str(settings.memory_mib),
            "runtimePlatform": {"cpuArchitecture": settings.architecture, "operatingSystemFamily": "LINUX"},
            "taskRoleArn": settings.task_role_arn,
            "executionRoleArn": settings.execution_role_arn,
            "containerDefinitions": [self._container(workspace_id)],
            "volumes": [
                {
                    "name": _VOLUME,
                    "efsVolumeConfiguration": {
                        "fileSystemId": settings.efs_id,
                        "transitEncryption": "ENABLED",
                        "authorizationConfig": {"accessPointId": access_point, "iam": "ENABLED"},
                    },
                }
            ],
        }

    def _container(self, workspace_id: UUID) -> "ContainerDefinitionUnionTypeDef":
        settings = self._settings
        return {
            "name": _CONTAINER,
            "image": settings.image,
            "essential": True,
            "user": f"{settings.posix_uid}:{settings.posix_gid}",
            "environment": [
                {"name": "DPP_WORKSPACE_ID", "value": str(workspace_id)},
                {"name": "HOME", "value": settings.home_in_container},
            ],
            "mountPoints": [{"sourceVolume": _VOLUME, "containerPath": settings.home_in_container}],
            "linuxParameters": {"initProcessEnabled": True},
            "stopTimeout": _STOP_SECONDS,
            "logConfiguration": {
                "logDriver": "awslogs",
                "options": {
                    "awslogs-group": settings.log_group,
                    "awslogs-region": self._client.meta.region_name,
                    "awslogs-stream-prefix": family_of(workspace_id),
                    # A slow log must not block the container.
                    "mode": "non-blocking",
                },
            },
        }


def _registered(definition: "TaskDefinitionTypeDef") -> RegisteredDefinition:
    points = [
        volume.get("efsVolumeConfiguration", {}).get("authorizationConfig", {}).get("accessPointId")
        for volume in definition.get("volumes", [])
    ]
    labels = [container.get("dockerLabels", {}) for container in definition["containerDefinitions"]]
    return RegisteredDefinition(
        arn=definition["taskDefinitionArn"],
        access_point=next(iter(points), None),
        fingerprint=next((label.get(_FINGERPRINT) for label in labels), None),
    )
