"""The network: where the functions stand, what they reach, and that nothing leads out (PLAT-2).

There is no internet gateway and no NAT: functions, database and cache stand in subnets whose only routes are to
each other and to AWS by endpoints. What has to meet the internet (the url pack, a model elsewhere) runs in a
function outside of this network (`functions.PACK_OUTSIDE`), so that a page that tricks it finds no database, no
cache and no route to them. A NAT would cost 33 USD a month and zone, and would put the two in one network.

Endpoints are those that the code calls. None for CloudWatch: Lambda carries a function's output to its log
group by itself, metrics are lines of that log (EMF), and an interface endpoint costs 7 USD a month and zone.

With workspaces there are subnets for their containers, which run other people's code: from there leads a way to the
homes, to the images and to the containers' log, and none to functions, database, cache or queues.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct

from dpp_cdk.settings.config import Deployment

POSTGRES_PORT = 5432
REDIS_PORT = 6379
NFS_PORT = 2049
_TLS_PORT = 443
_FUNCTIONS, _DATA, _WORKSPACES = "Functions", "Data", "Workspaces"
_MASKS = {_FUNCTIONS: 20, _DATA: 24}

_ENDPOINTS = {
    "Sqs": ec2.InterfaceVpcEndpointAwsService.SQS,
    "SecretsManager": ec2.InterfaceVpcEndpointAwsService.SECRETS_MANAGER,
    "Sts": ec2.InterfaceVpcEndpointAwsService.STS,  # the role that signs presigned URLs
    "Lambda": ec2.InterfaceVpcEndpointAwsService.LAMBDA_,  # the worker calls the function outside
}
# Which functions call for workspaces.
_CONTROL_ENDPOINTS = {
    "Ecs": ec2.InterfaceVpcEndpointAwsService.ECS,
    "ElasticFileSystem": ec2.InterfaceVpcEndpointAwsService.ELASTIC_FILESYSTEM,
}
# By which Fargate pulls an image and writes a container's log, over the container's own interface. The layers of an
# image come from S3.
_CONTAINER_ENDPOINTS = {
    "EcrApi": ec2.InterfaceVpcEndpointAwsService.ECR,
    "EcrDocker": ec2.InterfaceVpcEndpointAwsService.ECR_DOCKER,
    "Logs": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
}


@dataclass(frozen=True)
class Place:
    """Where something stands: a VPC, the subnets there, and what it may talk to."""

    vpc: ec2.IVpc
    subnets: ec2.SubnetSelection
    security_group: ec2.ISecurityGroup

    def closed_group(self, scope: Construct, id: str) -> ec2.ISecurityGroup:
        """The security group, to which nothing can be added: the rules are the network's, all in one place."""
        return ec2.SecurityGroup.from_security_group_id(
            scope, id, self.security_group.security_group_id, mutable=False
        )


class NetworkStack(Stack):
    """VPC, subnets, endpoints, and one security group a kind of thing.

    `workspaces`: whether it has room for them. Their subnets come last, so that the others keep their addresses.
    """

    def __init__(
        self, scope: Construct, id: str, deployment: Deployment, *, workspaces: bool = False
    ) -> None:
        super().__init__(
            scope,
            id,
            description="DPP: the network",
            termination_protection=deployment.keeps_data,
        )
        size = deployment.size
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=size.availability_zones,
            nat_gateways=0,
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name=name, subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=mask
                )
                for name, mask in (_MASKS | ({_WORKSPACES: 20} if workspaces else {})).items()
            ],
        )
        self._log_refusals(deployment)
        self._functions = self._group("FunctionsGroup", "Functions of the platform")
        self._endpoints = self._group("EndpointsGroup", "Interface endpoints")
        self._proxy = self._group("ProxyGroup", "RDS Proxy")
        self._database = self._group("DatabaseGroup", "Postgres")
        self._cache = self._group("CacheGroup", "Valkey")
        self._allow(
            (self._functions, self._proxy, POSTGRES_PORT),
            (self._functions, self._database, POSTGRES_PORT),
            (self._proxy, self._database, POSTGRES_PORT),
            (self._functions, self._cache, REDIS_PORT),
            (self._functions, self._endpoints, _TLS_PORT),
        )
        self._allow_s3(self._functions)
        self.vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        self._reach_aws(_ENDPOINTS, self._endpoints, size.endpoint_zones)
        self._rooms = self._make_room(size.endpoint_zones) if workspaces else None
        self._outputs()

    @property
    def functions(self) -> Place:
        """Where functions stand that need the database or the cache."""
        return self._place(_FUNCTIONS, self._functions)

    @property
    def database(self) -> Place:
        """Where Postgres stands."""
        return self._place(_DATA, self._database)

    @property
    def proxy(self) -> Place:
        """Where RDS Proxy stands."""
        return self._place(_DATA, self._proxy)

    @property
    def cache(self) -> Place:
        """Where Valkey stands."""
        return self._place(_DATA, self._cache)

    @property
    def homes(self) -> Place:
        """Where the file system of workspaces stands. Raises ValueError where there is no room for them."""
        return self._place(_DATA, self._made_room()[0])

    @property
    def workspaces(self) -> Place:
        """Where the containers of workspaces stand. Raises ValueError where there is no room for them."""
        return self._place(_WORKSPACES, self._made_room()[1])

    def _place(self, subnets: str, group: ec2.SecurityGroup) -> Place:
        return Place(self.vpc, ec2.SubnetSelection(subnet_group_name=subnets), group)

    def _group(self, id: str, description: str) -> ec2.SecurityGroup:
        return ec2.SecurityGroup(
            self,
            id,
            vpc=self.vpc,
            description=description,
            allow_all_outbound=False,
            disable_inline_rules=True,
        )

    def _make_room(self, endpoint_zones: int) -> tuple[ec2.SecurityGroup, ec2.SecurityGroup]:
        """The groups of the homes and of the containers, and all that may talk to either."""
        homes = self._group("HomesGroup", "Homes of workspaces")
        containers = self._group("WorkspacesGroup", "Containers of workspaces")
        endpoints = self._group("WorkspaceEndpointsGroup", "Interface endpoints of containers")
        self._allow(
            (self._functions, homes, NFS_PORT),
            (containers, homes, NFS_PORT),
            (containers, endpoints, _TLS_PORT),
        )
        self._allow_s3(containers)
        self._reach_aws(_CONTROL_ENDPOINTS, self._endpoints, endpoint_zones)
        self._reach_aws(_CONTAINER_ENDPOINTS, endpoints, endpoint_zones)
        return homes, containers

    def _made_room(self) -> tuple[ec2.SecurityGroup, ec2.SecurityGroup]:
        if self._rooms is None:
            raise ValueError(f"{self.node.path} was made without room for workspaces")
        return self._rooms

    def _allow(self, *allowed: tuple[ec2.SecurityGroup, ec2.SecurityGroup, int]) -> None:
        """Everything that may talk to anything is said by a call of this."""
        for source, target, port in allowed:
            target.add_ingress_rule(source, ec2.Port.tcp(port))
            source.add_egress_rule(target, ec2.Port.tcp(port))

    def _allow_s3(self, group: ec2.SecurityGroup) -> None:
        """S3 answers from public addresses, which only its gateway endpoint routes to from here.

        Its prefix list would say so more narrowly, but has another id in every region, and a synthesis looks nothing
        up.
        """
        group.add_egress_rule(
            ec2.Peer.any_ipv4(),
            ec2.Port.tcp(_TLS_PORT),
            "S3, by its gateway endpoint: no other route leads out",
        )

    def _reach_aws(
        self,
        services: Mapping[str, ec2.InterfaceVpcEndpointAwsService],
        group: ec2.SecurityGroup,
        zones: int,
    ) -> None:
        subnets = self.vpc.select_subnets(subnet_group_name=_FUNCTIONS).subnets[:zones]
        for name, service in services.items():
            self.vpc.add_interface_endpoint(
                name,
                service=service,
                subnets=ec2.SubnetSelection(subnets=subnets),
                security_groups=[group],
                open=False,
            )

    def _outputs(self) -> None:
        """Where an operator's shell stands to reach what functions reach (docs/deploy.md)."""
        subnets = self.vpc.select_subnets(subnet_group_name=_FUNCTIONS).subnet_ids
        for name, value in {
            "VpcId": self.vpc.vpc_id,
            "FunctionsSubnetIds": ",".join(subnets),
            "FunctionsSecurityGroupId": self._functions.security_group_id,
            "DatabaseSecurityGroupId": self._database.security_group_id,
        }.items():
            CfnOutput(self, name, value=value)

    def _log_refusals(self, deployment: Deployment) -> None:
        """What was refused is what an investigation asks for, and costs next to nothing."""
        group = logs.LogGroup(
            self,
            "Refused",
            retention=logs.RetentionDays.THREE_MONTHS,
            removal_policy=RemovalPolicy.RETAIN if deployment.keeps_data else RemovalPolicy.DESTROY,
        )
        self.vpc.add_flow_log(
            "FlowLog",
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(group),
            traffic_type=ec2.FlowLogTrafficType.REJECT,
        )
