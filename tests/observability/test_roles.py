"""The metrics of the lifecycle roles (LIFE-1 … LIFE-7)."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from dpp.lifecycle.flow.dispatcher import DispatcherEffects
from dpp.lifecycle.flow.errors import OutsideUnavailable
from dpp.lifecycle.flow.intake.deliveries import WebhookEffects
from dpp.lifecycle.flow.intake.poller import PollerEffects
from dpp.lifecycle.flow.notifier import NotifierEffects
from dpp.lifecycle.flow.ports import Outside, OutsideReply, Wake
from dpp.lifecycle.flow.runner import RunnerEffects
from dpp.platform.aws.renewable import Renewable
from tests.lifecycle.environment import ASKS, CannedSlack, CannedTaskRuns
from tests.lifecycle.poll_environment import LOGIN, PAGE, PlayedReplies, comment, comment_path, notification, reply
from tests.lifecycle.signing import SECRETS, headers_of
from tests.observability.emf import totals
from tests.observability.invoke import invoke
from tests.support.api import gateway_event
from tests.support.memory_s3 import MemoryS3
from tests.support.world import World

type Output = pytest.CaptureFixture[str]


class Roles:
    """The roles' functions with a real Postgres and stand-ins for everything else."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self._world, self._monkeypatch = world, monkeypatch
        self.slack = CannedSlack()
        self.outside = PlayedReplies()
        self._wake: Wake = lambda _role: None
        self._bucket = MemoryS3().store("state")
        self.task_runs = CannedTaskRuns()

    def mention(self) -> None:
        """Create a mention on GitHub with the current time: an old one would be ignored."""
        now = datetime.now(UTC)
        self.outside.answers = {
            f"{PAGE}1": reply([notification(1, at=now)]),
            comment_path(1): reply(comment(1, at=now)),
        }

    def sentinel(self) -> None:
        """Run one tick of the sentinel (poller); a source is due again at once."""
        self._world.sql("UPDATE lifecycle_sources SET next_poll_at = now()")
        effects = PollerEffects(self._world.database, self.outside, self._wake, LOGIN, None, 28)
        invoke("lifecycle_sentinel", self._monkeypatch, effects)

    def delivered(self, body: bytes = b'{"zen": "Design for failure."}', signed: bytes | None = None) -> int:
        """Send a delivery of GitHub and return the status."""
        given = headers_of("github", body if signed is None else signed, kind="ping")
        headers = {name: [value] for name, value in given.items()}
        event = gateway_event("POST", "/v1/webhooks/github", headers, body)
        effects = WebhookEffects(self._world.database, self._wake, Renewable(SECRETS), LOGIN, 28)
        status: int = invoke("lifecycle_webhook", self._monkeypatch, effects, event)["statusCode"]
        return status

    def king(self) -> None:
        """Run one tick."""
        invoke("lifecycle_king", self._monkeypatch, DispatcherEffects(self._world.database, self._wake))

    def general(self) -> None:
        """Run one tick of the general (runner); a task is due again at once."""
        self._world.sql("UPDATE lifecycle_tasks SET next_look_at = now() WHERE status = 'IN_PROGRESS'")
        effects = RunnerEffects(self._world.database, self.task_runs, self._bucket, self._wake, 3)
        invoke("lifecycle_general", self._monkeypatch, effects)

    def envoy(self) -> None:
        """Run one tick."""
        effects = NotifierEffects(self._world.database, cast(Outside, self.slack), "C0HOME")
        invoke("lifecycle_envoy", self._monkeypatch, effects)


@pytest.fixture
def roles(world: World, monkeypatch: pytest.MonkeyPatch) -> Roles:
    return Roles(world, monkeypatch)


def test_an_event_is_counted_by_source_and_outcome(roles: Roles, capsys: Output) -> None:
    roles.mention()
    roles.sentinel()
    first = totals(capsys.readouterr().out, "EventsTakenIn")
    assert first[("GITHUB", "ACCEPTED")] == 1
    roles.sentinel()
    again = totals(capsys.readouterr().out, "EventsTakenIn")
    assert (again[("GITHUB", "ACCEPTED")], again[("GITHUB", "DUPLICATE")]) == (0, 1)
    assert roles.delivered() == 202
    assert totals(capsys.readouterr().out, "EventsTakenIn") == {("GITHUB", "IGNORED"): 1}
    assert roles.delivered(signed=b"other") == 401
    out = capsys.readouterr().out
    assert totals(out, "EventsTakenIn") == {}
    assert totals(out, "Refusals") == {("SIGNATURE_INVALID",): 1}


def test_consecutive_failed_polls_are_reported_until_one_succeeds(roles: Roles, capsys: Output) -> None:
    """LIFE-7: also by a tick that skips the source, so that a pause does not hide it."""
    failures: list[float] = []
    roles.outside.answers = {f"{PAGE}1": reply(status=500)}
    for _ in range(2):
        roles.sentinel()
        failures.append(totals(capsys.readouterr().out, "SourceFailures")[("GITHUB",)])
    roles.mention()
    roles.sentinel()
    failures.append(totals(capsys.readouterr().out, "SourceFailures")[("GITHUB",)])
    assert failures == [1, 2, 0]


def test_each_step_from_an_event_to_its_end_is_counted(roles: Roles, capsys: Output) -> None:
    """LIFE-1, LIFE-2, LIFE-5."""
    roles.mention()
    roles.sentinel()
    capsys.readouterr()
    roles.king()
    out = capsys.readouterr().out
    assert totals(out, "TasksBegun") == {(): 1}
    assert totals(out, "FlowWaiting") == {("EVENT",): 0, ("TASK",): 1, ("MESSAGE",): 1}
    assert totals(out, "FlowAge")[("EVENT",)] == 0
    roles.general()
    assert totals(capsys.readouterr().out, "TaskLooks")[("SENT",)] == 1
    roles.general()
    assert totals(capsys.readouterr().out, "TaskLooks")[("SUCCEEDED",)] == 1
    roles.envoy()
    assert totals(capsys.readouterr().out, "MessagesDelivered") == {("SENT",): 2, ("REPEATED",): 0, ("FAILED",): 0}
    roles.king()
    out = capsys.readouterr().out
    assert totals(out, "FlowWaiting") == {("EVENT",): 0, ("TASK",): 0, ("MESSAGE",): 0}
    assert totals(out, "FlowAge") == {("EVENT",): 0, ("TASK",): 0, ("MESSAGE",): 0}


def test_a_task_without_a_run_ages_and_one_that_waits_for_an_answer_does_not(
    roles: Roles, world: World, capsys: Output
) -> None:
    roles.mention()
    roles.sentinel()
    roles.king()
    with world.database.connection() as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("UPDATE lifecycle_tasks SET created_at = created_at - interval '2 hours'")
        connection.execute("SET session_replication_role = origin")
    capsys.readouterr()
    roles.king()
    assert totals(capsys.readouterr().out, "FlowAge")[("TASK",)] == pytest.approx(7_200, abs=60)
    roles.task_runs.plans[""] = [ASKS]  # of all tasks
    for _ in range(2):
        roles.general()
    assert totals(capsys.readouterr().out, "TaskLooks")[("ASKED",)] == 1
    roles.king()
    out = capsys.readouterr().out
    assert totals(out, "FlowAge")[("TASK",)] == 0
    assert totals(out, "FlowWaiting")[("TASK",)] == 0


def test_a_message_refused_by_slack_is_counted_as_failed(roles: Roles, capsys: Output) -> None:
    def away(_request: dict[str, Any]) -> OutsideReply:
        raise OutsideUnavailable("ConnectError")

    roles.mention()
    roles.sentinel()
    roles.king()
    roles.slack.replies = away
    capsys.readouterr()
    roles.envoy()
    assert totals(capsys.readouterr().out, "MessagesDelivered")[("FAILED",)] == 1
