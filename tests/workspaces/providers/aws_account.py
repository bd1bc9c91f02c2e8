"""An AWS account from moto with a cluster and a file system, and failing calls."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import boto3
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from moto.ecs.models import ecs_backends
from moto.efs.models import efs_backends

from dpp.platform.aws.clients import ecs_client, efs_client
from dpp.workspaces.ports import Volume
from dpp.workspaces.providers.access_points import AccessPoints
from dpp.workspaces.providers.aws_settings import AwsWorkspaceSettings
from dpp.workspaces.providers.fargate_containers import FargateContainers

if TYPE_CHECKING:
    from mypy_boto3_ecs import ECSClient
    from mypy_boto3_efs import EFSClient

REGION = "us-east-1"
ACCOUNT_ID = "123456789012"  # moto's
ROLE = f"arn:aws:iam::{ACCOUNT_ID}:role/"
_ROOT_DIRECTORY = re.compile(r"^(/|(/(?!\.)+[^$#<>;`|&?{}^*/\n]+){1,4})$")

type Fault = Callable[[str], Exception]


def unreached(call: str) -> Exception:
    return EndpointConnectionError(endpoint_url=f"https://{call}.test")


def unanswered(call: str) -> Exception:
    """A call that took effect without an answer."""
    return ReadTimeoutError(endpoint_url=f"https://{call}.test")


def throttled(call: str) -> Exception:
    return refusal(call, "ThrottlingException", "Rate exceeded")


FAULTS = [(unreached, False), (throttled, False), (unanswered, True)]
"""Faults, with whether the call takes effect."""


def refusal(call: str, code: str, message: str, **members: str) -> ClientError:
    """An error returned by AWS."""
    response: Any = {"Error": {"Code": code, "Message": message}, **members}
    return ClientError(response, call)


class Account:
    """A cluster and a file system with real clients, whose calls moto answers; adds behaviour that moto lacks.

    `starts`: whether a task runs as soon as a service wants one. `lingers`: whether a task takes its time to stop,
    until `settle`; a service that is deleted meanwhile drains. `tasks`: the last statuses, by family, of tasks that
    neither a service counts nor moto knows. `calls`: the names of the calls, in order; `sent`: with their
    parameters."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace_id = uuid4()
        self.calls: list[str] = []
        self.sent: list[tuple[str, Mapping[str, Any]]] = []
        self.starts = True
        self.lingers = False
        self.tasks: dict[str, list[str]] = {}
        self._tokens: dict[str, str] = {}
        self._params: dict[str, Mapping[str, Any]] = {}
        self._fault: tuple[int, Fault, bool] | None = None
        ec2 = boto3.client("ec2", region_name=REGION)
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
        group = ec2.create_security_group(GroupName=f"g-{uuid4()}", Description="tasks", VpcId=vpc)["GroupId"]
        self.cluster = f"homes-{uuid4().hex}"
        self.ecs = self._watched(ecs_client())
        self.efs = self._watched(efs_client())
        self.ecs.create_cluster(clusterName=self.cluster)
        created = self.efs.create_file_system(CreationToken=uuid4().hex, Encrypted=True)
        self.settings = AwsWorkspaceSettings.load(
            {
                "DPP_WORKSPACE_ECS_CLUSTER": self.cluster,
                "DPP_WORKSPACE_EFS_ID": created["FileSystemId"],
                "DPP_WORKSPACE_IMAGE": "123456789012.dkr.ecr.us-east-1.amazonaws.com/homes:1",
                "DPP_WORKSPACE_SUBNETS": subnet,
                "DPP_WORKSPACE_SECURITY_GROUP": group,
                "DPP_WORKSPACE_TASK_ROLE_ARN": f"{ROLE}task",
                "DPP_WORKSPACE_EXECUTION_ROLE_ARN": f"{ROLE}execution",
                "DPP_WORKSPACE_LOG_GROUP": "workspaces",
            }
        )
        self.calls.clear()
        self.provider = self.containers()

    def containers(self, **changes: Any) -> FargateContainers:
        """The provider, as a new process builds it."""
        settings = self.settings.model_copy(update=changes)
        return FargateContainers(settings, lambda: self.ecs, lambda: self.efs)

    def access_points(self) -> AccessPoints:
        return AccessPoints(self.settings, lambda: self.efs)

    def access_points_token(self, workspace_id: UUID, generation: str) -> str:
        """The client token of the access point of this generation."""
        self.access_points().ensure(workspace_id, generation, home_path(workspace_id, generation))
        (call,) = [params for name, params in self.sent if name == "CreateAccessPoint"]
        return str(call["ClientToken"])

    def fail(self, number: int, fault: Fault, *, done: bool) -> None:
        """Make the call `number` (counted from 0, from now) fail: after it took effect if `done`, else before."""
        self.calls.clear()
        self._fault = (number, fault, done)

    def heal(self) -> None:
        """Clear the fault."""
        self._fault = None

    def lay_volume(self, workspace_id: UUID | None = None, generation: str = "g1") -> Volume:
        """Create the folders of a volume like DirectoryVolumes, in place of an existing one."""
        workspace_id = workspace_id or self.workspace_id
        home = self.root / home_path(workspace_id, generation)[1:]
        home.mkdir(parents=True, exist_ok=True)
        marker = {"restore_marker": "marker", "generation": generation}
        (home.parent / "marker.json").write_text(json.dumps(marker))
        link = self.root / f"ws-{workspace_id}-home"
        link.unlink(missing_ok=True)
        link.symlink_to(home.parent.relative_to(self.root))
        return Volume(workspace_id, generation, restore_marker="marker", home=home)

    def start(self, generation: str = "g1") -> Volume:
        """Start the container on a new volume, as a new process."""
        volume = self.lay_volume(generation=generation)
        self.containers().start(self.workspace_id, volume)
        return volume

    def scale_to_zero(self) -> None:
        """Scale the service down, as another caller would."""
        self.ecs.update_service(cluster=self.cluster, service=f"ws-{self.workspace_id}", desiredCount=0)

    def delete_service(self) -> None:
        """Delete the service, as another caller would."""
        self.ecs.delete_service(cluster=self.cluster, service=f"ws-{self.workspace_id}", force=True)

    def current_definition(self) -> Any:
        """The task definition of the service."""
        arn = self.service().task_definition
        return self.ecs.describe_task_definition(taskDefinition=arn)["taskDefinition"]

    def service(self, workspace_id: UUID | None = None) -> Any:
        """Moto's service object, which tests read and change; None if there is none."""
        backend = ecs_backends[ACCOUNT_ID][REGION]
        return backend.services.get(f"{self.cluster}:ws-{workspace_id or self.workspace_id}")

    def terminate(self) -> None:
        """The last task got its signal and may still write; services no longer count it."""
        service = self.service()
        service.running_count = 0
        self.tasks[f"ws-{self.workspace_id}"] = ["STOPPING"]
        if service.status == "DRAINING":
            service.status = "INACTIVE"

    def settle(self) -> None:
        """The last task has stopped."""
        self.terminate()
        self.tasks[f"ws-{self.workspace_id}"] = ["STOPPED"]

    def roots(self) -> list[str]:
        """The root folders of all access points."""
        found = self.efs.describe_access_points(FileSystemId=self.settings.efs_id)["AccessPoints"]
        return sorted(point["RootDirectory"]["Path"] for point in found)

    def definitions(self, workspace_id: UUID | None = None) -> list[str]:
        """The ARNs of the registered definitions."""
        family = f"ws-{workspace_id or self.workspace_id}"
        return self.ecs.list_task_definitions(familyPrefix=family)["taskDefinitionArns"]

    def state(self, workspace_id: UUID | None = None) -> tuple[object, ...]:
        """Access points, number of definitions, and the service, to compare."""
        service = self.service(workspace_id)
        exists = service is not None and service.status != "INACTIVE"
        definitions = self.definitions(workspace_id)
        current = service and (service.status, service.desired_count, service.task_definition in definitions)
        return self.roots(), len(definitions), current if exists else None

    def _watched[Client: "ECSClient | EFSClient"](self, client: Client) -> Client:
        events = client.meta.events
        events.register("before-parameter-build.*", self._before)
        events.register("after-call.*", self._after)
        return client

    def _before(self, params: Mapping[str, Any], model: Any, **_: Any) -> None:
        self.calls.append(model.name)
        self.sent.append((model.name, params))
        self._params[model.name] = params
        self._raise(model.name, done=False)
        try:
            self._refuse(model.name, params)
        except ClientError:  # this answer may be lost, too
            self._raise(model.name, done=True)
            raise

    def _refuse(self, call: str, params: Mapping[str, Any]) -> None:
        match call:
            case "CreateAccessPoint":
                self._refuse_known_token(params)
            case "CreateService":
                self._refuse_name_in_use(params)
            case "UpdateService":
                service = self._service_of(params["service"])
                if service is not None and service.status != "ACTIVE":
                    raise refusal(call, "ServiceNotActiveException", "Service was not ACTIVE.")

    def _after(self, parsed: Any, model: Any, **_: Any) -> None:
        params = self._params[model.name]
        match model.name:
            case "CreateAccessPoint":
                self._tokens[params["ClientToken"]] = parsed["AccessPointId"]
            case "CreateService" | "UpdateService":
                name = params.get("service", params.get("serviceName"))
                service = self._service_of(name)
                still_runs = self.lingers and service.status == "ACTIVE" and params["desiredCount"] == 0
                service.running_count = 1 if still_runs else service.desired_count if self.starts else 0
            case "DeleteService" if self.lingers and self._service_of(params["service"]).running_count:
                self._service_of(params["service"]).status = "DRAINING"
            case "ListTaskDefinitions" if params.get("sort") == "DESC":
                parsed["taskDefinitionArns"].sort(key=lambda arn: -int(arn.rpartition(":")[2]))
            case "ListTasks":
                stopped = params["desiredStatus"] == "STOPPED"
                found = self.tasks.get(params["family"], [])
                parsed["taskArns"] = [s for s in found if (s in ("STOPPING", "STOPPED")) is stopped]
            case "DescribeTasks":
                parsed["tasks"] = [{"lastStatus": status} for status in params["tasks"]]
        self._raise(model.name, done=True)

    def _raise(self, call: str, *, done: bool) -> None:
        if self._fault is not None:
            number, fault, when = self._fault
            if when is done and len(self.calls) == number + 1:
                raise fault(call)

    def _refuse_known_token(self, params: Mapping[str, Any]) -> None:
        path = params["RootDirectory"]["Path"]
        assert len(path) <= 100, "EFS: 100 characters"
        assert _ROOT_DIRECTORY.match(path), "EFS: four folders"
        assert len(params["ClientToken"]) <= 64
        known = self._tokens.get(params["ClientToken"])
        if known in efs_backends[ACCOUNT_ID][REGION].access_points:
            raise refusal("CreateAccessPoint", "AccessPointAlreadyExists", "exists", AccessPointId=str(known))

    def _refuse_name_in_use(self, params: Mapping[str, Any]) -> None:
        assert len(params["clientToken"]) <= 36
        service = self._service_of(params["serviceName"])
        if service is None or service.status == "INACTIVE":
            return
        message = "Creation of service was not idempotent."
        if service.status == "DRAINING":
            message = "Unable to Start a service that is still Draining."
        raise refusal("CreateService", "InvalidParameterException", message)

    def _service_of(self, name: str) -> Any:
        return self.service(UUID(name.removeprefix("ws-")))


def home_path(workspace_id: UUID, generation: str = "g1") -> str:
    """The path of the home that `lay_volume` creates, in the file system."""
    return f"/generations/{workspace_id}/{generation}.t/home"
