"""What is deployed, read from the template."""

import dataclasses
import json
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from dpp.platform.config import Settings
from tests.cdk.template import Stack

if TYPE_CHECKING:
    from dpp_cdk.config import Deployment

API_FUNCTIONS = ("runs_submit", "runs_read", "health")
SCHEDULED = ("run_reaper", "run_sweeper", "run_reconcile", "run_retention")
FUNCTIONS = (*API_FUNCTIONS, "run_worker", *SCHEDULED)
OWN_LOGS = {"logs:CreateLogStream", "logs:PutLogEvents"}
CONSUMING = {
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:GetQueueUrl",
    "sqs:GetQueueAttributes",
}


def settings_of(name: str) -> type[Settings]:
    module = import_module(f"{name}.settings")
    (found,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Settings) and value.__module__ == module.__name__
    )
    return found


class TestFunctions:
    def test_every_folder_of_functions_is_deployed(self, stack: Stack, deployment: "Deployment") -> None:
        folders = {path.parent.name for path in deployment.functions.glob("*/handler.py")}
        handlers = {f["Handler"] for f in stack.all("AWS::Lambda::Function").values()}
        assert handlers == {f"{name}.handler.handler" for name in folders}

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_a_function_gets_the_variables_of_its_settings_and_no_other(
        self, stack: Stack, name: str
    ) -> None:
        given = set(stack.function(name)["Environment"]["Variables"])
        assert set(settings_of(name).variables(required_only=True)) <= given
        assert given <= set(settings_of(name).variables())

    @pytest.mark.parametrize("variable", ["DATABASE_URL", "REDIS_URL"])
    def test_a_required_variable_without_a_value_ends_the_synthesis_by_name(
        self, deployment: "Deployment", variable: str
    ) -> None:
        from aws_cdk import App

        from dpp_cdk.config import DeploymentError
        from dpp_cdk.stack import DppStack

        rest = {name: value for name, value in deployment.variables.items() if name != variable}
        with pytest.raises(DeploymentError, match=variable):
            DppStack(App(), "Lacking", dataclasses.replace(deployment, variables=rest))

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_all_functions_run_python_3_13_on_the_architecture_of_the_layers(
        self, stack: Stack, name: str
    ) -> None:
        function = stack.function(name)
        assert function["Runtime"] == "python3.13"
        assert function["Architectures"] == ["arm64"]
        assert len(function["Layers"]) == 2

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_logs_are_kept_for_a_month(self, stack: Stack, name: str) -> None:
        log_group = stack.function(name)["LoggingConfig"]["LogGroup"]["Ref"]
        assert stack.all("AWS::Logs::LogGroup")[log_group]["RetentionInDays"] == 30


class TestRunQueue:
    """RUN-15."""

    def test_visibility_is_120_s_and_no_shorter_than_the_worker_may_take(self, stack: Stack) -> None:
        queue = stack.queue_emptied_by("run_worker")
        assert queue["VisibilityTimeout"] == 120
        assert stack.function("run_worker")["Timeout"] <= queue["VisibilityTimeout"]

    def test_a_message_goes_to_the_dead_letters_after_three_receives(self, stack: Stack) -> None:
        redrive = stack.queue_emptied_by("run_worker")["RedrivePolicy"]
        assert redrive["maxReceiveCount"] == 3
        dead_letters = stack.all("AWS::SQS::Queue")[redrive["deadLetterTargetArn"]["Fn::GetAtt"][0]]
        assert dead_letters["MessageRetentionPeriod"] == 14 * 24 * 3600

    def test_the_worker_gets_one_message_at_a_time_and_reports_each_failure(self, stack: Stack) -> None:
        source = stack.event_source("run_worker")
        assert source["BatchSize"] == 1
        assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]

    def test_every_queue_is_encrypted_and_reached_over_tls_only(self, stack: Stack) -> None:
        queues = stack.all("AWS::SQS::Queue")
        assert len(queues) == 3
        for name, queue in queues.items():
            assert queue["SqsManagedSseEnabled"] is True
            assert stack.tls_only("AWS::SQS::QueuePolicy", "Queues", name)


class TestResults:
    """RUN-30."""

    def test_results_expire_after_30_days_and_abandoned_uploads_after_7(self, stack: Stack) -> None:
        (rule,) = stack.one("AWS::S3::Bucket")["LifecycleConfiguration"]["Rules"]
        assert rule["Status"] == "Enabled"
        assert rule["ExpirationInDays"] == 30
        assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
        assert "Prefix" not in rule

    def test_the_public_is_kept_out(self, stack: Stack) -> None:
        assert stack.one("AWS::S3::Bucket")["PublicAccessBlockConfiguration"] == {
            "BlockPublicAcls": True,
            "BlockPublicPolicy": True,
            "IgnorePublicAcls": True,
            "RestrictPublicBuckets": True,
        }

    def test_the_bucket_is_encrypted_reached_over_tls_only_and_outlives_the_stack(self, stack: Stack) -> None:
        ((name, bucket),) = stack.all("AWS::S3::Bucket").items()
        assert bucket["BucketEncryption"]
        assert stack.tls_only("AWS::S3::BucketPolicy", "Bucket", name)
        assert stack.template["Resources"][name]["DeletionPolicy"] == "Retain"


class TestPermissions:
    """Each role is allowed what its function does, on the resource it does it to."""

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("runs_submit", {"sqs:SendMessage"}),
            ("runs_read", {"s3:GetObject", "sts:AssumeRole"}),
            ("health", {"sqs:GetQueueAttributes", "s3:ListBucket"}),
            ("run_worker", {"s3:PutObject"} | CONSUMING),
            ("run_reaper", CONSUMING),  # its half-minute beat
            ("run_sweeper", set()),
            ("run_reconcile", {"sqs:SendMessage", "s3:GetObject", "s3:ListBucket"}),
            ("run_retention", set()),
        ],
    )
    def test_a_role_has_the_actions_of_its_function_only(
        self, stack: Stack, name: str, expected: set[str]
    ) -> None:
        assert stack.actions(name) == expected | OWN_LOGS

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_each_function_has_a_role_of_its_own_without_a_managed_policy(
        self, stack: Stack, name: str
    ) -> None:
        (role, _) = stack.function(name)["Role"]["Fn::GetAtt"]
        users = [f for f in stack.all("AWS::Lambda::Function").values() if f["Role"]["Fn::GetAtt"][0] == role]
        assert len(users) == 1
        assert "ManagedPolicyArns" not in stack.all("AWS::IAM::Role")[role]

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_a_function_writes_to_its_own_log_group_only(self, stack: Stack, name: str) -> None:
        (statement,) = (s for s in stack.statements(name) if "logs:PutLogEvents" in s["Action"])
        log_group = stack.function(name)["LoggingConfig"]["LogGroup"]["Ref"]
        assert statement["Resource"] == {"Fn::GetAtt": [log_group, "Arn"]}

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_no_statement_covers_every_resource(self, stack: Stack, name: str) -> None:
        for statement in stack.statements(name):
            assert statement["Resource"] != "*"
            assert statement["Effect"] == "Allow"

    @pytest.mark.parametrize("name", ["runs_read", "run_worker", "run_reconcile"])
    def test_objects_are_reached_below_the_prefix_of_results_only(self, stack: Stack, name: str) -> None:
        statements = [s for s in stack.statements(name) if "Object" in json.dumps(s["Action"])]
        assert statements
        for statement in statements:
            assert json.dumps(statement["Resource"]).endswith('"/dpp/*"]]}')


class TestSigningRole:
    """RUN-10: whose credentials sign the URLs of results."""

    @staticmethod
    def role_id(stack: Stack) -> str:
        role: str
        (role, _) = stack.function("runs_read")["Environment"]["Variables"]["DPP_SIGNING_ROLE_ARN"][
            "Fn::GetAtt"
        ]
        return role

    def test_it_reads_results_and_does_nothing_else(self, stack: Stack) -> None:
        policies = stack.all("AWS::IAM::Policy").values()
        (policy,) = (p for p in policies if {"Ref": self.role_id(stack)} in p["Roles"])
        (statement,) = policy["PolicyDocument"]["Statement"]
        assert (statement["Effect"], statement["Action"]) == ("Allow", "s3:GetObject")
        assert json.dumps(statement["Resource"]).endswith('"/dpp/*"]]}')
        assert "ManagedPolicyArns" not in stack.all("AWS::IAM::Role")[self.role_id(stack)]

    def test_only_the_reader_may_assume_it(self, stack: Stack) -> None:
        (statement,) = stack.all("AWS::IAM::Role")[self.role_id(stack)]["AssumeRolePolicyDocument"][
            "Statement"
        ]
        reader = stack.function("runs_read")["Role"]
        assert (statement["Effect"], statement["Action"]) == ("Allow", "sts:AssumeRole")
        assert statement["Principal"] == {"AWS": reader}

    def test_the_reader_may_assume_no_other(self, stack: Stack) -> None:
        (statement,) = (s for s in stack.statements("runs_read") if s["Action"] == "sts:AssumeRole")
        assert statement["Resource"] == {"Fn::GetAtt": [self.role_id(stack), "Arn"]}


class TestSchedules:
    @pytest.mark.parametrize("name", SCHEDULED)
    def test_a_scheduled_function_fires_each_minute(self, stack: Stack, name: str) -> None:
        (rule,) = stack.rules_that_fire(name)
        assert rule["ScheduleExpression"] == "rate(1 minute)"
        assert rule["State"] == "ENABLED"

    def test_the_reaper_is_fired_again_30_s_later(self, stack: Stack) -> None:
        """RUN-20, D10."""
        (rule,) = stack.rules_that_fire("run_reaper")
        (queue_id,) = (
            target["Arn"]["Fn::GetAtt"][0]
            for target in rule["Targets"]
            if target["Arn"]["Fn::GetAtt"][0] in stack.all("AWS::SQS::Queue")
        )
        beat = stack.all("AWS::SQS::Queue")[queue_id]
        assert stack.queue_emptied_by("run_reaper") == beat
        assert beat["DelaySeconds"] == 30

    def test_a_beat_that_is_late_is_dropped(self, stack: Stack) -> None:
        assert stack.queue_emptied_by("run_reaper")["MessageRetentionPeriod"] == 60

    @pytest.mark.parametrize(
        ("name", "period_seconds"),
        [("run_reaper", 30), ("run_sweeper", 60), ("run_reconcile", 60), ("run_retention", 60)],
    )
    def test_a_firing_ends_before_the_next(self, stack: Stack, name: str, period_seconds: int) -> None:
        assert stack.function(name)["Timeout"] <= period_seconds

    @pytest.mark.parametrize("name", SCHEDULED)
    def test_a_failed_firing_is_left_to_the_next(self, stack: Stack, name: str) -> None:
        configs = stack.all("AWS::Lambda::EventInvokeConfig").values()
        (config,) = (c for c in configs if c["FunctionName"] == {"Ref": stack.function_id(name)})
        assert config["MaximumRetryAttempts"] == 0


class TestApi:
    @pytest.mark.parametrize("name", API_FUNCTIONS)
    def test_a_function_answers_before_the_gateway_gives_up(self, stack: Stack, name: str) -> None:
        assert stack.function(name)["Timeout"] < 29

    def test_every_method_of_every_path_goes_to_a_function(self, stack: Stack) -> None:
        """So that 404 and 405 are problem documents of our own (RUN-9)."""
        methods = stack.all("AWS::ApiGateway::Method").values()
        assert {method["HttpMethod"] for method in methods} == {"ANY"}
        assert {method["Integration"]["Type"] for method in methods} == {"AWS_PROXY"}
        resources = stack.all("AWS::ApiGateway::Resource")
        with_method = {json.dumps(method["ResourceId"]) for method in methods}
        assert all(json.dumps({"Ref": name}) in with_method for name in resources)

    def test_what_the_gateway_answers_itself_is_a_problem_document_with_cost_headers(
        self, stack: Stack
    ) -> None:
        """RUN-9, RUN-13."""
        responses = stack.all("AWS::ApiGateway::GatewayResponse").values()
        kinds = {response["ResponseType"] for response in responses}
        assert {"REQUEST_TOO_LARGE", "THROTTLED", "DEFAULT_4XX", "DEFAULT_5XX"} <= kinds
        for response in responses:
            headers = response["ResponseParameters"]
            assert headers["gatewayresponse.header.Content-Type"] == "'application/problem+json'"
            for name in ("Cost-Reserved", "Cost-Used", "Budget-Remaining"):
                assert headers[f"gatewayresponse.header.X-DPP-{name}"] == "'0.0000'"
            assert headers["gatewayresponse.header.X-DPP-Tokens-Consumed"] == "'0'"
            (template,) = response["ResponseTemplates"].values()
            document = json.loads(template)
            assert str(document["status"]) == response["StatusCode"]
            assert {"type", "title", "detail", "instance", "reason_code", "trace_id"} < set(document)

    def test_the_stage_does_not_repeat_the_version_of_the_path(self, stack: Stack) -> None:
        assert stack.one("AWS::ApiGateway::Stage")["StageName"] == "prod"
