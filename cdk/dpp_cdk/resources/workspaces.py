"""Workspaces on AWS: the file system of the homes, the cluster of the containers, and their permissions (WS-9).

A container runs other people's code. It gets one home, by an access point that shows no other home, an image, a log,
and no AWS permission except to mount.
"""

import re
from collections.abc import Mapping

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_efs as efs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from dpp_cdk.functions.function import FileSystemMount, LambdaFunction
from dpp_cdk.functions.log_retention import log_retention
from dpp_cdk.nag import acknowledge
from dpp_cdk.settings.config import Deployment, DeploymentError
from dpp_cdk.stacks.network import NetworkStack

HOMES_PATH = "/mnt/homes"
"""The functions' mount path of the file system, which must be the volumes' root (providers/access_points.py)."""

_ACCESS_POINT = "elasticfilesystem:AccessPointArn"
_ECR_IMAGE = re.compile(
    r"^(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?"
    r"/(?P<repository>[a-z0-9._/-]+)(:[\w.-]+)?(@sha256:[0-9a-f]{64})?$"
)
_ARCHITECTURES = {"x86_64": "X86_64", "aarch64": "ARM64"}


class Workspaces(Construct):
    """File system, cluster, roles and log. `image`: the containers' image.

    Raises DeploymentError for an image that is not from ECR, the only registry that the network reaches.
    """

    def __init__(self, scope: Construct, id: str, deployment: Deployment, network: NetworkStack, *, image: str) -> None:
        super().__init__(scope, id)
        self._deployment = deployment
        self._image = image
        self._place = network.workspaces
        self._cluster_name = f"dpp-{deployment.stage}-workspaces"
        self.file_system = self._file_system(network)
        self._root = efs.AccessPoint(
            self, "Root", file_system=self.file_system, path="/", posix_user=efs.PosixUser(uid="0", gid="0")
        )
        self._cluster = ecs.Cluster(
            self,
            "Cluster",
            cluster_name=self._cluster_name,
            vpc=network.vpc,
            container_insights_v2=ecs.ContainerInsights.ENABLED,
        )
        self._log_group = logs.LogGroup(
            self, "Logs", retention=log_retention(self._deployment.retention), removal_policy=RemovalPolicy.DESTROY
        )
        self.task_role = self._task_role()
        self.execution_role = self._execution_role()

    @property
    def variables(self) -> Mapping[str, str]:
        """The values of functions' environment variables."""
        subnets = self._place.vpc.select_subnets(subnet_group_name=self._place.subnets.subnet_group_name)
        return {
            "DPP_WORKSPACE_ECS_CLUSTER": self._cluster_name,
            "DPP_WORKSPACE_EFS_ID": self.file_system.file_system_id,
            "DPP_WORKSPACE_IMAGE": self._image,
            "DPP_WORKSPACE_ARCHITECTURE": _ARCHITECTURES[self._deployment.architecture],
            "DPP_WORKSPACE_SUBNETS": ",".join(subnets.subnet_ids),
            "DPP_WORKSPACE_SECURITY_GROUP": self._place.security_group.security_group_id,
            "DPP_WORKSPACE_TASK_ROLE_ARN": self.task_role.role_arn,
            "DPP_WORKSPACE_EXECUTION_ROLE_ARN": self.execution_role.role_arn,
            "DPP_WORKSPACE_LOG_GROUP": self._log_group.log_group_name,
        }

    @property
    def file_system_mount(self) -> FileSystemMount:
        """The mount of the whole file system, for control functions."""
        return FileSystemMount(
            file_system_arn=self.file_system.file_system_arn,
            access_point_arn=self._root.access_point_arn,
            path=HOMES_PATH,
        )

    def controlled_by(self, function: LambdaFunction) -> None:
        """Permit the function to start and stop containers, and to create and delete access points."""
        cluster = {"ArnEquals": {"ecs:cluster": self._arn("ecs", "cluster", self._cluster_name)}}
        function.permit(
            iam.PolicyStatement(
                actions=[f"ecs:{verb}Service" for verb in ("Create", "Update", "Delete")] + ["ecs:DescribeServices"],
                resources=[self._services_arn],
            ),
            iam.PolicyStatement(actions=["ecs:DescribeTasks"], resources=[self._tasks_arn]),
            iam.PolicyStatement(actions=["ecs:ListTasks"], resources=["*"], conditions=cluster),
            iam.PolicyStatement(
                actions=[
                    "ecs:RegisterTaskDefinition",
                    "ecs:DeregisterTaskDefinition",
                    "ecs:DescribeTaskDefinition",
                    "ecs:ListTaskDefinitions",
                ],
                resources=["*"],
            ),
            iam.PolicyStatement(
                actions=["iam:PassRole"],
                resources=[self.task_role.role_arn, self.execution_role.role_arn],
                conditions={"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}},
            ),
            *self._access_point_statements(),
        )
        reasons = {
            "IAM5[Resource::*]": "ECS has no resource type for definitions, and for lists of tasks only the cluster",
            self._services_finding: "the services of workspaces, whose names are not known beforehand",
            self._finding(
                "ecs", f"task/{self._cluster_name}/*"
            ): "the tasks of workspaces, whose ids are not known beforehand",
            self._finding("elasticfilesystem", "access-point/*"): "only access points with the tag of a home",
        }
        for finding, reason in reasons.items():
            function.acknowledge(finding, reason)

    def _access_point_statements(self) -> list[iam.PolicyStatement]:
        """Permissions on the access points of homes, selected by tag: not on the functions' own, which shows all."""
        tag = "ws-*-home"
        access_points = self._arn("elasticfilesystem", "access-point", "*")
        return [
            iam.PolicyStatement(
                actions=["elasticfilesystem:CreateAccessPoint"],
                resources=[self.file_system.file_system_arn],
                conditions={"StringLike": {"aws:RequestTag/Name": tag}},
            ),
            iam.PolicyStatement(
                actions=["elasticfilesystem:TagResource"],
                resources=[access_points],
                conditions={"StringEquals": {"elasticfilesystem:CreateAction": "CreateAccessPoint"}},
            ),
            iam.PolicyStatement(
                actions=["elasticfilesystem:DescribeAccessPoints"],
                resources=[self.file_system.file_system_arn, access_points],
            ),
            iam.PolicyStatement(
                actions=["elasticfilesystem:DeleteAccessPoint"],
                resources=[access_points],
                conditions={"StringLike": {"aws:ResourceTag/Name": tag}},
            ),
        ]

    def _file_system(self, network: NetworkStack) -> efs.FileSystem:
        """Homes that are unused for a month cost a tenth; throughput is paid by use."""
        keeps_data = self._deployment.keeps_data
        return efs.FileSystem(
            self,
            "Homes",
            vpc=network.vpc,
            vpc_subnets=network.homes.subnets,
            security_group=network.homes.closed_group(self, "HomesGroup"),
            encrypted=True,
            throughput_mode=efs.ThroughputMode.ELASTIC,
            lifecycle_policy=efs.LifecyclePolicy.AFTER_30_DAYS,
            out_of_infrequent_access_policy=efs.OutOfInfrequentAccessPolicy.AFTER_1_ACCESS,
            enable_automatic_backups=keeps_data,
            removal_policy=RemovalPolicy.RETAIN if keeps_data else RemovalPolicy.DESTROY,
            file_system_policy=iam.PolicyDocument(statements=_refusals()),
        )

    def _task_role(self) -> iam.Role:
        """The role of containers' code: it may mount by any access point except the one that shows all homes.

        The role cannot be narrower, because all workspaces share it. Other homes are protected by their access points'
        ids, which no container can query.
        """
        role = self._role("TaskRole", "Containers of workspaces")
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"],
                resources=[self.file_system.file_system_arn],
                conditions={
                    "ArnLike": {_ACCESS_POINT: self._arn("elasticfilesystem", "access-point", "*")},
                    "ArnNotEquals": {_ACCESS_POINT: self._root.access_point_arn},
                },
            )
        )
        return role

    def _execution_role(self) -> iam.Role:
        """The role with which ECS prepares a container: it pulls the image and opens the log."""
        role = self._role("ExecutionRole", "What ECS does for containers of workspaces")
        statements = (
            (["ecr:GetAuthorizationToken"], "*"),
            (
                ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
                self._repository_arn(),
            ),
            (["logs:CreateLogStream", "logs:PutLogEvents"], self._log_group.log_group_arn),
        )
        for actions, arn in statements:
            role.add_to_policy(iam.PolicyStatement(actions=actions, resources=[arn]))
        acknowledge(
            role.node.find_child("DefaultPolicy"),
            "IAM5[Resource::*]",
            "ECR's token belongs to the account; pulling is permitted from one repository only",
        )
        return role

    def _role(self, id: str, description: str) -> iam.Role:
        """A role that ECS may assume only for tasks of this account (ECS guide, "Task IAM role")."""
        stack = Stack.of(self)
        return iam.Role(
            self,
            id,
            description=description,
            assumed_by=iam.ServicePrincipal(
                "ecs-tasks.amazonaws.com",
                conditions={
                    "StringEquals": {"aws:SourceAccount": stack.account},
                    "ArnLike": {"aws:SourceArn": f"arn:{stack.partition}:ecs:{stack.region}:{stack.account}:*"},
                },
            ),
        )

    def _repository_arn(self) -> str:
        image = _ECR_IMAGE.match(self._image)
        if image is None:
            raise DeploymentError(
                f"workspace image {self._image!r}: the network reaches only ECR, so use"
                " <account>.dkr.ecr.<region>.amazonaws.com/<repository>[:<tag>][@sha256:<digest>]"
            )
        return Stack.of(self).format_arn(
            service="ecr",
            account=image["account"],
            region=image["region"],
            resource="repository",
            resource_name=image["repository"],
        )

    @property
    def _services_arn(self) -> str:
        return self._arn("ecs", "service", f"{self._cluster_name}/ws-*")

    @property
    def _tasks_arn(self) -> str:
        return self._arn("ecs", "task", f"{self._cluster_name}/*")

    @property
    def _services_finding(self) -> str:
        return self._finding("ecs", f"service/{self._cluster_name}/ws-*")

    def _arn(self, service: str, resource: str, name: str) -> str:
        return Stack.of(self).format_arn(
            service=service, resource=resource, resource_name=name, arn_format=ArnFormat.SLASH_RESOURCE_NAME
        )

    @staticmethod
    def _finding(service: str, resource: str) -> str:
        """cdk-nag's finding on a permission on a pattern."""
        return f"IAM5[Resource::arn:<AWS::Partition>:{service}:<AWS::Region>:<AWS::AccountId>:{resource}]"


def _refusals() -> list[iam.PolicyStatement]:
    """Deny mounting without TLS and without an access point.

    No statement allows anything: identities of this account need a permission in their own policies.
    """
    mount = [f"elasticfilesystem:Client{what}" for what in ("Mount", "Write", "RootAccess")]
    return [
        iam.PolicyStatement(
            sid="TlsOnly",
            effect=iam.Effect.DENY,
            principals=[iam.AnyPrincipal()],
            actions=["*"],
            conditions={"Bool": {"aws:SecureTransport": "false"}},
        ),
        iam.PolicyStatement(
            sid="ByAccessPointOnly",
            effect=iam.Effect.DENY,
            principals=[iam.AnyPrincipal()],
            actions=mount,
            conditions={"Null": {_ACCESS_POINT: "true"}},
        ),
    ]
