"""Runs `dpp` as an operator types it, each stream apart."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from dpp_cli.errors import StackError
from dpp_cli.main import app


class OperatorShell:
    """`dpp` in the environment of the test."""

    def __init__(self, *before: str) -> None:
        self._before = before

    def run(self, *words: str) -> Result:
        """A command, however it ends."""
        return CliRunner().invoke(app, [*self._before, *words])

    def out(self, *words: str) -> str:
        """A command that succeeds and says nothing besides; its stdout."""
        result = self.run(*words)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return result.stdout

    def data(self, *words: str) -> Any:
        """The one JSON document that a command with `--json` prints, whatever it says besides."""
        result = self.run(*words, "--json")
        assert result.stdout.endswith("\n"), result.output
        return json.loads(result.stdout)

    def refused(self, *words: str) -> str:
        """A command that ends with a sentence; the sentence."""
        result = self.run(*words)
        assert isinstance(result.exception, StackError), result.output
        assert result.stdout == ""
        return str(result.exception)


def named_rows(monkeypatch: pytest.MonkeyPatch, database_url: str) -> OperatorShell:
    """A shell whose environment names the rows and nothing else, its user called kim."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("LOGNAME", "kim")
    return OperatorShell()
