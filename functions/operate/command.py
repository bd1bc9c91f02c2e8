"""Runs one operator command in this process, without a terminal."""

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field

import typer
import typer.main

from dpp_cli.errors import StackError
from dpp_cli.operator.app import refusal
from dpp_cli.operator.tenants import console

USAGE = 2
"""The exit code of an unknown command, the same as typer's."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a command. Never log the output: it may contain a new API key."""

    exit_code: int
    stdout: str = field(repr=False)
    stderr: str = field(repr=False)


class _NoTerminal(io.TextIOBase):
    """A standard input that refuses every read."""

    def readline(self, _size: int = -1, /) -> str:  # type: ignore[override] # as every stream of text
        raise StackError("the command asks for confirmation, which is impossible here: add --yes")


def run(app: typer.Typer, words: Sequence[str], columns: int) -> Ran:
    """Run `dpp WORDS…`. An error that the operator can correct gives exit code 1 and a message.

    Any other error is raised. It redirects the process's streams, so it must not run in two threads at once.
    """
    if (refused := refusal(list(words))) is not None:
        return Ran(USAGE, "", f"error: {refused}\n")
    command = typer.main.get_command(app)
    stdout, stderr = io.StringIO(), io.StringIO()
    with _no_terminal(), redirect_stdout(stdout), redirect_stderr(stderr):
        console.width = columns
        try:
            command.main(args=list(words), prog_name="dpp")
            exit_code = 0
        except SystemExit as ended:
            exit_code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except StackError as error:
            exit_code = 1
            stderr.write(f"error: {error}\n")
    return Ran(exit_code, stdout.getvalue(), stderr.getvalue())


@contextmanager
def _no_terminal() -> Iterator[None]:
    before = sys.stdin
    sys.stdin = _NoTerminal()
    try:
        yield
    finally:
        sys.stdin = before
