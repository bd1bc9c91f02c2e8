"""Runs one operator command in this process, with nobody to ask."""

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
"""The exit code of a command that isn't one, as typer has it."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of it. The output may hold a key that is shown once: never to be logged."""

    exit_code: int
    stdout: str = field(repr=False)
    stderr: str = field(repr=False)


class _Nobody(io.TextIOBase):
    """A standard input at which nobody sits."""

    def readline(self, _size: int = -1, /) -> str:  # type: ignore[override] # as every stream of text
        raise StackError("the command asks, and nobody can answer here: add --yes")


def run(app: typer.Typer, words: Sequence[str], columns: int) -> Ran:
    """Run `dpp WORDS…` to its end. A fault that the operator can do something about is exit code 1 and a sentence.

    Anything else is raised. The streams are the process's: not for two threads at once.
    """
    if (refused := refusal(list(words))) is not None:
        return Ran(USAGE, "", f"error: {refused}\n")
    command = typer.main.get_command(app)
    stdout, stderr = io.StringIO(), io.StringIO()
    with _nobody_at_stdin(), redirect_stdout(stdout), redirect_stderr(stderr):
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
def _nobody_at_stdin() -> Iterator[None]:
    before = sys.stdin
    sys.stdin = _Nobody()
    try:
        yield
    finally:
        sys.stdin = before
