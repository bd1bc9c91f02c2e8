"""The commands and the requests that README, docs/tickets.md and docs/auth-errors.md show work as they stand there."""

import json
import re
import shlex
from collections.abc import Iterator
from uuid import uuid4

import pytest

from dpp.auth_errors import outbox
from dpp_cli.paths import ROOT
from tests.auth_errors.api import AuthErrorsApi, the_documents_own
from tests.local.shell import OperatorShell, named_rows
from tests.operator_api import OperatorApi
from tests.world import World

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


@pytest.fixture
def shell(world: World, monkeypatch: pytest.MonkeyPatch) -> OperatorShell:
    monkeypatch.setenv("DPP_REPORTS_BUCKET", world.bucket)
    return named_rows(monkeypatch, world.database_url)


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
    monkeypatch.setattr("dpp.auth_errors.dead_letters.WAIT_SECONDS", 0)
    monkeypatch.setenv("DPP_AUTH_ERROR_DEAD_LETTER_QUEUE_URL", world.queue_url)
    monkeypatch.chdir(ROOT)
    with AuthErrorsApi.of_world(world, monkeypatch) as client:
        the_documents_own(client)
    with world.database.connection() as connection:
        owner = uuid4()
        [event] = outbox.claim(connection, owner, 1)
        outbox.put_back(
            connection, owner, event.outbox_id, retry_count=6, next_retry_at=None, error="refused"
        )
    assert len(OF_AUTH_ERRORS) > 15
    for words in OF_AUTH_ERRORS:
        result = shell.run(*words)
        assert result.exit_code == 0, (words, result.output, result.exception)


def test_the_requests_about_authentication_errors_are_accepted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AUTH-1, AUTH-11."""
    found = [
        re.search(r"auth-errors(\S*)\".*-d '(\{.*?\})'\n", block, re.DOTALL)
        for block in _blocks("docs/auth-errors.md")
        if "curl" in block
    ]
    with AuthErrorsApi.of_world(world, monkeypatch) as client:
        the_documents_own(client)
        for one, token in zip(found, (client.tenant, client.operator), strict=True):
            assert one is not None
            answer = client.call("POST", f"/api/auth-errors{one[1]}", token=token, body=one[2])
            assert answer.status == 201, answer.text
