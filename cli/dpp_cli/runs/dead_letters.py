"""Operator commands: the dead-letter queue of runs (RUN-15), implemented by `dpp.runs.operations.dead_letters`.

They use the database, the Redis and the two queues that the environment names (all four), else the running local stack.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table

from dpp.money.ledger import LedgerError
from dpp.platform.aws.held_messages import Choice
from dpp.platform.aws.queue import Queue
from dpp.platform.config import ConfigurationError, DeadLetterSettings, QueueSettings
from dpp.platform.errors import DependencyUnavailable
from dpp.runs.operations import dead_letters
from dpp.runs.operations.dead_letters import Action, DeadLetter, DeadLetterEffects, Handled, Standing
from dpp_cli.errors import StackError
from dpp_cli.operator.connect import BackendSettings, opened, reach
from dpp_cli.operator.output import ago
from dpp_cli.operator.tenants import console

dlq_app = typer.Typer(no_args_is_help=True, help="Run messages that failed three times.")
_DONE = {
    Action.SENT_BACK: "sent back",
    Action.RUN_ENDED: "run ended, refunded in full; deleted",
    Action.DELETED: "deleted",
    Action.LEFT: "left",
}

Ids = Annotated[
    list[str] | None,
    typer.Argument(help="Ids of runs or messages, as `list` shows them.", show_default=False),
]
All = Annotated[bool, typer.Option("--all", help="Every message, up to --limit.")]
Limit = Annotated[int, typer.Option(min=1, max=1_000, help="Read at most this many messages.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON array.")]


class _DlqSettings(BackendSettings, QueueSettings, DeadLetterSettings):
    """Settings of the database, the ledger and both queues."""


@dlq_app.command("list")
def show(limit: Limit = 100, as_json: AsJson = False) -> None:
    """List dead letters with the status of their runs. They stay hidden from other readers only while this runs."""
    with _effects() as effects:
        letters = dead_letters.look(effects, Choice(limit))
    if as_json:
        typer.echo(json.dumps([_fields(letter) for letter in letters]))
        return
    _print_table(letters)
    more = "; there may be more (--limit)" if len(letters) == limit else ""
    console.print(f"{_count(letters)} in the dead-letter queue{more}")


@dlq_app.command("redrive")
def redrive(
    ids: Ids = None,
    every: All = False,
    force: Annotated[bool, typer.Option(help="Send back all other messages too, unchanged.")] = False,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """Send back messages whose run is QUEUED, delete those whose run has ended, and leave the others.

    Safe to repeat: a message that is sent back twice is processed once. Exit code 1 if a named message was not found or
    was left.
    """
    choice = _choice(ids, every, limit)
    with _effects() as effects:
        handled = _carry_out(dead_letters.redrive(effects, choice, force=force), as_json=as_json)
    _account_for(choice, handled)


@dlq_app.command("drop")
def drop(
    ids: Ids = None,
    every: All = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """Delete messages; their QUEUED runs first end as FAILED with a full refund.

    Safe to repeat. Exit code 1 if a named message was not found.
    """
    choice = _choice(ids, every, limit)
    if as_json and not yes:
        raise StackError("--json cannot ask for confirmation: add --yes")
    with _effects() as effects:
        if not yes:
            _confirm(dead_letters.look(effects, choice))
        handled = _carry_out(dead_letters.drop(effects, choice), as_json=as_json)
    _account_for(choice, handled)


@contextmanager
def _effects() -> Iterator[DeadLetterEffects]:
    """Open all connections that a command needs. Raises StackError, also for errors inside the block."""
    at = reach(_DlqSettings)
    wanted = at.settings
    urls = (wanted.run_dead_letter_queue_url, wanted.run_queue_url)
    dead, runs = (Queue(url, lambda: at.client("sqs")) for url in urls)
    try:
        with opened(wanted) as (database, ledger):
            yield DeadLetterEffects(database, ledger, dead, runs)
    except (ConfigurationError, DependencyUnavailable, LedgerError) as error:
        raise StackError(str(error) or type(error).__name__) from error


def _choice(ids: list[str] | None, every: bool, limit: int) -> Choice:
    if bool(ids) == every:
        raise StackError(
            "give ids of runs or messages, or --all" if not every else "give either ids or --all, not both"
        )
    return Choice(limit, None if every else frozenset(ids or ()))


def _confirm(letters: list[DeadLetter]) -> None:
    """Show what would be dropped and ask for confirmation; any answer but yes ends the command."""
    if not letters:
        return
    _print_table(letters)
    waiting = Counter(letter.standing for letter in letters)[Standing.QUEUED]
    runs = "1 waiting run" if waiting == 1 else f"{waiting} waiting runs"
    typer.confirm(f"Drop {_count(letters)}, and end {runs} with a full refund?", abort=True)


def _carry_out(handled: Iterable[Handled], *, as_json: bool) -> list[Handled]:
    """Carry it out and print each message as it is done, so that a failure in the middle hides nothing."""
    done: list[Handled] = []
    try:
        for one in handled:
            done.append(one)
            if not as_json:
                state = _state(one.letter)
                console.print(
                    f"{_id(one.letter)}  {state:<11} {_DONE[one.action]}", highlight=False, soft_wrap=True
                )
    finally:
        if as_json:
            typer.echo(json.dumps([_fields(one.letter) | {"action": one.action} for one in done]))
        else:
            counts = Counter(_DONE[one.action] for one in done)
            console.print(", ".join(f"{n} {what}" for what, n in counts.items()) or "nothing to do")
    return done


def _account_for(choice: Choice, handled: list[Handled]) -> None:
    """Exit with code 1 if a named message was not handled."""
    if choice.ids is None:
        return
    found = frozenset[str]().union(*(one.letter.ids for one in handled))
    if absent := choice.ids - found:
        raise StackError(f"not among the first {choice.limit} messages: {', '.join(sorted(absent))}")
    if any(one.action == Action.LEFT for one in handled):
        raise typer.Exit(1)


def _print_table(letters: list[DeadLetter]) -> None:
    if not letters:
        return
    table = Table(
        "run (or message)", "tenant", "run is", "age", "tries", box=None, header_style="dim", pad_edge=False
    )
    table.columns[0].no_wrap = True
    table.columns[1].overflow = "fold"
    for column in table.columns[3:]:
        column.justify = "right"
    for letter in letters:
        tenant = letter.content.tenant_id if letter.content else ""
        table.add_row(_id(letter), tenant, _state(letter), _age(letter), str(letter.message.receive_count))
    console.print(table)
    for letter in letters:
        if letter.fault is not None:
            console.print(
                f"message {_id(letter)} can't be read: {letter.fault}", highlight=False, soft_wrap=True
            )


def _fields(letter: DeadLetter) -> dict[str, Any]:
    content, run = letter.content, letter.run
    return {
        "message_id": letter.message.message_id,
        "run_id": content and str(content.run_id),
        "tenant_id": content and content.tenant_id,
        "standing": letter.standing,
        "status": run and run.status,
        "money_state": run and run.money_state,
        "sent_at": letter.message.sent_at.isoformat(),
        "receive_count": letter.message.receive_count,
        "fault": letter.fault,
    }


def _id(letter: DeadLetter) -> str:
    return letter.message.message_id if letter.content is None else str(letter.content.run_id)


def _state(letter: DeadLetter) -> str:
    """Return the run's status if it has ended, else the state of its message."""
    if letter.run is not None and letter.standing == Standing.ENDED:
        return letter.run.status
    return letter.standing if letter.run else letter.standing.lower()


def _age(letter: DeadLetter) -> str:
    return ago(letter.message.sent_at, datetime.now(UTC))


def _count(letters: list[DeadLetter]) -> str:
    return "1 message" if len(letters) == 1 else f"{len(letters)} messages"
