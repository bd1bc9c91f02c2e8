"""`dpp top`: one live page with everything that an operator checks first.

By default it queries the servers directly. With `--stage`, `dpp_cli.main` supplies a source of snapshots that invokes
the deployment's function `operate` once per refresh; the page is drawn locally.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Protocol

import typer

from dpp_cli.operator.connect import reach
from dpp_cli.operator.output import as_json
from dpp_cli.operator.tenants import as_sentences, console
from dpp_cli.top.gather import Gatherer, TopSettings
from dpp_cli.top.live import can_follow, follow
from dpp_cli.top.model import Snapshot
from dpp_cli.top.screen import draw
from dpp_cli.top.view import Memory


class Snapshots(Protocol):
    """A source of snapshots; each call takes one."""

    @property
    def where(self) -> str:
        """The deployment, as shown in the page's title."""
        ...

    @property
    def every_seconds(self) -> float:
        """The default refresh interval."""
        ...

    def __call__(self) -> Snapshot:
        """Take one snapshot. Raises StackError if the deployment does not answer at all."""
        ...


class _Direct:
    """Snapshots from the servers that the environment names, or those of the running local stack."""

    every_seconds = 2.0

    def __init__(self, gatherer: Gatherer, where: str) -> None:
        self._gatherer = gatherer
        self.where = where

    def __call__(self) -> Snapshot:
        with as_sentences():
            return self._gatherer()


def top(
    context: typer.Context,
    interval: Annotated[
        float | None,
        typer.Option(
            min=0.5,
            max=3_600,
            metavar="SECONDS",
            help="Refresh interval. Default: 2; with --stage 10, since each refresh is one invocation.",
            show_default=False,
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option("--once", help="Print the full page once and exit; the default if the output is not a terminal."),
    ] = False,
    as_object: Annotated[bool, typer.Option("--json", help="Print one snapshot as JSON.")] = False,
) -> None:
    """Watch problems, runs, budgets, tickets, events, workspaces and data on one page; q or Ctrl-C ends it.

    With --once or --json, exit code 1 means that a dependency did not answer, so the page is incomplete.
    """
    with _source(context.obj) as source:
        if not (once or as_object) and can_follow(console):
            every_seconds = interval or source.every_seconds
            memory = Memory(source.where, every_seconds)
            raise typer.Exit(follow(source, memory, every_seconds, console))
        view = Memory(source.where).update(source())
    if as_object:
        typer.echo(as_json(view.snapshot.model_dump(mode="json")))
    else:
        console.print(draw(view, console.width), highlight=False)
    if view.snapshot.away or view.snapshot.slow:
        raise typer.Exit(1)


@contextmanager
def _source(given: Snapshots | None) -> Iterator[Snapshots]:
    if given is not None:
        yield given
        return
    at = reach(TopSettings)
    with Gatherer(at) as gatherer:
        yield _Direct(gatherer, "local stack" if at.endpoint_url else "by the environment")
