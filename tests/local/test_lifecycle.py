"""`dpp lifecycle`: what an operator sees and runs of what deletes data that has served (LIFE-8, LIFE-13)."""

import json
import re

import pytest

from dpp_cli.paths import ROOT
from tests.local.shell import OperatorShell, named_rows
from tests.support.world import World


@pytest.fixture
def shell(world: World, monkeypatch: pytest.MonkeyPatch) -> OperatorShell:
    for name in ("DPP_REPORTS_BUCKET", "DPP_STATE_BUCKET"):
        monkeypatch.setenv(name, world.bucket)
    world.sql("INSERT INTO lifecycle_seen VALUES ('jira:A-1', now() - interval '31 days')")
    return named_rows(monkeypatch, world.database_url)


def test_every_command_of_the_page_works(shell: OperatorShell) -> None:
    page = (ROOT / "docs" / "retention.md").read_text(encoding="utf-8")
    commands = [line.partition("#")[0].split()[1:] for line in re.findall(r"^dpp lifecycle .*$", page, re.MULTILINE)]
    assert len(commands) == 5
    for words in commands:
        result = shell.run(*words)
        assert result.exit_code == (1 if words[-1] == "stop" else 0), (words, result.stderr)


def test_a_cleanup_is_previewed_run_and_reported(shell: OperatorShell) -> None:
    before = {one["name"]: one for one in json.loads(shell.run("lifecycle", "preview", "--json").stdout)}
    assert before["seen"]["due"] == 1
    assert "seen" in shell.run("lifecycle", "run", "--dry-run").stdout
    done = json.loads(shell.run("lifecycle", "run", "--class", "seen", "--as", "kim", "--json").stdout)
    assert (done["deleted"], done["requested_by"], done["is_done"]) == (1, "kim", True)
    assert "MANUAL" in shell.run("lifecycle", "report").stdout
    usage = {one["class"]: one for one in json.loads(shell.run("lifecycle", "usage", "--json").stdout)}
    assert usage["seen"]["rows"] == 0
    assert set(before) == set(usage)


def test_a_wrong_class_and_nothing_to_stop_are_sentences(shell: OperatorShell) -> None:
    wrong = shell.run("lifecycle", "run", "--class", "sen")
    assert wrong.exit_code == 1
    assert "There is no class sen. The classes are auth_errors" in str(wrong.exception)
    assert "no cleanup is in progress" in str(shell.run("lifecycle", "stop").exception)
    assert "no cleanup has run yet" in str(shell.run("lifecycle", "report").exception)
