"""`dpp local up|status|api|down|logs`."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from dpp_cli.errors import StackError
from dpp_cli.local import events, localstack, stack
from dpp_cli.local.log_files import last_lines
from dpp_cli.local.progress import Steps
from dpp_cli.local.rotation import LogRules, tidy
from dpp_cli.local.state import running_state
from dpp_cli.paths import state_dir

app = typer.Typer(no_args_is_help=True, help="The local stack: Postgres, Valkey, and AWS by LocalStack.")
console = Console()

_FOLLOW_SECONDS = 0.3


@app.command()
def up() -> None:
    """Start the stack's missing parts, migrate and deploy. Safe to repeat."""
    begun = time.monotonic()
    _tidy_logs(LogRules.of(os.environ))
    state = stack.up(state_dir(), Steps(console))
    console.print(f"Up after {time.monotonic() - begun:.0f} s.\n")
    rows = {
        "API": state.api_base_url,
        "AWS": state.aws_endpoint_url,
        "Postgres": state.database_url,
        "Valkey": state.redis_url,
        "run queue": state.outputs["RunQueueUrl"],
        "results": f"s3://{state.outputs['ResultsBucket']}",
        "reports": f"s3://{state.outputs['ReportsBucket']}",
        "logs": f"{state_dir()} (`dpp local logs`)",
    }
    for name, value in rows.items():
        console.print(f"  {name:<10} {value}", highlight=False, soft_wrap=True)


@app.command()
def down(wipe: Annotated[bool, typer.Option("--wipe", help="Also delete rows, budgets and logs.")] = False) -> None:
    """Stop all processes of the stack. Rows and budgets stay; objects and messages are lost with LocalStack."""
    _tidy_logs(_rules())
    ended = stack.down(state_dir(), wipe=wipe)
    console.print(f"Ended {', '.join(ended)}." if ended else "Nothing was running.", highlight=False)


@app.command()
def status() -> None:
    """Show the parts of the stack and whether they answer. Exit code 1 if one does not."""
    _tidy_logs(_rules())
    lines = stack.status(state_dir())
    for line in lines:
        health = "[green]well    [/]" if line.healthy else "[red]not well[/]"
        pid = "" if line.pid is None else f"pid {line.pid}"
        text = f"  {line.name:<11} {health} {pid:<12} {line.where} [dim]{line.note}[/]"
        console.print(text.rstrip(), highlight=False, soft_wrap=True)
    if not all(line.healthy for line in lines):
        raise typer.Exit(1)


@app.command()
def api() -> None:
    """Print the API's URL, for scripts: API=$(dpp local api)."""
    typer.echo(running_state().api_base_url)


@app.command()
def logs(
    part: Annotated[
        str | None,
        typer.Argument(
            help="postgres, valkey, localstack, rotation, deploy, events, or a function (run_worker); default: all."
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as lines come.")] = False,
    lines: Annotated[int, typer.Option("-n", "--lines", help="Number of earlier lines per log.")] = 20,
) -> None:
    """Show the logs of servers and functions."""
    files = _log_files(part)
    positions = {path: _print_tail(path, lines, titled=len(files) > 1) for path in files}
    if not follow:
        return
    try:
        for path in _passing_time(files):
            positions[path] = _print_from(path, positions[path])
    except KeyboardInterrupt:
        return


def _tidy_logs(rules: LogRules) -> None:
    """Rotate the logs of an existing stack; problems are printed as warnings."""
    if not state_dir().is_dir():
        return
    for warning in tidy(state_dir(), rules, datetime.now(UTC)).warnings:
        Console(stderr=True).print(f"[yellow]warning:[/] {escape(warning)}", highlight=False, soft_wrap=True)


def _rules() -> LogRules:
    try:
        return LogRules.of(os.environ)
    except StackError as error:
        Console(stderr=True).print(f"[yellow]warning:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        return LogRules.default()


def _log_files(part: str | None) -> list[Path]:
    folder = state_dir()
    logs = sorted(folder.glob("*.log"))
    found = {path.stem: path for path in logs if events.day_of(path.name) is None}
    for path in sorted(localstack.function_log_dir(folder).glob("*.log")):
        found[path.stem.rpartition("-")[2]] = path  # dpp-dev-run_worker → run_worker
    if part is None:
        return list(found.values())
    if part not in found:
        raise StackError(f"there is no log of {part}; there are {', '.join(found) or 'none yet'}")
    return [found[part]]


def _print_tail(path: Path, lines: int, *, titled: bool) -> int:
    size = path.stat().st_size
    if titled:
        console.rule(path.name, align="left")
    for line in last_lines(path, lines):
        typer.echo(line)
    return size


def _print_from(path: Path, position: int) -> int:
    size = path.stat().st_size if path.exists() else 0  # the events' new day may have none yet
    if size == position:
        return position
    with path.open("rb") as file:
        file.seek(position if size > position else 0)  # rotated, or written anew: what is left is little
        typer.echo(file.read().decode("utf-8", "replace"), nl=False)
        return file.tell()


def _passing_time(files: list[Path]) -> Iterator[Path]:
    while True:
        yield from files
        time.sleep(_FOLLOW_SECONDS)
