"""Postgres on RDS (PLAT-2): encrypted, TLS only, with a password that RDS creates and rotates in Secrets Manager."""

from collections.abc import Mapping

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from aws_cdk import aws_rds as rds
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from dpp_cdk.functions.log_retention import log_retention
from dpp_cdk.nag import acknowledge
from dpp_cdk.settings.config import Deployment
from dpp_cdk.settings.sizes import Size
from dpp_cdk.stacks.network import POSTGRES_PORT, NetworkStack

_NAME = "dpp"
_OWNER = "dpp"
_LOGS = ("postgresql", "upgrade")
_ENGINE = rds.DatabaseInstanceEngine.postgres(version=rds.PostgresEngineVersion.VER_17)
"""One major version below the local stack's: the newest that RDS Proxy is known to support."""


class Database(Construct):
    """The instance, and its proxy if the size has one; functions connect by `variables`."""

    def __init__(self, scope: Construct, id: str, deployment: Deployment, network: NetworkStack) -> None:
        super().__init__(scope, id)
        size = deployment.size
        self.identifier = f"dpp-{deployment.stage}"
        log_groups = [self._log_group(name, deployment) for name in _LOGS]
        self.instance = self._instance(size, network)
        self.instance.node.add_dependency(*log_groups)
        secret = self.instance.secret
        if secret is None:
            raise ValueError("RDS manages the password, but the instance has no secret")
        self.secret: secretsmanager.ISecret = secret
        self._host, self._sslmode = self.instance.db_instance_endpoint_address, "require"
        self._acknowledge(size)
        if size.database.proxy:
            self._host, self._sslmode = self._proxy(network).endpoint, "verify-full"

    @property
    def variables(self) -> Mapping[str, str]:
        """The connection's environment variables; the password is only in the secret.

        A proxy's certificate is signed by a public authority and is verified. An instance's is signed by Amazon's
        authority for RDS, which is not in the layer: the connection is encrypted and stays inside the VPC.
        """
        return {
            "DATABASE_HOST": self._host,
            "DATABASE_PORT": str(POSTGRES_PORT),
            "DATABASE_NAME": _NAME,
            "DATABASE_SSLMODE": self._sslmode,
            "DATABASE_SECRET_ARN": self.secret.secret_arn,
        }

    def _instance(self, size: Size, network: NetworkStack) -> rds.DatabaseInstance:
        place, database = network.database, size.database
        return rds.DatabaseInstance(
            self,
            "Instance",
            instance_identifier=self.identifier,
            engine=_ENGINE,
            instance_type=ec2.InstanceType(database.instance_class),
            vpc=place.vpc,
            vpc_subnets=place.subnets,
            security_groups=[place.closed_group(self, "InstanceGroup")],
            port=POSTGRES_PORT,
            database_name=_NAME,
            credentials=rds.Credentials.from_username(_OWNER),
            manage_master_user_password=True,  # rotated every seven days
            parameter_group=rds.ParameterGroup(
                self,
                "Parameters",
                engine=_ENGINE,
                parameters={
                    "rds.force_ssl": "1",
                    "log_min_duration_statement": "1000",
                    # Inputs are parameters, which must not be logged (RUN-31).
                    "log_parameter_max_length": "0",
                    "log_parameter_max_length_on_error": "0",
                    "idle_in_transaction_session_timeout": "60000",
                },
            ),
            allocated_storage=database.storage_gib,
            max_allocated_storage=database.max_storage_gib,
            storage_type=rds.StorageType.GP3,
            storage_encrypted=True,
            multi_az=database.multi_az,
            backup_retention=Duration.days(database.backup_days),
            delete_automated_backups=not size.keeps_data,
            copy_tags_to_snapshot=True,
            deletion_protection=size.keeps_data,
            removal_policy=RemovalPolicy.SNAPSHOT if size.keeps_data else RemovalPolicy.DESTROY,
            auto_minor_version_upgrade=True,
            preferred_backup_window="17:00-18:00",  # 02:00 in Seoul
            preferred_maintenance_window="sun:18:00-sun:19:00",
            cloudwatch_logs_exports=list(_LOGS),
            enable_performance_insights=size.keeps_data,
        )

    def _acknowledge(self, size: Size) -> None:
        acknowledge(
            self.instance,
            "RDS11",
            "its security group admits only the functions and the proxy; another port would not protect it",
        )
        if not size.database.multi_az:
            acknowledge(self.instance, "RDS3", "size dev: costs half, and an hour's outage is acceptable")
        if not size.keeps_data:
            acknowledge(self.instance, "RDS10", "size dev: torn down with its stack")

    def _log_group(self, name: str, deployment: Deployment) -> logs.LogGroup:
        """Created before the instance, because a log group created by RDS never expires."""
        return logs.LogGroup(
            self,
            f"{name.title()}Logs",
            log_group_name=f"/aws/rds/instance/{self.identifier}/{name}",
            retention=log_retention(deployment.retention),
            removal_policy=RemovalPolicy.DESTROY,
        )

    def _proxy(self, network: NetworkStack) -> rds.DatabaseProxy:
        place = network.proxy
        return rds.DatabaseProxy(
            self,
            "Proxy",
            proxy_target=rds.ProxyTarget.from_instance(self.instance),
            secrets=[self.secret],
            vpc=place.vpc,
            vpc_subnets=place.subnets,
            security_groups=[place.closed_group(self, "ProxyGroup")],
            require_tls=True,
            max_connections_percent=90,  # the rest is for operators
            borrow_timeout=Duration.seconds(3),  # a function's own connect timeout
            idle_client_timeout=Duration.minutes(15),
        )
