"""Valkey on ElastiCache (PLAT-2): encrypted in transit and at rest, with a token from Secrets Manager, no eviction."""

from collections.abc import Mapping

from aws_cdk import RemovalPolicy
from aws_cdk import aws_elasticache as elasticache
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from dpp_cdk.nag import acknowledge
from dpp_cdk.settings.config import Deployment
from dpp_cdk.settings.sizes import CacheSize
from dpp_cdk.stacks.network import REDIS_PORT, NetworkStack, Place

_TOKEN_FIELD = "auth_token"  # noqa: S105 - the name of a field


class Cache(Construct):
    """One shard, because a script's keys must be on one node; lost data is rebuilt from Postgres (D2)."""

    def __init__(self, scope: Construct, id: str, deployment: Deployment, network: NetworkStack) -> None:
        super().__init__(scope, id)
        size = deployment.size.cache
        identifier = f"dpp-{deployment.stage}"
        self.nodes = [f"{identifier}-{number:03}" for number in range(1, size.nodes + 1)]
        self.secret = self._token()
        self.group = self._group(identifier, size, network.cache)
        self.group.apply_removal_policy(RemovalPolicy.SNAPSHOT if deployment.keeps_data else RemovalPolicy.DESTROY)

    @property
    def variables(self) -> Mapping[str, str]:
        """The connection's environment variables; the token is only in the secret."""
        return {
            "REDIS_HOST": self.group.attr_primary_end_point_address,
            "REDIS_PORT": str(REDIS_PORT),
            "REDIS_SECRET_ARN": self.secret.secret_arn,
        }

    def _token(self) -> secretsmanager.Secret:
        secret = secretsmanager.Secret(
            self,
            "Token",
            description="Token of the cache",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                secret_string_template="{}",  # noqa: S106 - the object to which the token is added
                generate_string_key=_TOKEN_FIELD,
                password_length=64,
                exclude_punctuation=True,  # ElastiCache accepts only some characters
            ),
            removal_policy=RemovalPolicy.DESTROY,  # useless without the cache
        )
        acknowledge(
            secret,
            "SMG4",
            "ElastiCache needs two steps for a new token (ROTATE, then SET), which Secrets Manager's rotation does not"
            " support; an operator rotates it (docs/deploy.md), and functions fetch the current one when they connect",
        )
        return secret

    def _group(self, identifier: str, size: CacheSize, place: Place) -> elasticache.CfnReplicationGroup:
        subnets = elasticache.CfnSubnetGroup(
            self,
            "Subnets",
            description="Where the cache stands",
            subnet_ids=place.vpc.select_subnets(subnet_group_name=place.subnets.subnet_group_name).subnet_ids,
        )
        group = elasticache.CfnReplicationGroup(
            self,
            "Group",
            replication_group_id=identifier,
            replication_group_description="Budgets, idempotency keys, rates",
            engine="valkey",
            engine_version="8.0",
            cache_node_type=size.node_type,
            num_cache_clusters=size.nodes,
            automatic_failover_enabled=size.fails_over,
            multi_az_enabled=size.fails_over,
            transit_encryption_enabled=True,
            transit_encryption_mode="required",
            at_rest_encryption_enabled=True,
            # A reference that CloudFormation resolves; the template has no token.
            auth_token=self.secret.secret_value_from_json(_TOKEN_FIELD).unsafe_unwrap(),
            cache_parameter_group_name=self._parameters().ref,
            cache_subnet_group_name=subnets.ref,
            security_group_ids=[place.security_group.security_group_id],
            port=REDIS_PORT,
            snapshot_retention_limit=size.snapshot_days,
            snapshot_window="17:00-18:00",
            preferred_maintenance_window="sun:18:30-sun:19:30",
            auto_minor_version_upgrade=True,
        )
        if not size.fails_over:
            acknowledge(group, "AEC4", "size dev: data lost with the single node is rebuilt from Postgres")
        return group

    def _parameters(self) -> elasticache.CfnParameterGroup:
        return elasticache.CfnParameterGroup(
            self,
            "Parameters",
            cache_parameter_group_family="valkey8",
            description="A budget that was evicted would be a budget lost",
            properties={"maxmemory-policy": "noeviction"},
        )
