"""The commands and the request that README and docs/tickets.md show for tickets work as they stand there."""

import json
import re
import shlex
from collections.abc import Iterator

import pytest

from dpp_cli.paths import ROOT
from tests.local.shell import OperatorShell, named_rows
from tests.operator_api import OperatorApi
from tests.world import World

_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _blocks() -> Iterator[str]:
    for page in ("README.md", "docs/tickets.md"):
        yield from _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


COMMANDS = [
    tuple(shlex.split(line, comments=True)[1:])
    for block in _blocks()
    for line in block.splitlines()
    if re.match(r"dpp (tickets|ops|operator) ", line)
]


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
