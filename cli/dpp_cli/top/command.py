"""`dpp top`: everything an operator looks at first, on one page that stays up to date.

Here it asks the servers itself; with `--stage` it asks the deployment's function `operate` for one snapshot a look, by
what `dpp_cli.main` puts in its place, and draws it here.
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


class Looks(Protocol):
    """Where snapshots come from: each call is one look. `every_seconds`: how often, if nothing else is said."""

    @property
    def where(self) -> str:
        """Which deployment, in a few words."""
        ...

    @property
    def every_seconds(self) -> float:
        """How often, if nothing else is said."""
        ...

    def __call__(self) -> Snapshot:
        """Look once. Raises StackError where the deployment does not answer at all."""
        ...


class _Here:
    """The servers that the environment names, or those of the running local stack."""

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
            help="From look to look; 2 if not given, on a deployment 10: each is an invocation there.",
            show_default=False,
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="One look, all of it, and no more; so it is where nobody sits at a terminal."
        ),
    ] = False,
    as_object: Annotated[bool, typer.Option("--json", help="One look as one JSON object.")] = False,
) -> None:
    """Watch what is wrong, runs, budgets, tickets, events, workspaces and data on one page; q or Ctrl-C ends it.

    Exit code 1 of one look: something did not answer, so that not all could be shown.
    """
    with _looks(context.obj) as looks:
        if not (once or as_object) and can_follow(console):
            every_seconds = interval or looks.every_seconds
            memory = Memory(looks.where, every_seconds)
            raise typer.Exit(follow(looks, memory, every_seconds, console))
        view = Memory(looks.where).seen(looks())
    if as_object:
        typer.echo(as_json(view.snapshot.model_dump(mode="json")))
    else:
        console.print(draw(view, console.width), highlight=False)
    if view.snapshot.away or view.snapshot.slow:
        raise typer.Exit(1)


@contextmanager
def _looks(given: Looks | None) -> Iterator[Looks]:
    if given is not None:
        yield given
        return
    at = reach(TopSettings)
    with Gatherer(at) as gatherer:
        yield _Here(gatherer, "local stack" if at.endpoint_url else "by the environment")
