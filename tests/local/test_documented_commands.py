"""The commands and the requests that README and the docs of a context show work as they stand there."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from dpp.auth_errors.outbox import tables
from dpp.lifecycle.config import (
    ChannelSettings,
    CredentialSettings,
    SourcesSettings,
    TaskSettings,
    WebhookSecretSettings,
)
from dpp.lifecycle.flow.intake.accept import accept_event
from dpp.lifecycle.flow.model import Arrival, EventKind, NewEvent, Source, Subject
from dpp.platform.ids import parse_uuid
from dpp.workspaces.api import create as creating
from dpp.workspaces.api.contract import WorkspaceChangeRequest, WorkspaceCreateRequest
from dpp.workspaces.providers.s3_archives import S3Archives
from dpp_cli.paths import ROOT
from tests.auth_errors.api import AuthErrorsApi, insert_example_rows
from tests.lifecycle.environment import ASKS, NOON, open_environment
from tests.local.shell import OperatorShell
from tests.support.operator_api import OperatorApi
from tests.support.world import World
from tests.workspaces.conftest import env, fleet
from tests.workspaces.environment import Environment
from tests.workspaces.memory_provider import MemoryProvider

__all__ = ["env", "fleet"]  # fixtures

_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _blocks(*pages: str) -> Iterator[str]:
    for page in pages or ("README.md", "docs/tickets.md"):
        yield from _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def _commands(groups: str, *pages: str) -> list[tuple[str, ...]]:
    return [
        tuple(shlex.split(line, comments=True)[1:])
        for block in _blocks(*pages)
        for line in block.splitlines()
        if re.match(rf"dpp ({groups}) ", line)
    ]


COMMANDS = _commands("tickets|ops|operator")
OF_AUTH_ERRORS = _commands("auth-errors", "README.md", "docs/auth-errors.md")
OF_WORKSPACES = _commands("workspaces", "README.md", "docs/workspaces.md")
OF_LIFECYCLE = _commands("lifecycle", "docs/lifecycle.md")


def test_every_command_that_is_shown_works(shell: OperatorShell) -> None:
    """TIX-1, TIX-5, TIX-6: typed in the order in which they are shown."""
    assert len(COMMANDS) > 10
    for words in COMMANDS:
        result = shell.run(*words)
        assert result.exit_code == 0, (words, result.output, result.exception)


def test_the_request_that_is_shown_files_a_ticket(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """TIX-1."""
    [body] = [
        found.group(1)
        for block in _blocks()
        if (found := re.search(r"-d '(\{.*?\})'\n", block, re.DOTALL)) and "request_type" in found.group(1)
    ]
    client = OperatorApi.of_world(world, monkeypatch)
    answer = client.send("POST", "/api/tickets", json.loads(body))
    client.close()
    assert (answer.status, answer.body["current_status"]) == (201, "OPEN")
    assert answer.headers["Location"] == f"tickets/{answer.body['request_id']}"


def test_every_command_about_authentication_errors_works(
    shell: OperatorShell, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AUTH-8, AUTH-10, AUTH-11: in their order, where the page's own error and cluster stand and its event is dead."""
    monkeypatch.setattr("dpp.auth_errors.outbox.dead_letters.WAIT_SECONDS", 0)
    monkeypatch.setenv("DPP_AUTH_ERROR_DEAD_LETTER_QUEUE_URL", world.queue_url)
    monkeypatch.chdir(ROOT)
    with AuthErrorsApi.of_world(world, monkeypatch) as client:
        insert_example_rows(client)
    owner = uuid4()
    [event] = world.using(tables.claim, owner, 1)
    world.using(tables.put_back, owner, event.outbox_id, retry_count=6, next_retry_at=None, error="refused")
    assert len(OF_AUTH_ERRORS) > 15
    for words in OF_AUTH_ERRORS:
        result = shell.run(*words)
        assert result.exit_code == 0, (words, result.output, result.exception)


def test_the_requests_about_authentication_errors_are_accepted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """AUTH-1, AUTH-11."""
    found = [
        re.search(r"auth-errors(\S*)\".*-d '(\{.*?\})'\n", block, re.DOTALL)
        for block in _blocks("docs/auth-errors.md")
        if "curl" in block
    ]
    with AuthErrorsApi.of_world(world, monkeypatch) as client:
        insert_example_rows(client)
        for one, token in zip(found, (client.tenant, client.operator), strict=True):
            assert one is not None
            answer = client.call("POST", f"/api/auth-errors{one[1]}", token=token, body=one[2])
            assert answer.status == 201, answer.text


def test_every_command_about_workspaces_works(
    shell: OperatorShell, env: Environment, fleet: MemoryProvider, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WS-13, WS-14: in their order, where the page's own workspace has lost its home."""
    [of_the_page] = {word for words in OF_WORKSPACES for word in words if parse_uuid(word) is not None}
    monkeypatch.setattr(creating, "new_id", lambda: UUID(of_the_page))
    archives = S3Archives(world.bucket, lambda: world.s3)
    env.provider = replace(env.provider, archives=archives)
    for name in ("DPP_WORKSPACE_LOOK_QUEUE_URL", "DPP_WORKSPACE_WORK_QUEUE_URL"):
        monkeypatch.setenv(name, world.queue_url)
    monkeypatch.setenv("DPP_ARCHIVES_BUCKET", world.bucket)
    workspace_id = env.create_in("STANDBY")
    del fleet.volumes.volumes[workspace_id]
    env.drive_to(workspace_id, "ERROR")
    assert len(OF_WORKSPACES) > 5
    for words in OF_WORKSPACES:
        result = shell.run(*words, *(["--yes"] if "recover" in words else []))
        assert result.exit_code == 0, (words, result.output, result.exception)
    env.drive_to(workspace_id, "STANDBY")


def test_the_requests_about_workspaces_are_accepted(env: Environment) -> None:
    """WS-5, WS-6: what is sent is what the API reads, and a deletion comes after what it asks for."""
    [new, change] = [
        found[1]
        for block in _blocks("docs/workspaces.md")
        if (found := re.search(r"-d '(\{.*?\})'\n", block, re.DOTALL))
    ]
    wanted = WorkspaceCreateRequest.model_validate_json(new)
    workspace_id = env.create(**wanted.model_dump(mode="json", exclude={"name", "desired_state"}))
    env.drive_to(workspace_id, wanted.desired_state)
    env.set_desired_state(workspace_id, WorkspaceChangeRequest.model_validate_json(change).desired_state or "")
    env.drive_to(workspace_id, "ARCHIVED")
    assert env.delete(workspace_id).deleted_at is not None


def test_every_command_about_events_and_tasks_works(shell: OperatorShell, world: World) -> None:
    """LIFE-10: in their order, where the page's own event is a task that asks a person."""
    [event_id, task_id] = [
        next(word for words in OF_LIFECYCLE for word in words if word.startswith(prefix))
        for prefix in ("github:", "task-")
    ]
    with open_environment(world.database_url) as env:
        env.clock.seconds = (datetime(2026, 11, 28, 12, tzinfo=UTC) - NOON).total_seconds()
        env.admin.execute("INSERT INTO lifecycle_sequences VALUES ('task', '2026-11-28', 2)")
        subject = Subject(place="acme/shop", title="Which shop?")
        event = NewEvent(event_id, Source.GITHUB, EventKind.MENTIONED, env.now, subject)
        env.task_runs.plans["Which shop?"] = [ASKS]
        world.using(accept_event, event, Arrival.WEBHOOK, 28, env.now)
        env.run_ticks(3)
    assert len(OF_LIFECYCLE) > 8
    for words in OF_LIFECYCLE:
        result = shell.run(*words)
        assert result.exit_code == 0, (words, result.output, result.exception)
    assert shell.data("lifecycle", "tasks", "show", task_id)["event"]["event_id"] == event_id


def test_the_set_up_that_is_shown_is_one_that_the_roles_take() -> None:
    """LIFE-7, LIFE-10: each option's value is one that its setting takes, and each member of the secret is read."""
    page = (ROOT / "docs" / "lifecycle.md").read_text(encoding="utf-8")
    [printed] = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)]
    given = {_variable(name): str(value) for name, value in printed.items() if name != "size"}
    settings = (TaskSettings, SourcesSettings, ChannelSettings, CredentialSettings, WebhookSecretSettings)
    known = {variable for one in settings for variable in one.variables()}
    assert set(given) <= known
    for one in settings:
        one.load(given)
    members = re.findall(
        r"^\| (`[a-z_`, ]+`) \| ", page[page.index("| member |") : page.index("Its ARN")], re.MULTILINE
    )
    secrets = {
        name
        for one in (CredentialSettings, WebhookSecretSettings)
        for name in one.model_fields
        if name not in {"github_url", "jira_url", "lifecycle_secret_arn"}
    }
    assert {name for cell in members for name in re.findall("[a-z_]+", cell)} == secrets


def _variable(option: str) -> str:
    return f"DPP_{option.upper()}"
