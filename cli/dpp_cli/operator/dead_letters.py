"""Shared by the commands for dead-letter queues: options, the choice of messages, the report of what was done."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

import typer

from dpp.platform.aws.held_messages import Choice
from dpp_cli.errors import StackError
from dpp_cli.operator.output import as_json as json_text
from dpp_cli.operator.output import plain
from dpp_cli.operator.tenants import console

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID…", help="Ids from `list`, of messages or their subjects.", show_default=False),
]
All = Annotated[bool, typer.Option("--all", help="Every message, up to --limit.")]
Limit = Annotated[int, typer.Option(min=1, max=1_000, help="Read at most this many messages.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON array.")]


class DeadLetter(Protocol):
    """A dead letter, which may be named by each of its ids."""

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the message and of its subject."""
        ...


class Handled[Letter: DeadLetter](Protocol):
    """A dead letter and what was done with it."""

    @property
    def dead_letter(self) -> Letter:
        """The dead letter."""
        ...

    @property
    def action(self) -> str:
        """The action; LEFT if nothing was done."""
        ...


def choose(ids: list[str] | None, every: bool, limit: int, *, subjects: str) -> Choice:
    """Return the chosen messages. Raises StackError unless there are either ids or `every`."""
    if bool(ids) == every:
        raise StackError(
            "give either ids or --all, not both" if every else f"give ids of {subjects} or messages, or --all"
        )
    return Choice(limit, None if every else frozenset(ids or ()))


def refuse_silent_drop(*, as_json: bool, yes: bool) -> None:
    """Raise StackError if the command would have to ask for confirmation and can't."""
    if as_json and not yes:
        raise StackError("--json cannot ask for confirmation: add --yes")


@dataclass(frozen=True)
class Shown[Letter: DeadLetter]:
    """The presentation of the dead letters of one queue.

    `document`: one as JSON fields, with what was done with it. `table`: prints several. `line`: one in words.
    `labels`: what to print for each action. `question`: what to confirm before a drop.
    """

    document: Callable[[Letter, str | None], Mapping[str, object]]
    table: Callable[[Sequence[Letter]], None]
    line: Callable[[Letter], str]
    labels: Mapping[str, str]
    question: Callable[[Sequence[Letter]], str]

    def show(self, letters: Sequence[Letter], limit: int, *, as_json: bool) -> None:
        """Print dead letters that were read, and how many."""
        if as_json:
            typer.echo(json_text([self.document(letter, None) for letter in letters]))
            return
        if letters:
            self.table(letters)
        print_count(len(letters), limit)

    def confirm(self, letters: Sequence[Letter]) -> None:
        """Show what would be dropped and ask for confirmation; any answer but yes ends the command."""
        if letters:
            self.table(letters)
            typer.confirm(self.question(letters), abort=True)

    def carry_out(self, handled: Iterable[Handled[Letter]], choice: Choice, *, as_json: bool) -> None:
        """Carry it out and print each message as it is done, so that a failure in the middle hides nothing.

        Exit with code 1 if a named message was not found or was left.
        """
        done: list[Handled[Letter]] = []
        try:
            for one in handled:
                done.append(one)
                if not as_json:
                    text = plain(f"{self.line(one.dead_letter)} {self.labels[one.action]}")
                    console.print(text, highlight=False, soft_wrap=True)
        finally:
            if as_json:
                typer.echo(json_text([self.document(one.dead_letter, one.action) for one in done]))
            else:
                counts = Counter(self.labels[one.action] for one in done)
                console.print(", ".join(f"{n} {what}" for what, n in counts.items()) or "nothing to do")
        account_for(choice, done)


def account_for(choice: Choice, handled: Sequence[Handled[DeadLetter]]) -> None:
    """Exit with code 1 if a named message was not found or was left."""
    if choice.ids is None:
        return
    found = frozenset[str]().union(*(one.dead_letter.ids for one in handled))
    if absent := choice.ids - found:
        raise StackError(f"not among the first {choice.limit} messages: {', '.join(sorted(absent))}")
    if any(one.action == "LEFT" for one in handled):
        raise typer.Exit(1)


def print_count(count: int, limit: int) -> None:
    """Print how many messages are in the queue, as far as they were read."""
    more = "; there may be more (--limit)" if count == limit else ""
    console.print(f"{count_of(count)} in the dead-letter queue{more}", highlight=False)


def count_of(count: int) -> str:
    """Format a number of messages."""
    return "1 message" if count == 1 else f"{count} messages"
