"""Containers on ECS Fargate: a service `ws-{workspace_id}` of one task each, in one cluster (WS-9)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import batched
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from dpp.platform.aws.clients import ecs_client, efs_client
from dpp.workspaces.errors import OperationFailed, ProviderUnavailable
from dpp.workspaces.ports import Seen, Volume
from dpp.workspaces.providers.access_points import AccessPoints
from dpp.workspaces.providers.aws_failures import code_of, provider_failures, without_account
from dpp.workspaces.providers.aws_settings import AwsWorkspaceSettings
from dpp.workspaces.providers.task_definitions import TaskDefinitions, Wanted, family_of

if TYPE_CHECKING:
    from mypy_boto3_ecs import ECSClient
    from mypy_boto3_ecs.type_defs import (
        DeploymentConfigurationTypeDef,
        NetworkConfigurationTypeDef,
        ServiceTypeDef,
    )
    from mypy_boto3_efs import EFSClient

_REJECTED = "ContainerRejected"
_ACTIVE, _INACTIVE = "ACTIVE", "INACTIVE"
_SERVICES_A_CALL = 10
_TASKS_A_CALL = 100
# None before one: two containers never write to one home.
_DEPLOYMENT: "DeploymentConfigurationTypeDef" = {"minimumHealthyPercent": 0, "maximumPercent": 100}
_NOT_FOUND = Seen(ready=False, reason="ContainerNotFound", message="there is no service of this name")
# A task may still write, or else `stop` has still to delete the service: either way it is to be called again.
_STOPPING = Seen(
    ready=True, reason="ContainerStopping", message="the service is scaled to none, and still there"
)
_RUNNING = Seen(ready=True, reason="ContainerRunning", message="the task runs")


class FargateContainers:
    """Port `Containers`; clients are made at the first call.

    What ECS restarts by itself is left to it: a task that ends is followed by another while the service stands.
    """

    infra = "ecs"

    def __init__(
        self,
        settings: AwsWorkspaceSettings,
        ecs_factory: "Callable[[], ECSClient]" = ecs_client,
        efs_factory: "Callable[[], EFSClient]" = efs_client,
    ) -> None:
        self._settings = settings
        self._ecs_factory = ecs_factory
        self._access_points = AccessPoints(settings, efs_factory)

    def observe(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Seen]:
        """What the services say, ten a call. A service that is stopping is ready while its task may write."""
        services: dict[str, ServiceTypeDef] = {}
        with provider_failures(_REJECTED):
            for some in batched(dict.fromkeys(workspace_ids), _SERVICES_A_CALL, strict=False):
                services |= self._describe([family_of(workspace_id) for workspace_id in some])
        return {workspace_id: _seen(services.get(family_of(workspace_id))) for workspace_id in workspace_ids}

    def start(self, workspace_id: UUID, volume: Volume) -> None:
        """Have the service run one task on this volume, by the access point of its generation.

        One that runs on it is left alone, even where settings have changed since; one that doesn't come up gets what
        settings say now. The volume is looked for once more afterwards: who deletes it looks for the container after
        unlinking it, so one of the two sees the other. Raises OperationFailed `VolumeGone`, `ContainerRejected` and
        where a limit is reached, and ProviderUnavailable while a service of this name still drains: ECS makes no other
        till then.
        """
        access_point = self._access_points.ensure(
            workspace_id, volume.generation, _path_in_file_system(workspace_id, volume)
        )
        self._run(workspace_id, access_point)
        try:
            _path_in_file_system(workspace_id, volume)
        except OperationFailed:
            self.stop(workspace_id)
            raise

    def _run(self, workspace_id: UUID, access_point: str) -> None:
        with provider_failures(_REJECTED):
            wanted = self._definitions.wanted(workspace_id, access_point)
            service = self._service(workspace_id)
            if service is None:
                self._create(workspace_id, wanted)
            elif service["status"] != _ACTIVE:
                raise ProviderUnavailable("the service still drains")
            elif not self._serves(service, wanted):
                self._ecs.update_service(
                    cluster=self._settings.ecs_cluster,
                    service=family_of(workspace_id),
                    desiredCount=1,
                    taskDefinition=self._definitions.ensure(workspace_id, wanted),
                    deploymentConfiguration=_DEPLOYMENT,
                    networkConfiguration=self._network,
                )

    def stop(self, workspace_id: UUID) -> None:
        """Scale the service to none, and delete it once its task has stopped, which may be for a later call to do.

        ECS would forget the service while the task still has seconds to write (DRAINING ends at STOPPING). So the
        service stands as long as a task may write, and is observed for as long: an archive is made of a home that
        nobody writes to any more. It goes last, after the family's definitions, so that it is observed until nothing is
        left to do. And since no definition outlives its service, the next service is made of another revision, by which
        ECS tells it from a repetition of this one.
        """
        with provider_failures(_REJECTED):
            service = self._service(workspace_id)
            active = service is not None and service["status"] == _ACTIVE
            if service is not None and active:
                if service["desiredCount"] > 0:
                    self._unless_gone(self._scale_to_none, workspace_id)
                    service = self._service(workspace_id)
                if self._lives(workspace_id, service):
                    return
            for arn in list(self._definitions.of(workspace_id)):
                self._definitions.deregister(arn)
            if active:
                self._unless_gone(self._delete, workspace_id)

    def in_use(self, workspace_id: UUID) -> bool:
        """True while a task of the workspace may write to its home, or may yet be started to."""
        with provider_failures(_REJECTED):
            service = self._service(workspace_id)
            wants = service is not None and service["status"] == _ACTIVE and service["desiredCount"] > 0
            return wants or self._lives(workspace_id, service)

    def _lives(self, workspace_id: UUID, service: "ServiceTypeDef | None") -> bool:
        """True while a task has not stopped: by the service's count, or where it counts no more, by the tasks."""
        if service is not None and service["runningCount"] + service["pendingCount"] > 0:
            return True
        return any(status != "STOPPED" for status in self._task_statuses(workspace_id))

    def _serves(self, service: "ServiceTypeDef", wanted: Wanted) -> bool:
        """True where nothing is to be done: it runs on this access point, or is about to as it ought to."""
        if service["desiredCount"] < 1:
            return False
        present = self._definitions.describe(service["taskDefinition"])
        if service["runningCount"] > 0:
            return present.access_point == wanted.access_point
        return present.fingerprint == wanted.fingerprint

    def _create(self, workspace_id: UUID, wanted: Wanted) -> None:
        definition = self._definitions.ensure(workspace_id, wanted)
        made = self._ecs.create_service(
            cluster=self._settings.ecs_cluster,
            serviceName=family_of(workspace_id),
            clientToken=str(uuid5(workspace_id, definition)),
            taskDefinition=definition,
            desiredCount=1,
            launchType="FARGATE",
            platformVersion="LATEST",
            deploymentConfiguration=_DEPLOYMENT,
            # Else ECS starts a second task in another zone before it stops the first.
            availabilityZoneRebalancing="DISABLED",
            networkConfiguration=self._network,
        )["service"]
        if made["status"] != _ACTIVE:
            # The token was one of a service that is gone; with another revision there is another token.
            self._definitions.deregister(definition)
            raise ProviderUnavailable("the service is one that was deleted")

    def _scale_to_none(self, workspace_id: UUID) -> None:
        self._ecs.update_service(
            cluster=self._settings.ecs_cluster, service=family_of(workspace_id), desiredCount=0
        )

    def _delete(self, workspace_id: UUID) -> None:
        self._ecs.delete_service(
            cluster=self._settings.ecs_cluster, service=family_of(workspace_id), force=True
        )

    def _unless_gone(self, step: Callable[[UUID], None], workspace_id: UUID) -> None:
        """Do it, and take it for done where the service was deleted meanwhile."""
        from botocore.exceptions import ClientError  # noqa: PLC0415

        try:
            step(workspace_id)
        except ClientError as error:
            if code_of(error) not in ("ServiceNotFoundException", "ServiceNotActiveException"):
                raise

    def _service(self, workspace_id: UUID) -> "ServiceTypeDef | None":
        """The service, or None where there is none or only what ECS remembers of one."""
        return self._describe([family_of(workspace_id)]).get(family_of(workspace_id))

    def _describe(self, names: Sequence[str]) -> "dict[str, ServiceTypeDef]":
        """Services by name, without those that are inactive, which is to say deleted."""
        answer = self._ecs.describe_services(cluster=self._settings.ecs_cluster, services=names)
        for failure in answer["failures"]:
            if failure.get("reason") != "MISSING":
                raise ProviderUnavailable(str(failure.get("reason")))
        return {
            service["serviceName"]: service
            for service in answer["services"]
            if service["status"] != _INACTIVE
        }

    def _task_statuses(self, workspace_id: UUID) -> Iterator[str]:
        """Of those that are to run, and of those that are to stop and may not have yet."""
        cluster = self._settings.ecs_cluster
        pages = self._ecs.get_paginator("list_tasks")
        arns = [
            arn
            for status in ("RUNNING", "STOPPED")
            for page in pages.paginate(cluster=cluster, family=family_of(workspace_id), desiredStatus=status)
            for arn in page["taskArns"]
        ]
        for some in batched(arns, _TASKS_A_CALL, strict=False):
            for task in self._ecs.describe_tasks(cluster=cluster, tasks=some)["tasks"]:
                yield task["lastStatus"]

    @property
    def _network(self) -> "NetworkConfigurationTypeDef":
        return {
            "awsvpcConfiguration": {
                "subnets": self._settings.subnets,
                "securityGroups": [self._settings.security_group],
                "assignPublicIp": "DISABLED",
            }
        }

    @cached_property
    def _definitions(self) -> TaskDefinitions:
        return TaskDefinitions(self._settings, self._ecs)

    @cached_property
    def _ecs(self) -> "ECSClient":
        return self._ecs_factory()


def _path_in_file_system(workspace_id: UUID, volume: Volume) -> str:
    """The path of the volume's home from the file system's root, which is that of DirectoryVolumes.

    Raises OperationFailed `VolumeGone` where the workspace's link does not lead to it.
    """
    home = volume.home.resolve()
    folder, root = home.parent, home.parents[min(3, len(home.parents) - 1)]
    linked = (root / f"ws-{workspace_id}-home").resolve() == folder
    if not (linked and folder.stem == volume.generation and home.is_dir()):
        raise OperationFailed("VolumeGone", "The volume is not the one that this container was to run on.")
    return f"/{home.relative_to(root)}"


def _seen(service: "ServiceTypeDef | None") -> Seen:
    if service is None:
        return _NOT_FOUND
    runs = service["runningCount"] > 0
    if service["status"] != _ACTIVE:
        return Seen(ready=runs, reason="ContainerStopping", message="the service drains")
    if service["desiredCount"] < 1:
        return _STOPPING
    return _RUNNING if runs else _coming(service)


def _coming(service: "ServiceTypeDef") -> Seen:
    """Of a service whose task doesn't run: whether it is on its way, or fails, and what ECS says of it last."""
    events = service.get("events", [])
    message = without_account(events[0]["message"]) if events else "the service is starting its task"
    fails = any(
        deployment.get("status") == "PRIMARY" and deployment.get("failedTasks", 0) > 0
        for deployment in service.get("deployments", [])
    )
    return Seen(ready=False, reason="ContainerFailing" if fails else "ContainerStarting", message=message)
