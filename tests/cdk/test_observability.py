"""Alarms with their notifications and runbook entries; the dashboard; rollback of releases."""

import json
import re

import pytest

from dpp.platform.observability import metrics
from dpp_cli.paths import ROOT
from tests.cdk.template import Assembly
from tests.cdk.test_stack import API_FUNCTIONS, EVENT_FUNCTIONS, FUNCTIONS, JOBS, ROLES

SHIFTED = (*API_FUNCTIONS, *EVENT_FUNCTIONS, "run_worker", "pack_outside", "lifecycle_outside")


def entries() -> set[str]:
    """The anchors of the runbook, as GitHub derives them from headings."""
    headings = re.findall(r"(?m)^#{2,3} (.+)$", (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8"))
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("size", ["prod", "dev"])
def test_every_alarm_notifies_the_topic_and_names_its_runbook_entry(size: str, request: pytest.FixtureRequest) -> None:
    assembly: Assembly = request.getfixturevalue(size)
    stack = assembly["observability"]
    ((topic, _),) = stack.all("AWS::SNS::Topic").items()
    known = entries()
    alarms = stack.all("AWS::CloudWatch::Alarm").values()
    assert len(alarms) > 30
    for alarm in alarms:
        assert alarm["AlarmActions"] == alarm["OKActions"] == [{"Ref": topic}]
        (anchor,) = re.findall(r"docs/runbook\.md#([a-z0-9-]+)$", alarm["AlarmDescription"])
        assert anchor in known


def test_the_alarm_email_is_subscribed_if_configured(prod: Assembly, dev: Assembly) -> None:
    subscription = prod["observability"].one("AWS::SNS::Subscription")
    assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", "ops@example.com")
    assert dev["observability"].all("AWS::SNS::Subscription") == {}


def alarmed(assembly: Assembly, namespace: str) -> set[tuple[str, str]]:
    """The metric's name, and the value of its first dimension if that is a plain name."""
    found = assembly["observability"].all("AWS::CloudWatch::Alarm").values()
    return {
        (alarm["MetricName"], str(alarm["Dimensions"][0]["Value"]))
        for alarm in found
        if alarm["Namespace"] == namespace
    }


def test_each_function_has_alarms_for_errors_and_throttles(prod: Assembly) -> None:
    kinds = ("Errors", "Throttles", "Duration")
    expected = {(kind, f"dpp-prod-{name}") for name in FUNCTIONS for kind in kinds}
    seen_by_its_caller = {("Duration", "dpp-prod-migrate"), ("Duration", "dpp-prod-operate")}
    assert alarmed(prod, "AWS/Lambda") == expected - seen_by_its_caller


def test_the_servers_have_alarms(prod: Assembly, dev: Assembly) -> None:
    assert alarmed(prod, "AWS/RDS") == {
        (name, "dpp-prod") for name in ("CPUUtilization", "DatabaseConnections", "FreeStorageSpace", "FreeableMemory")
    }
    of_the_cache = ("DatabaseMemoryUsagePercentage", "Evictions", "EngineCPUUtilization")
    assert alarmed(prod, "AWS/ElastiCache") == {
        (name, node) for name in of_the_cache for node in ("dpp-prod-001", "dpp-prod-002")
    }
    assert alarmed(dev, "AWS/ElastiCache") == {(name, "dpp-dev-001") for name in of_the_cache}


def test_every_metric_with_a_runbook_entry_has_its_alarm(prod: Assembly) -> None:
    """`dpp.platform.observability.metrics` names the runbook entries of a metric's alarms."""
    found = prod["observability"].all("AWS::CloudWatch::Alarm").values()
    by_metric = {
        (alarm["MetricName"], alarm["AlarmDescription"].rpartition("#")[2])
        for alarm in found
        if alarm["Namespace"] == metrics.NAMESPACE
    }
    promised = {(metric.name, anchor) for metric in metrics.METRICS for anchor in metric.alarms}
    assert promised
    assert promised <= by_metric


def test_a_silent_job_raises_an_alarm(prod: Assembly) -> None:
    """Missing data is breaching for a job with a tick each minute, and fine for everything else."""
    found = prod["observability"].all("AWS::CloudWatch::Alarm").values()
    quiet = [alarm for alarm in found if alarm["TreatMissingData"] == "breaching"]
    silent = {alarm["Dimensions"][0]["Value"] for alarm in quiet if len(alarm["Dimensions"]) == 1}
    by_queue = ("auth_errors_publish", "workspaces_control", "workspaces_storage")
    assert silent == {f"dpp-prod-{name}" for name in (*JOBS, *by_queue)}


def test_a_role_without_heartbeat_raises_an_alarm(prod: Assembly) -> None:
    """LIFE-11: the chamberlain reports the other roles' silence, and has an alarm for its own."""
    found = prod["observability"].all("AWS::CloudWatch::Alarm").values()
    by_role = {
        alarm["Dimensions"][1]["Value"]: alarm for alarm in found if alarm["MetricName"] == metrics.ROLE_SILENCE.name
    }
    assert set(by_role) == {"CHAMBERLAIN", *(name.removeprefix("lifecycle_").upper() for name in ROLES)}
    for role, alarm in by_role.items():
        assert alarm["Dimensions"][0]["Value"] == "dpp-prod-lifecycle_chamberlain"
        assert alarm["Threshold"] == 600
        assert alarm["TreatMissingData"] == ("notBreaching" if role == "CHAMBERLAIN" else "breaching")


def test_failing_sources_and_stuck_items_raise_alarms(prod: Assembly) -> None:
    """LIFE-1, LIFE-2, LIFE-5, LIFE-7."""
    found = prod["observability"].all("AWS::CloudWatch::Alarm").values()
    watched = {
        (alarm["MetricName"], alarm["Dimensions"][1]["Value"]): alarm["Threshold"]
        for alarm in found
        if alarm["MetricName"] in {metrics.SOURCE_FAILURES.name, metrics.FLOW_AGE.name}
    }
    assert watched == {
        ("SourceFailures", "GITHUB"): 3,
        ("SourceFailures", "JIRA"): 3,
        ("FlowAge", "EVENT"): 900,
        ("FlowAge", "TASK"): 3_600,
        ("FlowAge", "MESSAGE"): 3_600,
    }


def test_each_step_of_the_ops_cycle_has_an_alarm(prod: Assembly) -> None:
    """TIX-6: a failing reaper stops nothing else, so it would go unnoticed."""
    found = prod["observability"].all("AWS::CloudWatch::Alarm").values()
    watched = {
        dimension["Value"]
        for alarm in found
        if alarm["MetricName"] == metrics.OPS_STEPS_FAILED.name
        for dimension in alarm["Dimensions"]
        if dimension["Name"] == "Step"
    }
    assert watched == {"ticket_reaper", "tickets"}


def test_an_escalation_by_a_policy_raises_an_alarm_and_one_by_an_operator_does_not(prod: Assembly) -> None:
    """AUTH-11."""
    (alarm,) = (
        alarm
        for alarm in prod["observability"].all("AWS::CloudWatch::Alarm").values()
        if alarm["MetricName"] == metrics.AUTH_ERROR_DECISIONS.name
    )
    assert {dimension["Name"]: dimension["Value"] for dimension in alarm["Dimensions"]} == {
        "Function": "dpp-prod-auth_errors_consume",
        "DecisionType": "ESCALATE",
        "DecidedBy": "SYSTEM",
    }


def test_both_queues_have_alarms_for_dead_letters_and_age(prod: Assembly) -> None:
    watched = {
        (alarm["AlarmDescription"].rpartition("#")[2], alarm["MetricName"], json.dumps(alarm["Dimensions"]))
        for alarm in prod["observability"].all("AWS::CloudWatch::Alarm").values()
        if alarm["Namespace"] == "AWS/SQS"
    }
    visible, age = "ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"
    assert {(anchor, name) for anchor, name, _ in watched} == {
        ("dead-letters", visible),
        ("queue-age", age),
        ("auth-errors-dead-letters", visible),
        ("auth-errors-queue-age", age),
    }
    assert len({queue for _, _, queue in watched}) == 4


def test_the_dashboard_begins_with_the_alarms_and_shows_existing_metrics(prod: Assembly) -> None:
    body = json.dumps(prod["observability"].one("AWS::CloudWatch::Dashboard")["DashboardBody"])
    first = body.index('\\"type\\":\\"alarm\\"') if '\\"type\\":\\"alarm\\"' in body else -1
    assert 0 <= first < body.index("metric\\")
    for metric in (
        metrics.LEDGER_DRIFT_USD_MICROS,
        metrics.RUNS_ENDED,
        metrics.REFUSALS,
        metrics.TICKETS_STALE,
        metrics.OUTBOX_LAG,
        metrics.OUTBOX_DELAY,
        metrics.EVENTS,
        metrics.EVENT_AGE,
        metrics.AUTH_CLUSTERS_GROWING,
    ):
        assert metric.name in body


@pytest.mark.parametrize("name", SHIFTED)
def test_a_failing_release_is_rolled_back(prod: Assembly, name: str) -> None:
    app = prod["app"]
    groups = {g["DeploymentGroupName"]: g for g in app.all("AWS::CodeDeploy::DeploymentGroup").values()}
    assert set(groups) == {f"dpp-prod-{shifted}" for shifted in SHIFTED}
    group = groups[f"dpp-prod-{name}"]
    assert "CodeDeployDefault.LambdaCanary10Percent5Minutes" in json.dumps(group["DeploymentConfigName"])
    assert group["AutoRollbackConfiguration"] == {
        "Enabled": True,
        "Events": ["DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_REQUEST", "DEPLOYMENT_STOP_ON_ALARM"],
    }
    watched = {next(iter(alarm["Name"].values())) for alarm in group["AlarmConfiguration"]["Alarms"]}
    names = {app.all("AWS::CloudWatch::Alarm")[alarm]["MetricName"] for alarm in watched}
    assert names == {"Errors", "5XXError"}


def test_callers_use_the_released_version(prod: Assembly, dev: Assembly) -> None:
    for name in FUNCTIONS:
        function = {"Ref": prod.whole.function_id(name)}
        aliases = [a for a in prod.whole.all("AWS::Lambda::Alias").values() if a["FunctionName"] == function]
        assert [alias["Name"] for alias in aliases] == ([] if name in {"migrate", "operate"} else ["live"])
    for mapping in prod.whole.all("AWS::Lambda::EventSourceMapping").values():
        assert ":live" in json.dumps(mapping["FunctionName"]) or "Live" in json.dumps(mapping["FunctionName"])
    assert dev.whole.all("AWS::Lambda::Alias") == {}
    assert dev.whole.all("AWS::CodeDeploy::DeploymentGroup") == {}
