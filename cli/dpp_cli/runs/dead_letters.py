"""Operator commands: the dead-letter queue of runs (RUN-15), implemented by `dpp.runs.operations.dead_letters`.

They use the database, the Redis and the two queues that the environment names (all four), else the running local stack.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from dpp.money.ledger import LedgerError
from dpp.platform.aws.held_messages import Choice
from dpp.platform.aws.queue import Queue
from dpp.platform.config import ConfigurationError, DeadLetterSettings, QueueSettings
from dpp.platform.errors import DependencyUnavailable
from dpp.runs.operations import dead_letters
from dpp.runs.operations.dead_letters import Action, DeadLetter, DeadLetterEffects, HandledDeadLetter, MessageStatus
from dpp_cli.errors import StackError
from dpp_cli.operator.connect import BackendSettings, opened, reach
from dpp_cli.operator.dead_letters import (
    All,
    AsJson,
    Ids,
    Limit,
    Yes,
    account_for,
    carry_out,
    choose,
    count_of,
    print_count,
    refuse_silent_drop,
)
from dpp_cli.operator.output import ago
from dpp_cli.operator.tenants import console

dlq_app = typer.Typer(no_args_is_help=True, help="Run messages that failed three times.")
_DONE: Mapping[str, str] = {
    Action.SENT_BACK: "sent back",
    Action.RUN_ENDED: "run ended, refunded in full; deleted",
    Action.DELETED: "deleted",
    Action.LEFT: "left",
}


class _DlqSettings(BackendSettings, QueueSettings, DeadLetterSettings):
    """Settings of the database, the ledger and both queues."""


@dlq_app.command("list")
def show(limit: Limit = 100, as_json: AsJson = False) -> None:
    """List dead letters with the status of their runs. They stay hidden from other readers only while this runs."""
    with _effects() as effects:
        found = dead_letters.list_dead_letters(effects, Choice(limit))
    if as_json:
        typer.echo(json.dumps([_fields(dead_letter) for dead_letter in found]))
        return
    _print_table(found)
    print_count(len(found), limit)


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
    choice = choose(ids, every, limit, subjects="runs")
    with _effects() as effects:
        handled = _carry_out(dead_letters.redrive(effects, choice, force=force), as_json=as_json)
    account_for(choice, handled)


@dlq_app.command("drop")
def drop(ids: Ids = None, every: All = False, yes: Yes = False, limit: Limit = 100, as_json: AsJson = False) -> None:
    """Delete messages; their QUEUED runs first end as FAILED with a full refund.

    Safe to repeat. Exit code 1 if a named message was not found.
    """
    choice = choose(ids, every, limit, subjects="runs")
    refuse_silent_drop(as_json=as_json, yes=yes)
    with _effects() as effects:
        if not yes:
            _confirm(dead_letters.list_dead_letters(effects, choice))
        handled = _carry_out(dead_letters.drop(effects, choice), as_json=as_json)
    account_for(choice, handled)


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


def _confirm(found: list[DeadLetter]) -> None:
    """Show what would be dropped and ask for confirmation; any answer but yes ends the command."""
    if not found:
        return
    _print_table(found)
    waiting = Counter(dead_letter.status for dead_letter in found)[MessageStatus.QUEUED]
    runs = "1 waiting run" if waiting == 1 else f"{waiting} waiting runs"
    typer.confirm(f"Drop {count_of(len(found))}, and end {runs} with a full refund?", abort=True)


def _carry_out(handled: Iterable[HandledDeadLetter], *, as_json: bool) -> list[HandledDeadLetter]:
    def line_of(one: HandledDeadLetter) -> Text:
        return Text(f"{_id(one.dead_letter)}  {_state(one.dead_letter):<11} {_DONE[one.action]}")

    def json_of(done: Sequence[HandledDeadLetter]) -> str:
        return json.dumps([_fields(one.dead_letter) | {"action": one.action} for one in done])

    return carry_out(handled, _DONE, line_of=line_of, json_of=json_of if as_json else None)


def _print_table(found: list[DeadLetter]) -> None:
    if not found:
        return
    table = Table("run (or message)", "tenant", "run is", "age", "tries", box=None, header_style="dim", pad_edge=False)
    table.columns[0].no_wrap = True
    table.columns[1].overflow = "fold"
    for column in table.columns[3:]:
        column.justify = "right"
    for dead_letter in found:
        tenant = dead_letter.content.tenant_id if dead_letter.content else ""
        table.add_row(
            _id(dead_letter), tenant, _state(dead_letter), _age(dead_letter), str(dead_letter.message.receive_count)
        )
    console.print(table)
    for dead_letter in found:
        if dead_letter.fault is not None:
            console.print(
                f"message {_id(dead_letter)} can't be read: {dead_letter.fault}", highlight=False, soft_wrap=True
            )


def _fields(dead_letter: DeadLetter) -> dict[str, Any]:
    content, run = dead_letter.content, dead_letter.run
    return {
        "message_id": dead_letter.message.message_id,
        "run_id": content and str(content.run_id),
        "tenant_id": content and content.tenant_id,
        "state": dead_letter.status,
        "status": run and run.status,
        "money_state": run and run.money_state,
        "sent_at": dead_letter.message.sent_at.isoformat(),
        "receive_count": dead_letter.message.receive_count,
        "fault": dead_letter.fault,
    }


def _id(dead_letter: DeadLetter) -> str:
    return dead_letter.message.message_id if dead_letter.content is None else str(dead_letter.content.run_id)


def _state(dead_letter: DeadLetter) -> str:
    """Return the run's status if it has ended, else the state of its message."""
    if dead_letter.run is not None and dead_letter.status == MessageStatus.ENDED:
        return dead_letter.run.status
    return dead_letter.status if dead_letter.run else dead_letter.status.lower()


def _age(dead_letter: DeadLetter) -> str:
    return ago(dead_letter.message.sent_at, datetime.now(UTC))
