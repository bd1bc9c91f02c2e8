"""The deployment that a command uses: the one that the environment names, else the local stack."""

import pytest

from dpp.auth_errors.config import EventDeadLetterSettings, WakeQueueSettings
from dpp.platform.config import PostgresSettings, QueueSettings
from dpp.tickets.config import ReaperSettings, ReportsSettings
from dpp_cli.errors import StackError
from dpp_cli.local.state import StackState
from dpp_cli.operator.connect import reach
from operate.handler import OperateSettings

_LOCAL = StackState(
    database_url="postgresql://local/dpp",
    redis_url="redis://local",
    aws_endpoint_url="http://127.0.0.1:4566",
    outputs={
        "ResultsBucket": "results",
        "ReportsBucket": "reports",
        "StateBucket": "state",
        "RunQueueUrl": "http://local/runs",
        "RunDeadLetterQueueUrl": "http://local/dead",
        "AuthErrorDeadLetterQueueUrl": "http://local/dead-events",
        "AuthErrorWakeQueueUrl": "http://local/wake",
    },
)


class _Wanted(PostgresSettings, QueueSettings, ReaperSettings):
    """Required variables, a choice between two sets of them, and some that have a default."""


@pytest.fixture(autouse=True)
def _local_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpp_cli.local.state.running_state", lambda: _LOCAL)


def test_without_any_variable_it_is_the_local_stack() -> None:
    at = reach(_Wanted)
    assert (at.settings.database, at.endpoint_url) == (_LOCAL.database_url, _LOCAL.aws_endpoint_url)
    assert at.settings.time_zone == "Asia/Seoul"


def test_whatever_the_operators_function_needs_is_found_on_the_local_stack() -> None:
    """Else a command works with `--stage local` alone."""
    assert reach(OperateSettings).settings.state_bucket == "state"


@pytest.mark.parametrize(
    ("name", "value"),
    [("DPP_TIME_ZONE", "UTC"), ("DPP_TICKET_REAPER_MAX_CLEAN", "1"), ("DATABASE_PORT", "5433"), ("DATABASE_URL", "")],
)
def test_a_variable_that_has_a_default_names_no_deployment(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """TIX-7: a zone in a shell's profile must not turn every command away from the local stack, nor change it."""
    monkeypatch.setenv(name, value)
    assert reach(_Wanted).settings == reach_without(monkeypatch, name)


def reach_without(monkeypatch: pytest.MonkeyPatch, name: str) -> _Wanted:
    """The default without the variable."""
    monkeypatch.delenv(name)
    return reach(_Wanted).settings


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (
            {"DATABASE_URL": "postgresql://there/dpp"},
            "the environment is incomplete: DATABASE_URL set; missing: DPP_RUN_QUEUE_URL",
        ),
        ({"DPP_RUN_QUEUE_URL": "https://there"}, "DPP_RUN_QUEUE_URL set; missing: DATABASE_URL or"),
        ({"DATABASE_SECRET_ARN": "arn:aws:x"}, "DATABASE_SECRET_ARN set; missing: DPP_RUN_QUEUE_URL, DATABASE"),
    ],
)
def test_some_of_what_tells_a_deployment_is_half_of_one(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], missing: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StackError, match=missing):
        reach(_Wanted)


def test_a_deployment_that_is_named_whole_is_read_with_its_optional_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://there/dpp")
    monkeypatch.setenv("DPP_RUN_QUEUE_URL", "https://there")
    assert reach(_Wanted).settings.time_zone == "Asia/Seoul"
    monkeypatch.setenv("DPP_TIME_ZONE", "Europe/Berlin")
    at = reach(_Wanted)
    assert (at.settings.database, at.settings.time_zone) == ("postgresql://there/dpp", "Europe/Berlin")
    assert at.endpoint_url is None


def test_a_wrong_value_of_a_deployment_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://there/dpp")
    monkeypatch.setenv("DPP_RUN_QUEUE_URL", "https://there")
    monkeypatch.setenv("DPP_TIME_ZONE", "Asia/Pyeongyang")
    with pytest.raises(StackError, match="DPP_TIME_ZONE: not a time zone"):
        reach(_Wanted)


class _Events(PostgresSettings, EventDeadLetterSettings, WakeQueueSettings):
    """The settings of the dead-event commands."""


def test_the_local_stack_has_the_queues_of_events() -> None:
    """AUTH-7."""
    found = reach(_Events).settings
    assert found.event_dead_letter_queue_url == "http://local/dead-events"
    assert found.wake_queue_url == "http://local/wake"


def test_what_tells_a_deployment_is_what_has_no_default() -> None:
    assert _Wanted.identifying() == ("DATABASE_HOST", "DATABASE_SECRET_ARN", "DATABASE_URL", "DPP_RUN_QUEUE_URL")
    assert ReportsSettings.identifying() == ("DPP_REPORTS_BUCKET",)
    assert ReaperSettings.identifying() == ()
