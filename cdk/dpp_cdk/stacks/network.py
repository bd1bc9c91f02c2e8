"""The network of the functions and servers, without a route to the internet (PLAT-2).

There is no internet gateway and no NAT: functions, database and cache are in subnets whose only routes lead to each
other and, by endpoints, to AWS. Packs that use the internet (the url pack, a model elsewhere) run in a function outside
of this network (`PACK_OUTSIDE`), so that a malicious page finds no database, no cache and no route to them. A NAT would
cost 33 USD per month and zone, and would put both in one network.

There are endpoints only for the services that the code calls. None for CloudWatch: Lambda delivers a function's output
to its log group, metrics are lines of that log (EMF), and an interface endpoint costs 7 USD per month and zone.

With workspaces there are subnets for their containers, which run other people's code: these can reach the homes, the
images and the containers' log, but not functions, database, cache or queues.
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
    "Lambda": ec2.InterfaceVpcEndpointAwsService.LAMBDA_,  # the worker calls pack_outside
}
# Called by functions for workspaces.
_CONTROL_ENDPOINTS = {
    "Ecs": ec2.InterfaceVpcEndpointAwsService.ECS,
    "ElasticFileSystem": ec2.InterfaceVpcEndpointAwsService.ELASTIC_FILESYSTEM,
}
# Used by Fargate to pull an image and write a container's log, over the container's interface. An image's layers come
# from S3.
_CONTAINER_ENDPOINTS = {
    "EcrApi": ec2.InterfaceVpcEndpointAwsService.ECR,
    "EcrDocker": ec2.InterfaceVpcEndpointAwsService.ECR_DOCKER,
    "Logs": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
}


@dataclass(frozen=True)
class Place:
    """A placement: a VPC, its subnets, and the security group."""

    vpc: ec2.IVpc
    subnets: ec2.SubnetSelection
    security_group: ec2.ISecurityGroup

    def closed_group(self, scope: Construct, id: str) -> ec2.ISecurityGroup:
        """The security group, immutable, because all its rules are in the network stack."""
        return ec2.SecurityGroup.from_security_group_id(scope, id, self.security_group.security_group_id, mutable=False)


class NetworkStack(Stack):
    """VPC, subnets, endpoints, and one security group per kind of resource.

    `workspaces`: with subnets for workspaces. They come last, so that the others keep their addresses.
    """

    def __init__(self, scope: Construct, id: str, deployment: Deployment, *, workspaces: bool = False) -> None:
        super().__init__(scope, id, description="DPP: the network", termination_protection=deployment.keeps_data)
        size = deployment.size
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=size.availability_zones,
            nat_gateways=0,
            subnet_configuration=[
                ec2.SubnetConfiguration(name=name, subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=mask)
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
        self._workspace_groups = self._add_workspaces(size.endpoint_zones) if workspaces else None
        self._outputs()

    @property
    def functions(self) -> Place:
        """The placement of functions that need the database or the cache."""
        return self._place(_FUNCTIONS, self._functions)

    @property
    def database(self) -> Place:
        """The placement of Postgres."""
        return self._place(_DATA, self._database)

    @property
    def proxy(self) -> Place:
        """The placement of RDS Proxy."""
        return self._place(_DATA, self._proxy)

    @property
    def cache(self) -> Place:
        """The placement of Valkey."""
        return self._place(_DATA, self._cache)

    @property
    def homes(self) -> Place:
        """The placement of the file system of workspaces. Raises ValueError without workspaces."""
        return self._place(_DATA, self._require_workspaces()[0])

    @property
    def workspaces(self) -> Place:
        """The placement of the containers of workspaces. Raises ValueError without workspaces."""
        return self._place(_WORKSPACES, self._require_workspaces()[1])

    def _place(self, subnets: str, group: ec2.SecurityGroup) -> Place:
        return Place(self.vpc, ec2.SubnetSelection(subnet_group_name=subnets), group)

    def _group(self, id: str, description: str) -> ec2.SecurityGroup:
        return ec2.SecurityGroup(
            self, id, vpc=self.vpc, description=description, allow_all_outbound=False, disable_inline_rules=True
        )

    def _add_workspaces(self, endpoint_zones: int) -> tuple[ec2.SecurityGroup, ec2.SecurityGroup]:
        """Create the groups of homes and containers with their rules and endpoints."""
        homes = self._group("HomesGroup", "Homes of workspaces")
        containers = self._group("WorkspacesGroup", "Containers of workspaces")
        endpoints = self._group("WorkspaceEndpointsGroup", "Interface endpoints of containers")
        self._allow(
            (self._functions, homes, NFS_PORT), (containers, homes, NFS_PORT), (containers, endpoints, _TLS_PORT)
        )
        self._allow_s3(containers)
        self._reach_aws(_CONTROL_ENDPOINTS, self._endpoints, endpoint_zones)
        self._reach_aws(_CONTAINER_ENDPOINTS, endpoints, endpoint_zones)
        return homes, containers

    def _require_workspaces(self) -> tuple[ec2.SecurityGroup, ec2.SecurityGroup]:
        if self._workspace_groups is None:
            raise ValueError(f"{self.node.path} was built without workspaces")
        return self._workspace_groups

    def _allow(self, *allowed: tuple[ec2.SecurityGroup, ec2.SecurityGroup, int]) -> None:
        """Allow connections from source to target. All rules between groups are calls of this method."""
        for source, target, port in allowed:
            target.add_ingress_rule(source, ec2.Port.tcp(port))
            source.add_egress_rule(target, ec2.Port.tcp(port))

    def _allow_s3(self, group: ec2.SecurityGroup) -> None:
        """Allow S3's public addresses, to which the only route is S3's gateway endpoint.

        S3's prefix list would be narrower, but its id differs by region, and a synthesis looks nothing up.
        """
        group.add_egress_rule(
            ec2.Peer.any_ipv4(), ec2.Port.tcp(_TLS_PORT), "S3, by its gateway endpoint: no other route leads out"
        )

    def _reach_aws(
        self, services: Mapping[str, ec2.InterfaceVpcEndpointAwsService], group: ec2.SecurityGroup, zones: int
    ) -> None:
        subnets = self.vpc.select_subnets(subnet_group_name=_FUNCTIONS).subnets[:zones]
        for name, service in services.items():
            self.vpc.add_interface_endpoint(
                name, service=service, subnets=ec2.SubnetSelection(subnets=subnets), security_groups=[group], open=False
            )

    def _outputs(self) -> None:
        """The outputs for an operator's shell in the functions' network (docs/deploy.md)."""
        subnets = self.vpc.select_subnets(subnet_group_name=_FUNCTIONS).subnet_ids
        for name, value in {
            "VpcId": self.vpc.vpc_id,
            "FunctionsSubnetIds": ",".join(subnets),
            "FunctionsSecurityGroupId": self._functions.security_group_id,
            "DatabaseSecurityGroupId": self._database.security_group_id,
        }.items():
            CfnOutput(self, name, value=value)

    def _log_refusals(self, deployment: Deployment) -> None:
        """Log refused traffic for investigations; it costs almost nothing."""
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
