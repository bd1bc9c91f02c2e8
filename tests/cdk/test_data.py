"""Network, database and cache, by size (PLAT-2)."""

import json

import pytest

from tests.cdk.template import Assembly, Stack
from tests.cdk.test_stack import FUNCTIONS

SIZES = ("prod", "dev")


@pytest.fixture(params=SIZES)
def sized(request: pytest.FixtureRequest) -> Assembly:
    """Each size."""
    found: Assembly = request.getfixturevalue(request.param)
    return found


class TestNetwork:
    def test_no_route_leads_to_the_internet(self, sized: Assembly) -> None:
        network = sized["network"]
        for kind in ("InternetGateway", "NatGateway", "EgressOnlyInternetGateway", "VPCPeeringConnection"):
            assert network.all(f"AWS::EC2::{kind}") == {}
        assert network.all("AWS::EC2::Route") == {}
        assert all(not subnet["MapPublicIpOnLaunch"] for subnet in network.all("AWS::EC2::Subnet").values())

    def test_functions_reach_aws_by_endpoints(self, sized: Assembly) -> None:
        endpoints = sized["network"].all("AWS::EC2::VPCEndpoint").values()
        services = {json.dumps(e["ServiceName"]).split(".")[-1].rstrip('"]}'): e for e in endpoints}
        for_workspaces = {"ecs", "elasticfilesystem", "api", "dkr", "logs"}
        assert set(services) == {"s3", "sqs", "secretsmanager", "sts", "lambda"} | for_workspaces
        zones = 2 if "prod" in json.dumps(sized["app"].template["Outputs"]["Stage"]) else 1
        for name, endpoint in services.items():
            if name != "s3":
                assert (endpoint["VpcEndpointType"], endpoint["PrivateDnsEnabled"]) == ("Interface", True)
                assert len(endpoint["SubnetIds"]) == zones

    def test_security_groups_have_exactly_eight_rules_and_s3(self, sized: Assembly) -> None:
        network = sized["network"]
        ingress = network.all("AWS::EC2::SecurityGroupIngress").values()

        def short(group: object) -> str:
            return json.dumps(group).split('"')[3].split("Group")[0]

        seen = {(short(r["SourceSecurityGroupId"]), short(r["GroupId"]), r["FromPort"]) for r in ingress}
        assert seen == {
            ("Functions", "Proxy", 5432),
            ("Functions", "Database", 5432),
            ("Proxy", "Database", 5432),
            ("Functions", "Cache", 6379),
            ("Functions", "Endpoints", 443),
            ("Functions", "Homes", 2049),
            ("Workspaces", "Homes", 2049),
            ("Workspaces", "WorkspaceEndpoints", 443),
        }
        nobody = "255.255.255.255/32"  # the CDK's rule for "nothing", because no rule would mean everything
        wide = [
            rule
            for rule in network.all("AWS::EC2::SecurityGroupEgress").values()
            if rule.get("CidrIp", nobody) != nobody
        ]
        assert sorted((short(r["GroupId"]), r["CidrIp"], r["FromPort"]) for r in wide) == [
            ("Functions", "0.0.0.0/0", 443),
            ("Workspaces", "0.0.0.0/0", 443),
        ]
        for group in network.all("AWS::EC2::SecurityGroup").values():
            assert "SecurityGroupIngress" not in group
            assert "SecurityGroupEgress" not in group

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_only_functions_that_use_the_internet_and_public_docs_are_outside(self, sized: Assembly, name: str) -> None:
        """RUN-26: functions outside of the VPC know neither database, cache, bucket nor queue."""
        function = sized.whole.function(name)
        given = set(function.get("Environment", {}).get("Variables", {}))
        known = {
            "pack_outside": set[str](),
            "lifecycle_outside": {"DPP_JIRA_URL", "DPP_LIFECYCLE_SECRET_ARN"},  # PLAT-2
            "api_docs": set[str](),  # public
        }
        assert ("VpcConfig" in function) is (name not in known)
        assert name not in known or given == known[name]


class TestDatabase:
    def test_it_is_encrypted_and_requires_tls(self, sized: Assembly) -> None:
        instance = sized.whole.one("AWS::RDS::DBInstance")
        assert instance["StorageEncrypted"] is True
        assert instance["PubliclyAccessible"] is False
        assert sized.whole.one("AWS::RDS::DBParameterGroup")["Parameters"]["rds.force_ssl"] == "1"

    def test_rds_creates_and_rotates_the_password(self, sized: Assembly) -> None:
        assert sized.whole.one("AWS::RDS::DBInstance")["ManageMasterUserPassword"] is True

    def test_logged_statements_have_no_parameters(self, sized: Assembly) -> None:
        """RUN-31: inputs are parameters."""
        parameters = sized.whole.one("AWS::RDS::DBParameterGroup")["Parameters"]
        assert parameters["log_parameter_max_length"] == "0"
        assert parameters["log_parameter_max_length_on_error"] == "0"

    def test_production_has_a_standby_backups_and_deletion_protection(self, prod: Assembly) -> None:
        instance = prod.whole.one("AWS::RDS::DBInstance")
        assert (instance["MultiAZ"], instance["DeletionProtection"]) == (True, True)
        assert instance["BackupRetentionPeriod"] == 14
        assert instance["DeleteAutomatedBackups"] is False
        assert _policy(prod.whole, "AWS::RDS::DBInstance") == "Snapshot"

    def test_production_connects_through_a_proxy_whose_certificate_is_verified(self, prod: Assembly) -> None:
        proxy = prod.whole.one("AWS::RDS::DBProxy")
        assert proxy["RequireTLS"] is True
        for name in FUNCTIONS:
            given = prod.whole.function(name).get("Environment", {}).get("Variables", {})
            if "DATABASE_HOST" in given:
                assert given["DATABASE_SSLMODE"] == "verify-full"
                assert "Proxy" in json.dumps(given["DATABASE_HOST"])

    def test_dev_is_torn_down_completely(self, dev: Assembly) -> None:
        """No resource of any stack is retained, except the account's role for API Gateway's logs."""
        kept = {
            id
            for id, resource in dev.whole.template["Resources"].items()
            if resource.get("DeletionPolicy", "Delete") != "Delete"
        }
        assert all(id.startswith(("ApiRestApiCloudWatchRole", "ApiRestApiAccount")) for id in kept)
        instance = dev.whole.one("AWS::RDS::DBInstance")
        assert (instance["DeletionProtection"], instance["MultiAZ"]) == (False, False)
        assert dev.whole.all("AWS::RDS::DBProxy") == {}
        assert len(dev.whole.all("Custom::S3AutoDeleteObjects")) == 5

    def test_production_keeps_clients_data(self, prod: Assembly) -> None:
        whole = prod.whole
        assert {whole.template["Resources"][id]["DeletionPolicy"] for id in whole.all("AWS::S3::Bucket")} == {"Retain"}
        assert whole.all("Custom::S3AutoDeleteObjects") == {}


class TestCache:
    def test_it_is_encrypted_and_requires_a_token(self, sized: Assembly) -> None:
        group = sized.whole.one("AWS::ElastiCache::ReplicationGroup")
        assert (group["TransitEncryptionEnabled"], group["TransitEncryptionMode"]) == (True, "required")
        assert group["AtRestEncryptionEnabled"] is True
        assert group["Engine"] == "valkey"

    def test_no_budget_is_evicted(self, sized: Assembly) -> None:
        """D2."""
        parameters = sized.whole.one("AWS::ElastiCache::ParameterGroup")["Properties"]
        assert parameters == {"maxmemory-policy": "noeviction"}

    def test_production_fails_over_automatically(self, prod: Assembly, dev: Assembly) -> None:
        group = prod.whole.one("AWS::ElastiCache::ReplicationGroup")
        assert (group["AutomaticFailoverEnabled"], group["MultiAZEnabled"]) == (True, True)
        assert group["NumCacheClusters"] == 2
        assert dev.whole.one("AWS::ElastiCache::ReplicationGroup")["NumCacheClusters"] == 1


class TestLocal:
    def test_the_local_stack_lacks_only_the_servers(self, local: Assembly, dev: Assembly) -> None:
        """PLAT-5: everything else is the same constructs."""
        assert set(local.stacks) == {"data", "app", "observability"}
        missing = {r["Type"] for r in dev.whole.template["Resources"].values()} - {
            r["Type"] for r in local.whole.template["Resources"].values()
        }
        assert {kind.split("::")[1] for kind in missing} <= {
            "EC2",
            "RDS",
            "ElastiCache",
            "SecretsManager",
            "S3AutoDeleteObjects",
            "ECS",
            "EFS",
        }
        for name in FUNCTIONS:
            assert "VpcConfig" not in local.whole.function(name)

    def test_server_urls_are_passed_on_unchanged(self, local: Assembly) -> None:
        given = local.whole.function("runs_submit")["Environment"]["Variables"]
        assert given["DATABASE_URL"] == "postgresql://db.test/dpp"
        assert not any("SECRET" in name for name in given)


def _policy(stack: Stack, kind: str) -> str:
    ((id, _),) = stack.all(kind).items()
    return str(stack.template["Resources"][id]["DeletionPolicy"])
