"""Containers on ECS Fargate: one service `ws-{workspace_id}` with one task each, in one cluster (WS-9)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import batched
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from dpp.platform.aws.clients import ecs_client, efs_client
from dpp.workspaces.errors import OperationFailed, ProviderUnavailable
from dpp.workspaces.ports import Observation, Volume
from dpp.workspaces.providers.access_points import AccessPoints
from dpp.workspaces.providers.aws_failures import code_of, provider_failures, redact_account
from dpp.workspaces.providers.aws_settings import AwsWorkspaceSettings
from dpp.workspaces.providers.task_definitions import DesiredDefinition, TaskDefinitions, family_of

if TYPE_CHECKING:
    from mypy_boto3_ecs import ECSClient
    from mypy_boto3_ecs.type_defs import DeploymentConfigurationTypeDef, NetworkConfigurationTypeDef, ServiceTypeDef
    from mypy_boto3_efs import EFSClient

_REJECTED = "ContainerRejected"
_ACTIVE, _INACTIVE = "ACTIVE", "INACTIVE"
_SERVICES_PER_CALL = 10
_TASKS_PER_CALL = 100
# The old task stops before the new one starts: two containers never write to one home.
_DEPLOYMENT: "DeploymentConfigurationTypeDef" = {"minimumHealthyPercent": 0, "maximumPercent": 100}
_NOT_FOUND = Observation(ready=False, reason="ContainerNotFound", message="there is no service with this name")
# A task may still write, or `stop` has yet to delete the service: in both cases `stop` has to be called again.
_STOPPING = Observation(
    ready=True, reason="ContainerStopping", message="the service is scaled to zero, and not deleted yet"
)
_RUNNING = Observation(ready=True, reason="ContainerRunning", message="the task is running")


class FargateContainers:
    """The port Containers. Clients are built at the first call.

    ECS itself replaces a task that ends, as long as the service exists.
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

    def observe(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Observation]:
        """One observation for each id, ten services per call. A stopping service is ready while its task may write."""
        services: dict[str, ServiceTypeDef] = {}
        with provider_failures(_REJECTED):
            for some in batched(dict.fromkeys(workspace_ids), _SERVICES_PER_CALL, strict=False):
                services |= self._describe([family_of(workspace_id) for workspace_id in some])
        return {workspace_id: _observation(services.get(family_of(workspace_id))) for workspace_id in workspace_ids}

    def start(self, workspace_id: UUID, volume: Volume) -> None:
        """Run one task on this volume, through the access point of its generation.

        A running task on this volume is left alone, even if settings have changed; a service whose task does not start
        gets the current settings. This checks for the volume again after the start, and a deletion checks for the
        container again after unlinking: one of two concurrent calls detects the other. Raises OperationFailed
        `VolumeGone`, `ContainerRejected` or for a reached limit, and ProviderUnavailable while a service of this name
        still drains, since ECS creates no other one until then.
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
            desired = self._definitions.desired(workspace_id, access_point)
            service = self._service(workspace_id)
            if service is None:
                self._create(workspace_id, desired)
            elif service["status"] != _ACTIVE:
                raise ProviderUnavailable("the old service is still draining")
            elif not self._is_up_to_date(service, desired):
                self._ecs.update_service(
                    cluster=self._settings.ecs_cluster,
                    service=family_of(workspace_id),
                    desiredCount=1,
                    taskDefinition=self._definitions.ensure(workspace_id, desired),
                    deploymentConfiguration=_DEPLOYMENT,
                    networkConfiguration=self._network,
                )

    def stop(self, workspace_id: UUID) -> None:
        """Scale the service to zero, and delete it once its task has stopped, possibly in a later call.

        ECS would drop a deleted service while its task can still write for seconds (DRAINING ends at STOPPING). So the
        service exists, and is observed, as long as a task may write: only then is the home archived. The service is
        deleted last, after the task definitions of its family, so that it is observed until nothing is left to do. No
        definition outlives its service, so the next service has another revision, and with it another client token.
        """
        with provider_failures(_REJECTED):
            service = self._service(workspace_id)
            active = service is not None and service["status"] == _ACTIVE
            if service is not None and active:
                if service["desiredCount"] > 0:
                    self._unless_gone(self._scale_to_zero, workspace_id)
                    service = self._service(workspace_id)
                if self._has_live_task(workspace_id, service):
                    return
            for arn in list(self._definitions.of(workspace_id)):
                self._definitions.deregister(arn)
            if active:
                self._unless_gone(self._delete, workspace_id)

    def in_use(self, workspace_id: UUID) -> bool:
        """True while a task of the workspace may write to its home, or may still be started."""
        with provider_failures(_REJECTED):
            service = self._service(workspace_id)
            is_scaled_up = service is not None and service["status"] == _ACTIVE and service["desiredCount"] > 0
            return is_scaled_up or self._has_live_task(workspace_id, service)

    def _has_live_task(self, workspace_id: UUID, service: "ServiceTypeDef | None") -> bool:
        """True while a task has not stopped: by the service's counts, or else by the tasks themselves."""
        if service is not None and service["runningCount"] + service["pendingCount"] > 0:
            return True
        return any(status != "STOPPED" for status in self._task_statuses(workspace_id))

    def _is_up_to_date(self, service: "ServiceTypeDef", desired: DesiredDefinition) -> bool:
        """True if the task runs on this access point, or is starting with the desired definition."""
        if service["desiredCount"] < 1:
            return False
        present = self._definitions.describe(service["taskDefinition"])
        if service["runningCount"] > 0:
            return present.access_point == desired.access_point
        return present.fingerprint == desired.fingerprint

    def _create(self, workspace_id: UUID, desired: DesiredDefinition) -> None:
        definition = self._definitions.ensure(workspace_id, desired)
        created = self._ecs.create_service(
            cluster=self._settings.ecs_cluster,
            serviceName=family_of(workspace_id),
            clientToken=str(uuid5(workspace_id, definition)),
            taskDefinition=definition,
            desiredCount=1,
            launchType="FARGATE",
            platformVersion="LATEST",
            deploymentConfiguration=_DEPLOYMENT,
            # Otherwise ECS starts a second task in another zone before it stops the first.
            availabilityZoneRebalancing="DISABLED",
            networkConfiguration=self._network,
        )["service"]
        if created["status"] != _ACTIVE:
            # The token belonged to a deleted service; another revision gives another token.
            self._definitions.deregister(definition)
            raise ProviderUnavailable("ECS returned a deleted service")

    def _scale_to_zero(self, workspace_id: UUID) -> None:
        self._ecs.update_service(cluster=self._settings.ecs_cluster, service=family_of(workspace_id), desiredCount=0)

    def _delete(self, workspace_id: UUID) -> None:
        self._ecs.delete_service(cluster=self._settings.ecs_cluster, service=family_of(workspace_id), force=True)

    def _unless_gone(self, step: Callable[[UUID], None], workspace_id: UUID) -> None:
        """Run `step`, and ignore that the service was deleted meanwhile."""
        from botocore.exceptions import ClientError  # noqa: PLC0415

        try:
            step(workspace_id)
        except ClientError as error:
            if code_of(error) not in ("ServiceNotFoundException", "ServiceNotActiveException"):
                raise

    def _service(self, workspace_id: UUID) -> "ServiceTypeDef | None":
        """The service, or None if there is none or it is deleted."""
        return self._describe([family_of(workspace_id)]).get(family_of(workspace_id))

    def _describe(self, names: Sequence[str]) -> "dict[str, ServiceTypeDef]":
        """Services by name, without inactive (deleted) ones."""
        answer = self._ecs.describe_services(cluster=self._settings.ecs_cluster, services=names)
        for failure in answer["failures"]:
            if failure.get("reason") != "MISSING":
                raise ProviderUnavailable(str(failure.get("reason")))
        return {service["serviceName"]: service for service in answer["services"] if service["status"] != _INACTIVE}

    def _task_statuses(self, workspace_id: UUID) -> Iterator[str]:
        """The last status of each task, including tasks that are to stop and may not have stopped yet."""
        cluster = self._settings.ecs_cluster
        pages = self._ecs.get_paginator("list_tasks")
        arns = [
            arn
            for status in ("RUNNING", "STOPPED")
            for page in pages.paginate(cluster=cluster, family=family_of(workspace_id), desiredStatus=status)
            for arn in page["taskArns"]
        ]
        for some in batched(arns, _TASKS_PER_CALL, strict=False):
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
    """The path of the volume's home from the root of the file system, which is the root of DirectoryVolumes.

    Raises OperationFailed `VolumeGone` if the workspace's link does not lead to this volume.
    """
    home = volume.home.resolve()
    folder, root = home.parent, home.parents[min(3, len(home.parents) - 1)]
    linked = (root / f"ws-{workspace_id}-home").resolve() == folder
    if not (linked and folder.stem == volume.generation and home.is_dir()):
        raise OperationFailed("VolumeGone", "The workspace no longer has the volume that the container was to run on.")
    return f"/{home.relative_to(root)}"


def _observation(service: "ServiceTypeDef | None") -> Observation:
    if service is None:
        return _NOT_FOUND
    runs = service["runningCount"] > 0
    if service["status"] != _ACTIVE:
        return Observation(ready=runs, reason="ContainerStopping", message="the service is draining")
    if service["desiredCount"] < 1:
        return _STOPPING
    return _RUNNING if runs else _not_running(service)


def _not_running(service: "ServiceTypeDef") -> Observation:
    """The observation of a task that is starting or fails, with the latest event of the service."""
    events = service.get("events", [])
    message = redact_account(events[0]["message"]) if events else "the service is starting its task"
    fails = any(
        deployment.get("status") == "PRIMARY" and deployment.get("failedTasks", 0) > 0
        for deployment in service.get("deployments", [])
    )
    return Observation(ready=False, reason="ContainerFailing" if fails else "ContainerStarting", message=message)
