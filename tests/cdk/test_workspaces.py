"""Workspaces on AWS: the file system, the cluster, network access and permissions (WS-9, WS-10)."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dpp.workspaces.providers.aws_settings import AwsWorkspaceSettings
from dpp_cli.paths import ROOT
from tests.cdk.conftest import IMAGE
from tests.cdk.template import Assembly, Stack
from tests.cdk.test_nag import nag

if TYPE_CHECKING:
    from dpp_cdk.settings.config import Deployment

CONTROLS = "api_docs"
type Synthesize = Callable[["Deployment"], tuple[Assembly, Mapping[str, str]]]


@pytest.fixture(scope="module")
def synthesized(node: None, tmp_path_factory: pytest.TempPathFactory) -> Synthesize:
    """Synthesizes the construct in its network, with a control function."""

    def synthesized(deployment: "Deployment") -> tuple[Assembly, Mapping[str, str]]:
        from aws_cdk import App
        from aws_cdk import Stack as CdkStack

        from dpp_cdk.functions import table
        from dpp_cdk.functions.function import FunctionRecipe, LambdaFunction, Layers
        from dpp_cdk.nag import check
        from dpp_cdk.resources.storage import BucketLife, ObjectBucket, ResultStore, archives
        from dpp_cdk.resources.workspaces import Workspaces
        from dpp_cdk.stacks.network import NetworkStack

        context = json.loads((ROOT / "cdk.json").read_text())["context"]
        app = App(outdir=str(tmp_path_factory.mktemp("cdk.out")), context=context)
        network = NetworkStack(app, "Dpp-network", deployment, workspaces=True)
        data = CdkStack(app, "Dpp-data")
        results = ResultStore(data, "Results", BucketLife(keeps_data=True, empties_itself=False))
        life = BucketLife(keeps_data=deployment.keeps_data, empties_itself=True)
        ObjectBucket(data, "Archives", archives(), access_log=results.access_log, life=life)
        workspaces = Workspaces(data, "Workspaces", deployment, network, image=IMAGE)
        stack = CdkStack(app, "Dpp-app")
        recipe = FunctionRecipe(
            deployment=deployment,
            layers=Layers(stack, "Layers", deployment).versions,
            variables=workspaces.variables,
            secret_arns={},
            resource_arns={},
            place=network.functions,
            findings={},
            homes=workspaces.file_system_mount,
        )
        spec = dataclasses.replace(table.API_DOCS, timing=table.OPERATE.timing, in_network=True, mounts_homes=True)
        workspaces.controlled_by(LambdaFunction(stack, recipe, spec))
        check(app)
        assembly = app.synth()
        return (
            Assembly(
                {stack.stack_name.removeprefix("Dpp-"): stack.template for stack in assembly.stacks},
                report=Path(assembly.directory) / "validation-report.json",
            ),
            workspaces.variables,
        )

    return synthesized


@pytest.fixture(scope="module")
def kept(synthesized: Synthesize, deployment: "Deployment") -> tuple[Assembly, Mapping[str, str]]:
    """Size prod."""
    return synthesized(deployment)


@pytest.fixture(scope="module")
def made(kept: tuple[Assembly, Mapping[str, str]]) -> Stack:
    """All stacks as one template."""
    return kept[0].whole


@pytest.fixture(scope="module")
def torn(synthesized: Synthesize, deployment: "Deployment") -> Stack:
    """Size dev."""
    from dpp_cdk.settings.sizes import DEV

    return synthesized(dataclasses.replace(deployment, stage="dev", size=DEV))[0].whole


class TestFileSystem:
    def test_homes_are_encrypted_at_rest_and_in_transit(self, made: Stack) -> None:
        homes = made.one("AWS::EFS::FileSystem")
        assert homes["Encrypted"] is True
        assert homes["ThroughputMode"] == "elastic"
        assert {"TransitionToIA": "AFTER_30_DAYS"} in homes["LifecyclePolicies"]
        refused = {s["Sid"]: s for s in homes["FileSystemPolicy"]["Statement"]}
        assert refused["TlsOnly"]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        assert refused["ByAccessPointOnly"]["Condition"] == {"Null": {"elasticfilesystem:AccessPointArn": "true"}}
        assert {s["Effect"] for s in refused.values()} == {"Deny"}  # so that anonymous access is impossible

    def test_homes_are_kept_and_backed_up_if_the_size_keeps_data(self, made: Stack, torn: Stack) -> None:
        for stack, backup, policy in ((made, {"Status": "ENABLED"}, "Retain"), (torn, None, "Delete")):
            ((id, homes),) = stack.all("AWS::EFS::FileSystem").items()
            assert homes.get("BackupPolicy") == backup
            assert stack.template["Resources"][id]["DeletionPolicy"] == policy

    def test_each_zone_has_a_mount_target_and_functions_mount_as_root(self, made: Stack) -> None:
        targets = made.all("AWS::EFS::MountTarget").values()
        assert len(targets) == 2
        assert all("HomesGroup" in json.dumps(target["SecurityGroups"]) for target in targets)
        point = made.one("AWS::EFS::AccessPoint")
        assert point["RootDirectory"] == {"Path": "/"}
        assert point["PosixUser"] == {"Uid": "0", "Gid": "0"}

    def test_a_function_mounts_only_by_the_root_access_point(self, made: Stack) -> None:
        (mounted,) = made.function(CONTROLS)["FileSystemConfigs"]
        assert mounted["LocalMountPath"] == "/mnt/homes"
        (point,) = made.all("AWS::EFS::AccessPoint")
        assert {"Ref": point} in mounted["Arn"]["Fn::Join"][1]
        (may,) = (s for s in made.statements(CONTROLS) if "elasticfilesystem:ClientMount" in s["Action"])
        assert sorted(may["Action"]) == [f"elasticfilesystem:Client{what}" for what in ("Mount", "RootAccess", "Write")]
        assert may["Condition"] == {"ArnEquals": {"elasticfilesystem:AccessPointArn": mounted["Arn"]}}


class TestNetwork:
    def test_only_functions_and_containers_reach_the_homes(self, made: Stack) -> None:
        assert _who_reaches(made, 2049) == {("Functions", "Homes"), ("Workspaces", "Homes")}

    def test_a_container_reaches_only_its_home_image_and_log(self, made: Stack) -> None:
        to = {
            (target, port)
            for port in (443, 2049, 5432, 6379)
            for source, target in _who_reaches(made, port)
            if source == "Workspaces"
        }
        assert to == {("Homes", 2049), ("WorkspaceEndpoints", 443)}
        reached = {
            json.dumps(endpoint["ServiceName"])
            for endpoint in made.all("AWS::EC2::VPCEndpoint").values()
            if "WorkspaceEndpointsGroup" in json.dumps(endpoint.get("SecurityGroupIds"))
        }
        assert len(reached) == 3
        for service in ("ecr.api", "ecr.dkr", "logs"):
            assert any(f".{service}" in name for name in reached)

    def test_nothing_reaches_a_container(self, made: Stack) -> None:
        rules = made.all("AWS::EC2::SecurityGroupIngress").values()
        assert not [r for r in rules if _group(r["GroupId"]) == "Workspaces"]

    def test_workspaces_add_no_route_to_the_internet(self, made: Stack) -> None:
        for kind in ("InternetGateway", "NatGateway", "Route"):
            assert made.all(f"AWS::EC2::{kind}") == {}

    def test_functions_reach_the_endpoints_that_they_call(self, made: Stack) -> None:
        names = [json.dumps(e["ServiceName"]) for e in made.all("AWS::EC2::VPCEndpoint").values()]
        for service in ("ecs", "elasticfilesystem"):
            assert any(name.rstrip('"]}').endswith(f".{service}") for name in names)

    def test_other_subnets_keep_their_addresses(self, made: Stack, deployment: "Deployment") -> None:
        from aws_cdk import App
        from aws_cdk.assertions import Template

        from dpp_cdk.stacks.network import NetworkStack

        network = Template.from_stack(NetworkStack(App(), "Dpp-network", deployment))
        without = network.find_resources("AWS::EC2::Subnet")
        before = {id: subnet["Properties"]["CidrBlock"] for id, subnet in without.items()}
        after = {id: subnet["CidrBlock"] for id, subnet in made.all("AWS::EC2::Subnet").items()}
        assert before.items() < after.items()

    def test_a_network_without_workspaces_refuses_them(self, deployment: "Deployment") -> None:
        from aws_cdk import App

        from dpp_cdk.stacks.network import NetworkStack

        network = NetworkStack(App(), "Dpp-network", deployment)
        with pytest.raises(ValueError, match="without workspaces"):
            _ = network.workspaces


class TestPermissions:
    def test_a_container_may_only_mount(self, made: Stack) -> None:
        (statement,) = _role_statements(made, "WorkspacesTaskRole")
        assert statement["Action"] == ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"]
        (homes,) = made.all("AWS::EFS::FileSystem")
        assert statement["Resource"] == {"Fn::GetAtt": [homes, "Arn"]}
        (point,) = made.all("AWS::EFS::AccessPoint")
        but = statement["Condition"]["ArnNotEquals"]["elasticfilesystem:AccessPointArn"]
        assert {"Ref": point} in but["Fn::Join"][1]
        assert _managed(made, "WorkspacesTaskRole") == []

    def test_ecs_may_pull_one_image_and_write_one_log(self, made: Stack) -> None:
        statements = _role_statements(made, "WorkspacesExecutionRole")
        allowed = {action: s["Resource"] for s in statements for action in _list(s["Action"])}
        assert set(allowed) == {
            "ecr:GetAuthorizationToken",
            "ecr:BatchCheckLayerAvailability",
            "ecr:BatchGetImage",
            "ecr:GetDownloadUrlForLayer",
            "logs:CreateLogStream",
            "logs:PutLogEvents",
        }
        assert ":ecr:us-east-1:123456789012:repository/dpp/workspace" in json.dumps(allowed["ecr:BatchGetImage"])
        assert "WorkspacesLogs" in json.dumps(allowed["logs:PutLogEvents"])
        assert _managed(made, "WorkspacesExecutionRole") == []

    @pytest.mark.parametrize("role", ["WorkspacesTaskRole", "WorkspacesExecutionRole"])
    def test_only_ecs_may_assume_the_roles_and_only_for_this_account(self, made: Stack, role: str) -> None:
        ((_, found),) = [(id, r) for id, r in made.all("AWS::IAM::Role").items() if id.startswith(role)]
        (trust,) = found["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Principal"] == {"Service": "ecs-tasks.amazonaws.com"}
        assert trust["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}

    def test_a_control_function_has_exactly_these_permissions(self, made: Stack) -> None:
        allowed = {
            action: statement
            for statement in made.statements(CONTROLS)
            for action in _list(statement["Action"])
            if action.split(":")[0] in ("ecs", "elasticfilesystem", "iam") and ":Client" not in action
        }
        services = ("ecs:CreateService", "ecs:UpdateService", "ecs:DeleteService", "ecs:DescribeServices")
        for action in services:
            assert ":service/dpp-prod-workspaces/ws-*" in json.dumps(allowed[action]["Resource"])
        definitions = {a for a in allowed if "TaskDefinition" in a}
        assert {json.dumps(allowed[action]["Resource"]) for action in definitions} == {'"*"'}
        assert allowed["ecs:ListTasks"]["Condition"]["ArnEquals"].keys() == {"ecs:cluster"}
        assert allowed["iam:PassRole"]["Condition"] == {
            "StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}
        }
        assert len(allowed["iam:PassRole"]["Resource"]) == 2
        delete = allowed["elasticfilesystem:DeleteAccessPoint"]["Condition"]
        assert delete == {"StringLike": {"aws:ResourceTag/Name": "ws-*-home"}}
        assert set(allowed) == {
            *services,
            "ecs:DescribeTasks",
            "ecs:ListTasks",
            "ecs:RegisterTaskDefinition",
            "ecs:DeregisterTaskDefinition",
            "ecs:DescribeTaskDefinition",
            "ecs:ListTaskDefinitions",
            "iam:PassRole",
            "elasticfilesystem:CreateAccessPoint",
            "elasticfilesystem:TagResource",
            "elasticfilesystem:DescribeAccessPoints",
            "elasticfilesystem:DeleteAccessPoint",
        }


class TestRest:
    def test_the_cluster_has_insights_and_its_log_expires(self, made: Stack) -> None:
        (setting,) = made.one("AWS::ECS::Cluster")["ClusterSettings"]
        assert setting == {"Name": "containerInsights", "Value": "enabled"}
        logs = [g for id, g in made.all("AWS::Logs::LogGroup").items() if id.startswith("WorkspacesLogs")]
        assert [group["RetentionInDays"] for group in logs] == [7]

    def test_the_construct_provides_every_variable_of_the_aws_provider(
        self, kept: tuple[Assembly, Mapping[str, str]]
    ) -> None:
        given = set(kept[1])
        assert set(AwsWorkspaceSettings.variables(required_only=True)) <= given
        assert given <= set(AwsWorkspaceSettings.variables())

    def test_an_archive_can_be_restored_for_a_week(self, made: Stack) -> None:
        ((id, bucket),) = [(id, b) for id, b in made.all("AWS::S3::Bucket").items() if id.startswith("ArchivesBucket")]
        assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
        assert bucket["PublicAccessBlockConfiguration"] == {
            "BlockPublicAcls": True,
            "BlockPublicPolicy": True,
            "IgnorePublicAcls": True,
            "RestrictPublicBuckets": True,
        }
        assert "BucketEncryption" in bucket
        (rule,) = bucket["LifecycleConfiguration"]["Rules"]
        assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 7}
        assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
        assert "ExpirationInDays" not in rule  # an archive is kept until the collector deletes it
        assert made.tls_only("AWS::S3::BucketPolicy", "Bucket", id)

    def test_every_finding_is_acknowledged(self, kept: tuple[Assembly, Mapping[str, str]]) -> None:
        report = nag(kept[0])
        assert (report["conclusion"], report["violations"]) == ("success", [])
        rules = {finding["ruleName"] for finding in report["suppressedViolations"]}
        here = "arn:<AWS::Partition>:{}:<AWS::Region>:<AWS::AccountId>:{}"
        assert {rule.removeprefix("AwsSolutions-") for rule in rules} == {
            "L1",
            "IAM5[Resource::*]",
            f"IAM5[Resource::{here.format('ecs', 'service/dpp-prod-workspaces/ws-*')}]",
            f"IAM5[Resource::{here.format('ecs', 'task/dpp-prod-workspaces/*')}]",
            f"IAM5[Resource::{here.format('elasticfilesystem', 'access-point/*')}]",
        }

    def test_an_image_that_is_not_from_ecr_is_refused(self, deployment: "Deployment") -> None:
        from aws_cdk import App
        from aws_cdk import Stack as CdkStack

        from dpp_cdk.resources.workspaces import Workspaces
        from dpp_cdk.settings.config import DeploymentError
        from dpp_cdk.stacks.network import NetworkStack

        app = App()
        network = NetworkStack(app, "Dpp-network", deployment, workspaces=True)
        with pytest.raises(DeploymentError, match="ECR"):
            Workspaces(CdkStack(app, "Dpp-data"), "W", deployment, network, image="docker.io/library/debian:13")


def _group(reference: object) -> str:
    """`Functions` of a reference to `FunctionsGroup…`."""
    return json.dumps(reference).split('"')[3].split("Group")[0]


def _who_reaches(stack: Stack, port: int) -> set[tuple[str, str]]:
    rules = stack.all("AWS::EC2::SecurityGroupIngress").values()
    return {
        (_group(r["SourceSecurityGroupId"]), _group(r["GroupId"]))
        for r in rules
        if r["FromPort"] <= port <= r["ToPort"]
    }


def _role_statements(stack: Stack, role: str) -> list[Mapping[str, Any]]:
    return [
        statement
        for policy in stack.all("AWS::IAM::Policy").values()
        if any(r.get("Ref", "").startswith(role) for r in policy["Roles"])
        for statement in policy["PolicyDocument"]["Statement"]
    ]


def _managed(stack: Stack, role: str) -> list[Any]:
    return [
        arn
        for id, found in stack.all("AWS::IAM::Role").items()
        if id.startswith(role)
        for arn in found.get("ManagedPolicyArns", [])
    ]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
