"""Workspaces on AWS: the file system of their homes, the cluster of their containers, and who may do what (WS-9).

A container runs other people's code. It gets one home, by an access point that shows no other, an image, a log, and no
permission of AWS but to mount.
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
"""Where a function finds the file system: the volumes' root, which can't lie deeper (providers/access_points.py)."""

_ACCESS_POINT = "elasticfilesystem:AccessPointArn"
_ECR_IMAGE = re.compile(
    r"^(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?"
    r"/(?P<repository>[a-z0-9._/-]+)(:[\w.-]+)?(@sha256:[0-9a-f]{64})?$"
)
_ARCHITECTURES = {"x86_64": "X86_64", "aarch64": "ARM64"}


class Workspaces(Construct):
    """File system, cluster, roles and log. `image`: what containers run, from a registry that the network reaches.

    Raises DeploymentError for an image from anywhere but ECR.
    """

    def __init__(
        self, scope: Construct, id: str, deployment: Deployment, network: NetworkStack, *, image: str
    ) -> None:
        super().__init__(scope, id)
        self._deployment = deployment
        self._image = image
        self._place = network.workspaces
        self._cluster_name = f"dpp-{deployment.stage}-workspaces"
        self.file_system = self._file_system(network)
        self._root = efs.AccessPoint(
            self,
            "Root",
            file_system=self.file_system,
            path="/",
            posix_user=efs.PosixUser(uid="0", gid="0"),
        )
        self._cluster = ecs.Cluster(
            self,
            "Cluster",
            cluster_name=self._cluster_name,
            vpc=network.vpc,
            container_insights_v2=ecs.ContainerInsights.ENABLED,
        )
        self._log_group = logs.LogGroup(
            self,
            "Logs",
            retention=log_retention(self._deployment.retention),
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.task_role = self._task_role()
        self.execution_role = self._execution_role()

    @property
    def variables(self) -> Mapping[str, str]:
        """What functions find here, by environment variable."""
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
        """The whole file system, for control functions: they see every home."""
        return FileSystemMount(
            file_system_arn=self.file_system.file_system_arn,
            access_point_arn=self._root.access_point_arn,
            path=HOMES_PATH,
        )

    def controlled_by(self, function: LambdaFunction) -> None:
        """Let the function start and stop containers, and make and delete access points."""
        cluster = {"ArnEquals": {"ecs:cluster": self._arn("ecs", "cluster", self._cluster_name)}}
        function.permit(
            iam.PolicyStatement(
                actions=[f"ecs:{verb}Service" for verb in ("Create", "Update", "Delete")]
                + ["ecs:DescribeServices"],
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
            "IAM5[Resource::*]": "ECS knows no resource for definitions, nor for a list of tasks but its cluster",
            self._services_finding: "the services of workspaces, which come and go",
            self._finding(
                "ecs", f"task/{self._cluster_name}/*"
            ): "the tasks of workspaces, which come and go",
            self._finding("elasticfilesystem", "access-point/*"): "those that are tagged as a home's",
        }
        for finding, reason in reasons.items():
            function.acknowledge(finding, reason)

    def _access_point_statements(self) -> list[iam.PolicyStatement]:
        """Those of homes, told by their tag from the functions' own, which leads to all of them."""
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
        """Homes that nobody touched for a month cost a tenth; throughput is paid by what is moved."""
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
        """What a container's code may do: mount, by any access point but the one that shows all homes.

        Not by which one: a role is told of no workspace. That the next home can't be mounted rests on its access
        point's id, which no container can ask for.
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
        """What ECS does for a container before its code runs: pull the image, open the log."""
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
            "ECR's token is the account's; what may be pulled with it is the one repository",
        )
        return role

    def _role(self, id: str, description: str) -> iam.Role:
        """A role that ECS takes on for tasks of this account alone (ECS guide, "Task IAM role")."""
        stack = Stack.of(self)
        return iam.Role(
            self,
            id,
            description=description,
            assumed_by=iam.ServicePrincipal(
                "ecs-tasks.amazonaws.com",
                conditions={
                    "StringEquals": {"aws:SourceAccount": stack.account},
                    "ArnLike": {
                        "aws:SourceArn": f"arn:{stack.partition}:ecs:{stack.region}:{stack.account}:*"
                    },
                },
            ),
        )

    def _repository_arn(self) -> str:
        image = _ECR_IMAGE.match(self._image)
        if image is None:
            raise DeploymentError(
                f"workspace image {self._image!r}: from the network there is a way to ECR only, so it has to be"
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
            service=service,
            resource=resource,
            resource_name=name,
            arn_format=ArnFormat.SLASH_RESOURCE_NAME,
        )

    @staticmethod
    def _finding(service: str, resource: str) -> str:
        """What cdk-nag says of a permission on a pattern."""
        return f"IAM5[Resource::arn:<AWS::Partition>:{service}:<AWS::Region>:<AWS::AccountId>:{resource}]"


def _refusals() -> list[iam.PolicyStatement]:
    """Without TLS nobody mounts, nor without an access point; and with a policy nobody does without being allowed to.

    No statement allows: identities of this account are allowed by their own policies.
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
