"""The production templates: functions, queue, results, schedules, API."""

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from dpp.auth_errors.config import RetrySettings
from dpp.lifecycle.retention.periods import Retention
from dpp.platform.config import ConfigurationError, Settings
from dpp.tickets.staleness import LATEST_KEY
from dpp.workspaces.providers.aws_settings import AwsWorkspaceSettings
from dpp_cli.docs.openapi import gateway
from tests.cdk.conftest import LOCAL
from tests.cdk.template import Assembly, Stack

if TYPE_CHECKING:
    from dpp_cdk.settings.config import Deployment

API_FUNCTIONS = (
    *("runs_submit", "runs_read", "runs_mcp", "health", "tickets_api", "auth_errors_api", "workspaces_api"),
    *("lifecycle_webhook", "api_docs"),
)
EVENT_FUNCTIONS = ("auth_errors_publish", "auth_errors_consume", "workspaces_control", "workspaces_storage")
MOUNTING = ("workspaces_control", "workspaces_storage")
"""They also get the variables of the AWS provider."""
JOBS = ("run_reaper", "run_sweeper", "run_reconcile", "run_retention", "ops_cycle", "lifecycle_chamberlain")
ROLES = ("lifecycle_sentinel", "lifecycle_king", "lifecycle_general", "lifecycle_envoy")
SCHEDULED = (*JOBS, *ROLES)
ALONE = (*JOBS, "lifecycle_sentinel")
"""The other roles may be woken during a scheduled invocation."""
HALF_MINUTE = {"run_reaper": "RunReaperBeat", "lifecycle_general": "LifecycleGeneralBeat"}
"""Functions with a tick each half minute, by a queue in between."""
FUNCTIONS = (
    *API_FUNCTIONS,
    "run_worker",
    "pack_outside",
    *EVENT_FUNCTIONS,
    *SCHEDULED,
    "lifecycle_outside",
    "migrate",
    "operate",
)


def settings_of(name: str) -> type[Settings]:
    module = import_module(f"{name}.handler")
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
        assert folders == set(FUNCTIONS)

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_a_function_gets_exactly_the_variables_of_its_settings(self, stack: Stack, name: str) -> None:
        given = stack.function(name).get("Environment", {}).get("Variables", {})
        assert settings_of(name).missing(dict.fromkeys(given, "given")) == []
        known = set(settings_of(name).variables())
        assert set(given) <= known | (set(AwsWorkspaceSettings.variables()) if name in MOUNTING else set())
        assert name not in MOUNTING or AwsWorkspaceSettings.missing(dict.fromkeys(given, "given")) == []

    @pytest.mark.parametrize("variable", LOCAL)
    def test_one_server_url_without_the_other_fails_the_synthesis(
        self, deployment: "Deployment", variable: str
    ) -> None:
        from dpp_cdk.settings.config import DeploymentError

        rest = {name: value for name, value in LOCAL.items() if name != variable}
        with pytest.raises(DeploymentError, match="_URL is set: set DATABASE_URL and REDIS_URL"):
            dataclasses.replace(deployment, variables=rest)

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_all_functions_run_python_3_13_on_the_architecture_of_the_layers(self, stack: Stack, name: str) -> None:
        function = stack.function(name)
        assert function["Runtime"] == "python3.13"
        assert function["Architectures"] == ["arm64"]

    def test_only_migrate_has_the_migrations_layer(self, stack: Stack) -> None:
        """A cold start loads only what it uses."""
        layers = {name: len(stack.function(name)["Layers"]) for name in FUNCTIONS}
        assert layers["migrate"] == layers["operate"] == layers["api_docs"] == 3
        carriers = [name for name in FUNCTIONS if "Migrations" in str(stack.function(name)["Layers"])]
        assert carriers == ["migrate"]
        plain = [one for one in (*API_FUNCTIONS, *EVENT_FUNCTIONS, *SCHEDULED) if one != "api_docs"]
        assert {name: layers[name] for name in plain} == dict.fromkeys(plain, 2)

    def test_only_operate_has_the_command_layer(self, stack: Stack) -> None:
        carriers = [name for name in FUNCTIONS if "Operate" in str(stack.function(name)["Layers"])]
        assert carriers == ["operate"]

    def test_only_api_docs_has_the_description_layer(self, stack: Stack) -> None:
        """It has no variable and no network; tests/cdk/test_permissions.py tests that it has no grants."""
        carriers = [name for name in FUNCTIONS if "ApiDocs" in str(stack.function(name)["Layers"])]
        assert carriers == ["api_docs"]
        function = stack.function("api_docs")
        assert function.get("Environment", {}).get("Variables", {}) == {}
        assert "VpcConfig" not in function

    def test_only_the_worker_has_the_ocr_layer(self, stack: Stack) -> None:
        """RUN-27: no other function loads these 90 MB."""
        carriers = [name for name in FUNCTIONS if "Ocr" in str(stack.function(name)["Layers"])]
        assert carriers == ["run_worker"]

    def test_only_the_functions_that_run_the_url_pack_have_its_layer(self, stack: Stack) -> None:
        """RUN-26: the worker, and its stand-in outside of the VPC."""
        carriers = {name for name in FUNCTIONS if "Url" in str(stack.function(name)["Layers"])}
        assert carriers == {"run_worker", "pack_outside"}

    def test_the_worker_reads_only_inputs_and_envelopes(self, stack: Stack) -> None:
        """RUN-27, RUN-28: objects below inputs/, and below dpp/ the earlier run that an eval run is compared with."""
        reading = [one for one in stack.statements("run_worker") if "s3:GetObject" in str(one["Action"])]
        places = sorted(re.findall(r"/(?:inputs|dpp)/\*|/\*", str([one["Resource"] for one in reading])))
        assert places == ["/dpp/*", "/inputs/*"]

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_logs_are_kept_as_configured(self, stack: Stack, name: str) -> None:
        """LIFE-9: a week by default (test_log_retention.py)."""
        log_group = stack.function(name)["LoggingConfig"]["LogGroup"]["Ref"]
        assert stack.all("AWS::Logs::LogGroup")[log_group]["RetentionInDays"] == 7

    def test_every_log_group_has_a_retention(self, prod: Assembly, dev: Assembly) -> None:
        for whole in (prod.whole, dev.whole):
            groups = whole.all("AWS::Logs::LogGroup")
            assert len(groups) > len(FUNCTIONS)
            assert all(group["RetentionInDays"] <= 90 for group in groups.values())

    def test_a_scan_runs_alone_where_concurrency_is_reserved(self, prod: Assembly, dev: Assembly) -> None:
        """A new account has a concurrency of ten and cannot reserve any of it."""
        for name in FUNCTIONS:
            reserved = prod.whole.function(name).get("ReservedConcurrentExecutions")
            assert reserved == (1 if name in ALONE else None)
            assert "ReservedConcurrentExecutions" not in dev.whole.function(name)

    def test_x_ray_is_off_by_default(
        self, stack: Stack, deployment: "Deployment", described: Callable[["Deployment"], Assembly]
    ) -> None:
        assert all("TracingConfig" not in stack.function(name) for name in FUNCTIONS)
        traced = described(dataclasses.replace(deployment, tracing=True)).whole
        assert all(traced.function(name)["TracingConfig"] == {"Mode": "Active"} for name in FUNCTIONS)
        assert traced.one("AWS::ApiGateway::Stage")["TracingEnabled"] is True


class TestRunQueue:
    """RUN-15."""

    def test_visibility_is_120_s_and_at_least_the_workers_timeout(self, stack: Stack) -> None:
        queue = stack.queue_of_function("run_worker")
        assert queue["VisibilityTimeout"] == 120
        assert stack.function("run_worker")["Timeout"] <= queue["VisibilityTimeout"]

    def test_a_message_becomes_a_dead_letter_after_three_receives(self, stack: Stack) -> None:
        redrive = stack.queue_of_function("run_worker")["RedrivePolicy"]
        assert redrive["maxReceiveCount"] == 3
        dead_letters = stack.all("AWS::SQS::Queue")[redrive["deadLetterTargetArn"]["Fn::GetAtt"][0]]
        assert dead_letters["MessageRetentionPeriod"] == 14 * 24 * 3600

    def test_the_worker_gets_one_message_at_a_time_and_reports_each_failure(self, stack: Stack) -> None:
        source = stack.event_source("run_worker")
        assert source["BatchSize"] == 1
        assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]

    def test_messages_beyond_the_maximum_concurrency_wait_in_the_queue(
        self, prod: Assembly, dev: Assembly, local: Assembly
    ) -> None:
        """A throttled poller would use up a message's three receives."""
        from dpp_cdk.settings.config import LOCAL_MAX_WORKERS
        from dpp_cdk.settings.sizes import DEV, PROD

        most = ((prod, PROD.max_workers), (dev, DEV.max_workers), (local, LOCAL_MAX_WORKERS))
        for assembly, max_workers in most:
            source = assembly.whole.event_source("run_worker")
            assert source["ScalingConfig"] == {"MaximumConcurrency": max_workers}
            assert "ReservedConcurrentExecutions" not in assembly.whole.function("run_worker")

    def test_every_visibility_is_six_timeouts_or_has_its_reason(self, stack: Stack) -> None:
        """AWS recommends six; otherwise `timings.py` has the reason and refuses batches."""
        for name in ("run_worker", *HALF_MINUTE):
            queue, function = stack.queue_of_function(name), stack.function(name)
            assert queue["VisibilityTimeout"] >= function["Timeout"] * stack.event_source(name)["BatchSize"]

    def test_every_queue_is_encrypted_and_requires_tls(self, stack: Stack) -> None:
        queues = stack.all("AWS::SQS::Queue")
        # Runs, events, dead letters of both, two of workspaces, two of half minutes and the publisher's wake-ups.
        assert len(queues) == 9
        for name, queue in queues.items():
            assert queue["SqsManagedSseEnabled"] is True
            assert stack.tls_only("AWS::SQS::QueuePolicy", "Queues", name)

    def test_the_workers_timeout_exceeds_that_of_pack_outside(self, stack: Stack) -> None:
        assert 90 < stack.function("pack_outside")["Timeout"] < stack.function("run_worker")["Timeout"]


class TestResults:
    """RUN-30."""

    def test_results_expire_after_30_days_and_partial_uploads_after_7(self, stack: Stack) -> None:
        bucket = stack.all("AWS::S3::Bucket")[stack.bucket_given("run_worker", "DPP_RESULTS_BUCKET")]
        (rule,) = bucket["LifecycleConfiguration"]["Rules"]
        assert rule["Status"] == "Enabled"
        assert rule["ExpirationInDays"] == 30
        assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
        assert "Prefix" not in rule
        assert "VersioningConfiguration" not in bucket

    def test_every_bucket_blocks_public_access(self, stack: Stack) -> None:
        for bucket in stack.all("AWS::S3::Bucket").values():
            assert bucket["PublicAccessBlockConfiguration"] == {
                "BlockPublicAcls": True,
                "BlockPublicPolicy": True,
                "IgnorePublicAcls": True,
                "RestrictPublicBuckets": True,
            }

    def test_every_bucket_is_encrypted_and_requires_tls(self, stack: Stack) -> None:
        buckets = stack.all("AWS::S3::Bucket")
        assert len(buckets) == 5
        for name, bucket in buckets.items():
            assert bucket["BucketEncryption"]
            assert stack.tls_only("AWS::S3::BucketPolicy", "Bucket", name)


class TestReports:
    """TIX-4: reports are evidence for audits."""

    def bucket(self, stack: Stack) -> Mapping[str, Any]:
        return stack.all("AWS::S3::Bucket")[stack.bucket_given("ops_cycle", "DPP_REPORTS_BUCKET")]

    def test_reports_are_kept_a_year_longer_than_results(self, stack: Stack) -> None:
        kept, latest = self.bucket(stack)["LifecycleConfiguration"]["Rules"]
        assert (kept["Status"], kept["ExpirationInDays"]) == ("Enabled", 400)
        assert "Prefix" not in kept
        assert "ExpirationInDays" not in latest

    def test_an_overwritten_report_is_kept_as_long_as_the_access_log(self, stack: Stack) -> None:
        bucket = self.bucket(stack)
        assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
        kept, latest = bucket["LifecycleConfiguration"]["Rules"]
        log = bucket["LoggingConfiguration"]
        (logged,) = stack.all("AWS::S3::Bucket")[log["DestinationBucketName"]["Ref"]]["LifecycleConfiguration"]["Rules"]
        assert kept["NoncurrentVersionExpiration"] == {"NoncurrentDays": logged["ExpirationInDays"]}
        # Each run overwrites it.
        assert latest["Prefix"] == LATEST_KEY.removesuffix("reaper_latest.json")
        assert latest["NoncurrentVersionExpiration"] == {"NoncurrentDays": 1}
        assert log["LogFilePrefix"] == "reports/"

    def test_only_functions_that_run_the_reaper_get_the_reports_bucket(self, stack: Stack) -> None:
        with_reports = [
            name
            for name in FUNCTIONS
            if "DPP_REPORTS_BUCKET" in stack.function(name).get("Environment", {}).get("Variables", {})
        ]
        assert with_reports == ["tickets_api", "ops_cycle", "operate"]


class TestSchedules:
    @pytest.mark.parametrize("name", SCHEDULED)
    def test_a_scheduled_function_has_a_tick_each_minute(self, stack: Stack, name: str) -> None:
        (rule,) = stack.rules_that_fire(name)
        assert rule["ScheduleExpression"] == "rate(1 minute)"
        assert rule["State"] == "ENABLED"

    @pytest.mark.parametrize("name", HALF_MINUTE)
    def test_reaper_and_general_have_another_tick_30_s_later(self, stack: Stack, name: str) -> None:
        """RUN-20, D10; a task whose run has ended waits for at most half a minute (LIFE-2)."""
        (rule,) = stack.rules_that_fire(name)
        (queue_id,) = (target["Arn"]["Fn::GetAtt"][0] for target in rule["Targets"] if "Fn::GetAtt" in target["Arn"])
        delayed = stack.all("AWS::SQS::Queue")[queue_id]
        assert stack.queue_of_function(name) == delayed
        assert HALF_MINUTE[name] in queue_id
        assert delayed["DelaySeconds"] == 30

    @pytest.mark.parametrize("name", HALF_MINUTE)
    def test_a_late_tick_is_dropped(self, stack: Stack, name: str) -> None:
        assert stack.queue_of_function(name)["MessageRetentionPeriod"] == 60

    @pytest.mark.parametrize(
        ("name", "period_seconds"), [(name, 30 if name in HALF_MINUTE else 60) for name in SCHEDULED]
    )
    def test_a_tick_ends_before_the_next(self, stack: Stack, name: str, period_seconds: int) -> None:
        assert stack.function(name)["Timeout"] <= period_seconds

    @pytest.mark.parametrize("name", [*SCHEDULED, "migrate", "operate"])
    def test_a_failed_tick_is_not_retried(self, prod: Assembly, dev: Assembly, name: str) -> None:
        """The function and its alias have separate retry settings."""
        for whole in (prod.whole, dev.whole):
            configs = whole.all("AWS::Lambda::EventInvokeConfig").values()
            own = [c for c in configs if c["FunctionName"] == {"Ref": whole.function_id(name)}]
            aliased = whole is prod.whole and name in SCHEDULED
            assert len(own) == (2 if aliased else 1)
            assert all(config["MaximumRetryAttempts"] == 0 for config in own)


class TestEvents:
    """The outbox's publisher and the consumer of its events (AUTH-4, AUTH-5; D9)."""

    def test_the_publisher_is_invoked_by_its_queue_and_each_minute(self, stack: Stack) -> None:
        wake = stack.queue_of_function("auth_errors_publish")
        (queue_id,) = [id for id, one in stack.all("AWS::SQS::Queue").items() if one == wake]
        rules = [
            rule
            for rule in stack.all("AWS::Events::Rule").values()
            for target in rule["Targets"]
            if target["Arn"] == {"Fn::GetAtt": [queue_id, "Arn"]}
        ]
        assert [rule["ScheduleExpression"] for rule in rules] == ["rate(1 minute)"]
        assert stack.rules_that_fire("auth_errors_publish") == []
        assert "RedrivePolicy" not in wake

    @pytest.mark.parametrize("name", EVENT_FUNCTIONS)
    def test_a_failed_message_does_not_return_the_others(self, stack: Stack, name: str) -> None:
        source = stack.event_source(name)
        assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert source["BatchSize"] == {"workspaces_control": 5, "workspaces_storage": 1}.get(name, 10)

    def test_concurrency_is_bounded(self, prod: Assembly, dev: Assembly, local: Assembly) -> None:
        from dpp_cdk.settings.sizes import DEV, MAX_PUBLISHERS, PROD

        for assembly, size in ((prod, PROD), (dev, DEV), (local, DEV)):
            most = (MAX_PUBLISHERS, size.max_consumers, size.max_control, size.max_storage)
            for name, bound in zip(EVENT_FUNCTIONS, most, strict=True):
                assert assembly.whole.event_source(name)["ScalingConfig"] == {"MaximumConcurrency": bound}
                assert "ReservedConcurrentExecutions" not in assembly.whole.function(name)

    @pytest.mark.parametrize("name", EVENT_FUNCTIONS)
    def test_visibility_is_six_timeouts(self, stack: Stack, name: str) -> None:
        factor = 1 if name == "workspaces_storage" else 6  # the row's lease excludes a second delivery
        assert stack.queue_of_function(name)["VisibilityTimeout"] == factor * stack.function(name)["Timeout"]

    def test_no_retry_setting_reaches_the_redrive_limit_of_sqs(self, stack: Stack) -> None:
        """AUTH-8: the ledger decides when an event is dead. Each attempt may follow an early message."""
        receives = stack.queue_of_function("auth_errors_consume")["RedrivePolicy"]["maxReceiveCount"]
        with pytest.raises(ConfigurationError, match="DPP_AUTH_ERROR_MAX_RETRIES"):
            RetrySettings.load({"DPP_AUTH_ERROR_MAX_RETRIES": str(receives // 2)})

    def test_an_old_wake_up_is_dropped(self, stack: Stack) -> None:
        assert stack.queue_of_function("auth_errors_publish")["MessageRetentionPeriod"] == 300

    def test_each_queue_url_is_given_to_its_senders_and_consumers(self, stack: Stack) -> None:
        given = {
            variable: [
                name
                for name in FUNCTIONS
                if variable in stack.function(name).get("Environment", {}).get("Variables", {})
            ]
            for variable in (
                "DPP_AUTH_ERROR_QUEUE_URL",
                "DPP_AUTH_ERROR_DEAD_LETTER_QUEUE_URL",
                "DPP_AUTH_ERROR_WAKE_QUEUE_URL",
            )
        }
        assert list(given.values()) == [
            ["auth_errors_publish", "auth_errors_consume"],
            ["auth_errors_consume", "operate"],
            ["auth_errors_api", "auth_errors_consume", "operate"],
        ]

    def test_the_local_stack_outputs_the_queue_urls(self, local: Assembly) -> None:
        """The outputs for operator commands."""
        outputs = {name for part in local.stacks.values() for name in part.get("Outputs", {})}
        assert {"AuthErrorQueueUrl", "AuthErrorDeadLetterQueueUrl", "AuthErrorWakeQueueUrl"} <= outputs

    def test_a_claims_owner_has_ended_before_its_takeover(self, stack: Stack) -> None:
        from dpp.auth_errors.outbox import consume, publish

        assert stack.function("auth_errors_publish")["Timeout"] < publish.SILENT_SECONDS
        assert stack.function("auth_errors_consume")["Timeout"] < consume.LEASE_SECONDS

    def test_the_ledger_is_kept_longer_than_every_message(self, prod: Assembly, dev: Assembly) -> None:
        kept_seconds = Retention().outbox_days * 86_400
        for assembly in (prod, dev):
            events = assembly.whole.queue_of_function("auth_errors_consume")
            dead_letter_id = events["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]
            dead_letters = assembly.whole.all("AWS::SQS::Queue")[dead_letter_id]
            longest = 2 * events["MessageRetentionPeriod"] + dead_letters["MessageRetentionPeriod"]
            assert longest < kept_seconds


class TestWorkspaces:
    """The queues of workspaces, and a deployment without workspaces (WS-5; D10)."""

    @pytest.mark.parametrize(
        ("name", "rate"), [("workspaces_control", "rate(1 minute)"), ("workspaces_storage", "rate(1 hour)")]
    )
    def test_schedules_send_to_both_queues(self, stack: Stack, name: str, rate: str) -> None:
        queue = stack.queue_of_function(name)
        (queue_id,) = [id for id, one in stack.all("AWS::SQS::Queue").items() if one == queue]
        rules = [
            rule["ScheduleExpression"]
            for rule in stack.all("AWS::Events::Rule").values()
            for target in rule["Targets"]
            if target["Arn"] == {"Fn::GetAtt": [queue_id, "Arn"]}
        ]
        assert rules == [rate]
        assert "RedrivePolicy" not in queue

    def test_only_control_and_storage_mount_homes(self, prod: Assembly, dev: Assembly) -> None:
        for whole in (prod.whole, dev.whole):
            mounting = [name for name in FUNCTIONS if "FileSystemConfigs" in whole.function(name)]
            assert mounting == list(MOUNTING)
            for name in mounting:
                given = whole.function(name)["Environment"]["Variables"]
                (mount,) = whole.function(name)["FileSystemConfigs"]
                assert mount["LocalMountPath"] == given["DPP_WORKSPACE_ROOT"]
                assert given["DPP_WORKSPACE_PROVIDER"] == "aws"

    def test_the_local_stack_uses_folders_and_processes(self, local: Assembly) -> None:
        for name in MOUNTING:
            given = local.whole.function(name)["Environment"]["Variables"]
            assert given["DPP_WORKSPACE_PROVIDER"] == "local"
            assert given["DPP_WORKSPACE_ROOT"] == "/var/lib/dpp/workspaces"
            assert "FileSystemConfigs" not in local.whole.function(name)
        outputs = {name for part in local.stacks.values() for name in part.get("Outputs", {})}
        assert {"ArchivesBucket", "WorkspaceLookQueueUrl", "WorkspaceWorkQueueUrl"} <= outputs

    def test_a_deployment_without_an_image_has_no_workspaces(
        self, deployment: "Deployment", described: Callable[["Deployment"], Assembly]
    ) -> None:
        """Their resources cost money: endpoints, a file system, a cluster."""
        without = described(dataclasses.replace(deployment, workspace_image="")).whole
        handlers = {f["Handler"] for f in without.all("AWS::Lambda::Function").values()}
        assert not any("workspaces" in handler for handler in handlers)
        for kind in ("AWS::EFS::FileSystem", "AWS::ECS::Cluster"):
            assert without.all(kind) == {}
        text = json.dumps(without.template)
        assert "orkspace" not in text.replace("DPP_WORKSPACES_PER_TENANT", "")
        assert not any(named in text for named in ("v1/workspaces", "elasticfilesystem", "ecs:"))


class TestFlow:
    """The roles that carry events to answers (LIFE-1 … LIFE-7)."""

    def test_webhooks_are_routed_only_with_the_lifecycle_part(self, stack: Stack) -> None:
        resources = stack.all("AWS::ApiGateway::Resource")
        root = next(id for id, r in resources.items() if r["PathPart"] == "webhooks")
        below = {id for id, r in resources.items() if r["ParentId"] == {"Ref": root}}
        assert {resources[id]["PathPart"] for id in below} == {"{proxy+}"}
        methods = stack.all("AWS::ApiGateway::Method").values()
        called = [m["Integration"]["Uri"] for m in methods if m["ResourceId"].get("Ref") in {root, *below}]
        assert [stack.calls("lifecycle_webhook", uri) for uri in called] == [True, True]

    def test_a_deployment_without_a_lifecycle_tenant_has_no_roles(
        self, deployment: "Deployment", described: Callable[["Deployment"], Assembly]
    ) -> None:
        """It has the chamberlain: every deployment needs the cleanup."""
        without = described(dataclasses.replace(deployment, variables={})).whole
        handlers = {f["Handler"] for f in without.all("AWS::Lambda::Function").values()}
        assert {handler for handler in handlers if "lifecycle" in handler} == {"lifecycle_chamberlain.handler.handler"}
        text = json.dumps(without.template)
        assert not any(named in text for named in ("webhooks", "lifecycle_king", "LIFECYCLE_", "flow-stuck"))

    def test_lifecycle_without_a_secret_is_refused(self, deployment: "Deployment") -> None:
        from dpp_cdk.settings.config import DeploymentError

        with pytest.raises(DeploymentError, match="lifecycle_tenant needs lifecycle_secret_arn"):
            dataclasses.replace(deployment, variables={"DPP_LIFECYCLE_TENANT": "acme"})


class TestApi:
    @pytest.mark.parametrize("name", API_FUNCTIONS)
    def test_api_functions_time_out_before_the_gateway(self, stack: Stack, name: str) -> None:
        assert stack.function(name)["Timeout"] < 29

    def test_every_method_of_every_path_goes_to_a_function(self, stack: Stack) -> None:
        """So that 404 and 405 are the platform's problem documents (RUN-9); OPTIONS, too: no CORS."""
        methods = stack.all("AWS::ApiGateway::Method").values()
        assert {method["HttpMethod"] for method in methods} == {"ANY"}
        assert {method["Integration"]["Type"] for method in methods} == {"AWS_PROXY"}
        resources = stack.all("AWS::ApiGateway::Resource")
        with_method = {json.dumps(method["ResourceId"]) for method in methods}
        assert all(json.dumps({"Ref": name}) in with_method for name in resources)

    def test_the_api_description_has_two_paths(self, stack: Stack) -> None:
        resources = stack.all("AWS::ApiGateway::Resource")
        methods = stack.all("AWS::ApiGateway::Method").values()
        paths = [
            resources[method["ResourceId"]["Ref"]]["PathPart"]
            for method in methods
            if stack.calls("api_docs", method["Integration"]["Uri"])
        ]
        assert sorted(paths) == ["docs", "openapi.json"]

    @pytest.mark.parametrize(("path", "name"), [("api", "tickets_api"), ("auth-errors", "auth_errors_api")])
    def test_all_paths_below_a_prefix_go_to_one_function(self, stack: Stack, path: str, name: str) -> None:
        """TIX-5, AUTH-1: the function, not the gateway, answers 404 for an unknown path."""
        resources = stack.all("AWS::ApiGateway::Resource")
        root = next(id for id, r in resources.items() if r["PathPart"] == path)
        below = {id for id, r in resources.items() if r["ParentId"] == {"Ref": root} and r["PathPart"] == "{proxy+}"}
        assert len(below) == 1
        methods = stack.all("AWS::ApiGateway::Method").values()
        called = [m["Integration"]["Uri"] for m in methods if m["ResourceId"].get("Ref") in {root, *below}]
        assert [stack.calls(name, uri) for uri in called] == [True, True]
        elsewhere = [m["Integration"]["Uri"] for m in methods if m["Integration"]["Uri"] not in called]
        assert not any(stack.calls(name, uri) for uri in elsewhere)

    def test_gateway_responses_are_problem_documents_with_cost_headers(self, stack: Stack) -> None:
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
            assert not any("Access-Control" in header for header in headers)
            (template,) = response["ResponseTemplates"].values()
            document = json.loads(template)
            assert str(document["status"]) == response["StatusCode"]
            assert {"type", "title", "detail", "instance", "reason_code", "trace_id"} < set(document)

    def test_gateway_responses_match_the_openapi_document(self, stack: Stack) -> None:
        documented = {
            example["value"]["reason_code"]: example["value"]
            for response in gateway.responses().values()
            for example in response["content"]["application/problem+json"]["examples"].values()
        }
        documents = [
            json.loads(next(iter(response["ResponseTemplates"].values())))
            for response in stack.all("AWS::ApiGateway::GatewayResponse").values()
        ]
        by_code = {one["reason_code"]: one for one in documents}
        for reason_code, example in documented.items():
            context = {"instance": example["instance"], "trace_id": example["trace_id"]}
            assert by_code[reason_code] | context == example

    def test_the_stage_does_not_repeat_the_version_of_the_path(self, stack: Stack) -> None:
        assert stack.one("AWS::ApiGateway::Stage")["StageName"] == "prod"

    def test_all_clients_together_are_throttled(self, prod: Assembly, dev: Assembly) -> None:
        from dpp_cdk.settings.sizes import DEV, PROD

        for assembly, size in ((prod, PROD), (dev, DEV)):
            (settings,) = assembly.whole.one("AWS::ApiGateway::Stage")["MethodSettings"]
            assert (settings["HttpMethod"], settings["ResourcePath"]) == ("*", "/*")
            assert settings["ThrottlingRateLimit"] == size.api.rate_per_second
            assert settings["ThrottlingBurstLimit"] == size.api.burst
            plan = assembly.whole.one("AWS::ApiGateway::UsagePlan")
            assert plan["Quota"] == {"Limit": size.api.requests_per_day, "Period": "DAY"}
            assert plan["Throttle"] == {"RateLimit": size.api.rate_per_second, "BurstLimit": size.api.burst}

    def test_the_access_log_has_requests_without_secrets(self, stack: Stack) -> None:
        """RUN-31."""
        stage = stack.one("AWS::ApiGateway::Stage")
        fields = json.loads(stage["AccessLogSetting"]["Format"])
        assert {"request_id", "method", "path", "status", "latency_ms"} <= set(fields)
        secrets = ("header", "authoriz", "requestBody", "querystring", "requestOverride", "apiKey")
        assert not any(word in value for word in secrets for value in fields.values())
        (settings,) = stage["MethodSettings"]
        assert (settings["LoggingLevel"], settings["DataTraceEnabled"]) == ("OFF", False)

    def test_a_domain_name_becomes_the_only_access(
        self, deployment: "Deployment", described: Callable[["Deployment"], Assembly]
    ) -> None:
        from dpp_cdk.settings.config import DeploymentError

        arn = "arn:aws:acm:us-east-1:123456789012:certificate/x"
        with pytest.raises(DeploymentError, match="belong together"):
            dataclasses.replace(deployment, domain_name="api.example.com")
        named = described(dataclasses.replace(deployment, domain_name="api.example.com", certificate_arn=arn)).whole
        name = named.one("AWS::ApiGateway::DomainName")
        assert (name["SecurityPolicy"], name["RegionalCertificateArn"]) == ("TLS_1_2", arn)
        assert named.one("AWS::ApiGateway::RestApi")["DisableExecuteApiEndpoint"] is True

    def test_the_domain_target_is_an_output_if_there_is_a_name(
        self, deployment: "Deployment", described: Callable[["Deployment"], Assembly], prod: Assembly
    ) -> None:
        """The target for the operator's DNS."""
        arn = "arn:aws:acm:us-east-1:123456789012:certificate/x"
        named = described(dataclasses.replace(deployment, domain_name="api.example.com", certificate_arn=arn))["app"]
        (name,) = named.all("AWS::ApiGateway::DomainName")
        target = named.template["Outputs"]["ApiDomainTarget"]["Value"]
        assert target == {"Fn::GetAtt": [name, "RegionalDomainName"]}
        assert "ApiDomainTarget" not in prod["app"].template["Outputs"]

    def test_outputs_name_the_network_and_the_secrets_for_an_operators_shell(
        self, prod: Assembly, local: Assembly
    ) -> None:
        network, data = prod["network"], prod["data"].template["Outputs"]
        (vpc,) = network.all("AWS::EC2::VPC")
        outputs = network.template["Outputs"]
        assert outputs["VpcId"]["Value"] == {"Ref": vpc}
        group = outputs["FunctionsSecurityGroupId"]["Value"]["Fn::GetAtt"][0]
        assert network.all("AWS::EC2::SecurityGroup")[group]["GroupDescription"] == "Functions of the platform"
        _, ids = outputs["FunctionsSubnetIds"]["Value"]["Fn::Join"]
        subnets = network.all("AWS::EC2::Subnet")
        names = {t["Value"] for i in ids if isinstance(i, dict) for t in subnets[i["Ref"]]["Tags"]}
        assert {name for name in names if "FunctionsSubnet" in name}
        assert not {name for name in names if "DataSubnet" in name}
        (token,) = prod["data"].all("AWS::SecretsManager::Secret")
        assert data["CacheTokenSecretArn"]["Value"] == {"Ref": token}
        assert "MasterUserSecret.SecretArn" in str(data["DatabaseSecretArn"]["Value"])
        assert "CacheTokenSecretArn" not in local["data"].template["Outputs"]

    def test_the_openapi_document_is_an_output(self, prod: Assembly) -> None:
        assert "OpenApiDocument" in prod.stacks["app"]["Outputs"]


class TestMigration:
    """RUN-29."""

    def test_it_runs_when_the_migrations_change_and_has_a_timeout(self, stack: Stack) -> None:
        from migrations.content import content_hash

        migration = stack.one("Custom::DatabaseMigrations")
        assert migration["ContentHash"] == content_hash()
        assert stack.calls("migrate", migration["ServiceToken"])
        assert int(migration["ServiceTimeout"]) > stack.function("migrate")["Timeout"]

    @pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "migrate"])
    def test_functions_change_only_after_the_schema(self, stack: Stack, name: str) -> None:
        ((migration, _),) = stack.all("Custom::DatabaseMigrations").items()
        assert migration in stack.template["Resources"][stack.function_id(name)]["DependsOn"]

    def test_it_runs_only_after_its_policy_exists(self, stack: Stack) -> None:
        ((migration, _),) = stack.all("Custom::DatabaseMigrations").items()
        waits_for = stack.template["Resources"][migration]["DependsOn"]
        (role, _) = stack.function("migrate")["Role"]["Fn::GetAtt"]
        policies = [id for id, p in stack.all("AWS::IAM::Policy").items() if {"Ref": role} in p["Roles"]]
        assert policies
        assert {*policies, role, stack.function_id("migrate")} <= set(waits_for)
