"""`deploy/<stage>.json`: options that persist between deployments, and `-c`, which overrides them."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from dpp.lifecycle.retention.periods import Retention, RetentionSettings
from tests.cdk.test_sizes import LOCAL, read
from tests.cdk.test_sizes import root as root  # noqa: PLC0414 - a fixture

ARN = "arn:aws:acm:us-east-1:123456789012:certificate/x"
KEPT = {
    "size": "prod",
    "alarm_email": "ops@example.com",
    "domain_name": "api.example.com",
    "certificate_arn": ARN,
    "tracing": "on",
    "decision_bedrock_model_id": "amazon.nova-lite-v1:0",
}


def keep(root: Path, stage: str, kept: object) -> None:
    (root / "deploy").mkdir(exist_ok=True)
    (root / "deploy" / f"{stage}.json").write_text(json.dumps(kept), encoding="utf-8")


def test_options_of_the_file_apply_without_repeating_them(root: Path) -> None:
    keep(root, "live", KEPT)
    made = read(root, {"stage": "live"})
    assert (made.stage, made.size.name, made.alarm_email) == ("live", "prod", "ops@example.com")
    assert (made.domain_name, made.certificate_arn, made.tracing) == ("api.example.com", ARN, True)
    assert made.variables == {"DPP_DECISION_BEDROCK_MODEL_ID": "amazon.nova-lite-v1:0"}
    other = read(root, {"stage": "trial"})
    assert (other.size.name, other.alarm_email, other.variables) == ("dev", "", {})


def test_the_command_line_overrides_the_file_even_with_an_empty_value(root: Path) -> None:
    keep(root, "live", KEPT)
    context = {"stage": "live", "alarm_email": "other@example.com", "decision_bedrock_model_id": ""}
    made = read(root, context)
    assert (made.alarm_email, made.tracing, made.variables) == ("other@example.com", True, {})


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ({"alarm_mail": "ops@example.com"}, "deploy/dev.json: alarm_mail: no such option; the options are size"),
        ({"alarm_email": "ops"}, "deploy/dev.json: alarm_email=ops: not an e-mail address"),
        ({"tracing": True}, "deploy/dev.json: tracing=True: Input should be a valid string"),
        ({"size": "prod"}, "the stage dev would have size prod"),
        (
            {"time_zone": "Mars/Olympus"},
            "deploy/dev.json: time_zone=Mars/Olympus: not a time zone of the IANA database",
        ),
        (
            {"ticket_reaper_threshold_seconds": 299},
            "threshold_seconds=299: Input should be greater than or equal to 300",
        ),
        ({"ticket_reaper_threshold_seconds": "1e5"}, "threshold_seconds=1e5: Input should be a valid integer"),
        ({"ticket_reaper_threshold_seconds": 86400.5}, "threshold_seconds=86400.5: Input should be a valid integer"),
        ({"ticket_reaper_max_clean": True}, "ticket_reaper_max_clean=True: Input should be a valid string"),
        ({"ticket_reaper_max_clean": 0}, "ticket_reaper_max_clean=0: Input should be greater than or equal to 1"),
        (
            {"ticket_reaper_excluded_types": "ALL"},
            "excluded_types=ALL: must list types of EXECUTION_ENABLE, EXECUTION_DISABLE,",
        ),
        ({"ticket_reaper_breaker_count": -1}, "ticket_reaper_breaker_count=-1: Input should be greater"),
        ({"ticket_reaper_breaker_share": "nan"}, "ticket_reaper_breaker_share=nan: Input should be a finite number"),
        ({"auth_error_max_retries": 101}, "auth_error_max_retries=101: Input should be less than or equal to 100"),
        (
            {"retention": {"outbox_days": 22}},
            "outbox_days is 22, but must be more than 22.0: with 5 retries (DPP_AUTH_ERROR_MAX_RETRIES)",
        ),
        ({"retention": {"outbox_day": 30}}, "Extra inputs are not permitted"),
        ({"auth_error_ledger_retention_days": 60}, "auth_error_ledger_retention_days: no such option"),
        (
            {"retention": {"seen_dayz": 45}},
            "deploy/dev.json: retention={'seen_dayz': 45}: seen_dayz: Extra inputs are not permitted",
        ),
        ({"retention": {"seen_days": 28}}, "seen_days is 28, but must be greater than horizon_days (28)"),
        (
            {"github_login": "acme-bot"},
            "deploy/dev.json: github_login needs lifecycle_tenant, the tenant that pays for the tasks",
        ),
        ({"lifecycle_tenant": "a b"}, "lifecycle_tenant=a b: String should match pattern"),
        ({"lifecycle_tenant": "acme", "jira_jql": "project = A"}, "deploy/dev.json: jira_jql needs jira_url"),
        (
            {"lifecycle_tenant": "acme", "jira_url": "http://jira.example"},
            "jira_url=http://jira.example: not a URL of https",
        ),
        (
            {"lifecycle_tenant": "acme", "lifecycle_task_max_cost_usd": 0},
            "lifecycle_task_max_cost_usd=0: must be above zero",
        ),
        (
            {"lifecycle_tenant": "acme", "lifecycle_task_timebox_sec": 91},
            "lifecycle_task_timebox_sec=91: Input should be less than or equal to 90",
        ),
        (
            {"lifecycle_tenant": "acme", "lifecycle_task_min_reliability": "nan"},
            "lifecycle_task_min_reliability=nan: Input should be a finite number",
        ),
        ({"lifecycle_tenant": "acme"}, "lifecycle_tenant needs lifecycle_secret_arn"),
        (
            {"retention": '{"results_days": 8}'},
            ": results_days is 8, but must not exceed queue_days (7): a result is found by its task",
        ),
        ({"retention": {"logs_days": 0}}, ": logs_days: Input should be greater than or equal to 1"),
        ({"retention": {"logs_days": "7"}}, ": logs_days: Input should be a valid integer"),
        ({"retention": "30 days"}, 'retention=30 days: not JSON; expected an object like {"seen_days": 45}'),
        ({"retention": ["seen_days"]}, "retention=['seen_days']: Input should be a valid string"),
        ([], "deploy/dev.json: not an object"),
    ],
)
def test_an_error_in_the_file_names_the_file_and_the_option(root: Path, kept: object, message: str) -> None:
    from dpp_cdk.settings.config import DeploymentError

    keep(root, "dev", kept)
    with pytest.raises(DeploymentError) as refused:
        read(root, {})
    assert message in str(refused.value)


def test_a_file_that_is_not_json_is_refused_by_name(root: Path) -> None:
    from dpp_cdk.settings.config import DeploymentError

    keep(root, "dev", {})
    (root / "deploy" / "dev.json").write_text("{", encoding="utf-8")
    with pytest.raises(DeploymentError, match=r"deploy/dev\.json: not JSON"):
        read(root, {})


def test_a_forgotten_size_never_changes_a_deployments_size(root: Path) -> None:
    """`dpp deploy --stage live` would default to size dev, and prod's servers would be replaced."""
    from dpp_cdk.settings.config import DeploymentError

    keep(root, "live", KEPT)
    with pytest.raises(DeploymentError, match=r"-c size=dev: deploy/live\.json has size prod"):
        read(root, {"stage": "live", "size": "dev"})


@pytest.mark.parametrize(
    "exported",
    [
        {"DPP_DECISION_BEDROCK_MODEL_ID": "amazon.nova-lite-v1:0"},
        {"DPP_DECISION_OPENAI_BASE_URL": "https://models.example"},
        {"DPP_DECISION_OPENAI_MODEL": "some-model"},
    ],
)
def test_a_model_given_only_by_the_environment_is_refused(root: Path, exported: Mapping[str, str]) -> None:
    """The next shell may lack it, and the deployment would lose the model."""
    from dpp_cdk.settings.config import DeploymentError

    ((variable, value),) = exported.items()
    option = variable.removeprefix("DPP_").lower()
    with pytest.raises(DeploymentError, match=rf"{variable} .*write {option} into deploy/dev\.json"):
        read(root, {}, exported)
    keep(root, "dev", {"decision_openai_model": "some-model", option: value})
    assert exported.items() <= read(root, {}, exported).variables.items()


RULES = {
    "time_zone": "Europe/Berlin",
    "ticket_reaper_threshold_seconds": 3600,
    "ticket_reaper_max_clean": 10,
    "ticket_reaper_excluded_types": "DLQ_REDRIVE, BUDGET_CREDIT",
    "ticket_reaper_breaker_count": 20,
    "ticket_reaper_breaker_share": 0.25,
}


def test_the_reapers_rules_are_passed_on_to_the_functions(root: Path) -> None:
    """TIX-1, TIX-7: the file may have a number."""
    from dpp.tickets.config import ReaperSettings

    keep(root, "dev", RULES)
    variables = read(root, {}).variables
    assert set(variables) == set(ReaperSettings.variables())
    found = ReaperSettings.load(variables)
    assert (found.rules.threshold_seconds, found.rules.max_clean) == (3600, 10)
    assert (found.rules.breaker.max_stale, found.rules.breaker.max_share) == (20, 0.25)
    assert list(found.rules.excluded_types) == ["DLQ_REDRIVE", "BUDGET_CREDIT"]
    assert found.time_zone == "Europe/Berlin"
    assert read(root, {"time_zone": ""}).variables.get("DPP_TIME_ZONE") is None


def test_options_of_events_are_passed_on_to_the_functions(root: Path) -> None:
    """AUTH-5, AUTH-8."""
    from dpp.auth_errors.config import RetrySettings
    from dpp.lifecycle.retention.periods import RetentionSettings

    keep(root, "dev", {"auth_error_max_retries": 3, "retention": {"outbox_days": 60}})
    variables = read(root, {}).variables
    assert set(variables) == {*RetrySettings.variables(), *RetentionSettings.variables()}
    assert RetrySettings.load(variables).max_retries == 3
    assert RetentionSettings.load(variables).retention.outbox_days == 60
    variables = read(root, {"retention": '{"outbox_days": 45}'}).variables
    assert RetentionSettings.load(variables).retention.outbox_days == 45


@pytest.mark.parametrize("retention", [{"seen_days": 45, "logs_days": 20}, '{"seen_days":45,"logs_days":20}'])
def test_the_retention_option_is_passed_on_to_the_functions(root: Path, retention: object) -> None:
    """LIFE-8: an object in the file, or its text, as after `-c`."""
    keep(root, "dev", {"retention": retention})
    made = read(root, {})
    assert list(made.variables) == list(RetentionSettings.variables())
    found = RetentionSettings.load(made.variables).retention
    assert (found.seen_days, found.logs_days, found.queue_days) == (45, 20, 7)
    assert made.retention == found
    over = read(root, {"retention": '{"seen_days": 60}'})
    assert (over.retention.seen_days, over.retention.logs_days) == (60, 7)
    assert read(root, {"retention": ""}).retention == Retention()


def test_the_local_stack_takes_retention_from_the_environment(root: Path) -> None:
    from dpp_cdk.settings.config import DeploymentError

    made = read(root, {}, {**LOCAL, "DPP_RETENTION": '{"logs_days": 2}'})
    assert made.retention.logs_days == 2
    with pytest.raises(DeploymentError, match="DPP_RETENTION: seen_days is 5, but must be greater than horizon_days"):
        read(root, {}, {**LOCAL, "DPP_RETENTION": '{"seen_days": 5}'})
    with pytest.raises(DeploymentError, match=r"DPP_RETENTION .*write retention into deploy/dev\.json"):
        read(root, {}, {"DPP_RETENTION": '{"logs_days": 2}'})


def test_contradictory_rules_fail_the_synthesis(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AUTH-5: each value is valid alone, but an event could outlive its ledger entry."""
    from dpp_cdk.settings.config import DeploymentError

    monkeypatch.setattr("dpp.auth_errors.config.LADDER_SECONDS", (6_000,))
    options: dict[str, object] = {"auth_error_max_retries": 100, "retention": '{"outbox_days": 25}'}
    for name, value in options.items():
        keep(root, "dev", {name: value})
        read(root, {})
    keep(root, "dev", options)
    exported = LOCAL | {f"DPP_{name.upper()}": str(value) for name, value in options.items()}
    environs: tuple[Mapping[str, str], ...] = ({}, exported)
    for environ in environs:
        with pytest.raises(DeploymentError, match=r"outbox_days is 25.* more than 28\.9"):
            read(root, {}, environ)


def test_a_rule_given_only_by_the_environment_is_refused(root: Path) -> None:
    """The next shell may lack it, and the reaper would use other rules."""
    from dpp_cdk.settings.config import DeploymentError

    exported = {"DPP_TICKET_REAPER_THRESHOLD_SECONDS": "3600"}
    with pytest.raises(DeploymentError, match=r"write ticket_reaper_threshold_seconds into deploy/dev\.json"):
        read(root, {}, exported)


def test_the_local_stack_validates_the_rules_of_the_environment(root: Path) -> None:
    from dpp_cdk.settings.config import DeploymentError

    made = read(root, {}, {**LOCAL, "DPP_TIME_ZONE": "UTC", "DPP_TICKET_REAPER_MAX_CLEAN": "7"})
    assert (made.variables["DPP_TIME_ZONE"], made.variables["DPP_TICKET_REAPER_MAX_CLEAN"]) == ("UTC", "7")
    with pytest.raises(DeploymentError, match="DPP_TICKET_REAPER_MAX_CLEAN: Input should be less than"):
        read(root, {}, {**LOCAL, "DPP_TICKET_REAPER_MAX_CLEAN": "1000000000"})


def test_the_local_stack_reads_the_environment_instead_of_a_file(root: Path) -> None:
    keep(root, "dev", {"domain_name": "api.example.com", "certificate_arn": ARN})
    made = read(root, {}, {**LOCAL, "DPP_DECISION_OPENAI_MODEL": "some-model"})
    assert made.domain_name == ""
    assert made.variables["DPP_DECISION_OPENAI_MODEL"] == "some-model"
