"""Operator commands: the dead-letter queue of runs (RUN-15), implemented by `dpp.runs.operations.dead_letters`.

They use the database, the Redis and the two queues that the environment names (all four), else the running local stack.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated

import typer

from dpp.platform.aws.held_messages import Choice
from dpp.platform.aws.queue import Queue
from dpp.platform.config import DeadLetterSettings, QueueSettings
from dpp.runs.operations import dead_letters
from dpp.runs.operations.dead_letters import Action, DeadLetter, DeadLetterEffects, MessageStatus
from dpp_cli.operator.connect import BackendSettings, opened, reach
from dpp_cli.operator.dead_letters import All, AsJson, Ids, Limit, Shown, Yes, choose, count_of, refuse_silent_drop
from dpp_cli.operator.output import ago, print_rows
from dpp_cli.operator.tenants import as_sentences, console

dlq_app = typer.Typer(no_args_is_help=True, help="Run messages that failed three times.")


class _DlqSettings(BackendSettings, QueueSettings, DeadLetterSettings):
    """Settings of the database, the ledger and both queues."""


@dlq_app.command("list")
def show(limit: Limit = 100, as_json: AsJson = False) -> None:
    """List dead letters with the status of their runs. They stay hidden from other readers only while this runs."""
    with _effects() as effects:
        found = dead_letters.list_dead_letters(effects, Choice(limit))
    _SHOWN.show(found, limit, as_json=as_json)


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
        _SHOWN.carry_out(dead_letters.redrive(effects, choice, force=force), choice, as_json=as_json)


@dlq_app.command("drop")
def drop(ids: Ids = None, every: All = False, yes: Yes = False, limit: Limit = 100, as_json: AsJson = False) -> None:
    """Delete messages; their QUEUED runs first end as FAILED with a full refund.

    Safe to repeat. Exit code 1 if a named message was not found.
    """
    choice = choose(ids, every, limit, subjects="runs")
    refuse_silent_drop(as_json=as_json, yes=yes)
    with _effects() as effects:
        if not yes:
            _SHOWN.confirm(dead_letters.list_dead_letters(effects, choice))
        _SHOWN.carry_out(dead_letters.drop(effects, choice), choice, as_json=as_json)


@contextmanager
def _effects() -> Iterator[DeadLetterEffects]:
    """Open all connections that a command needs. Raises StackError, also for errors inside the block."""
    at = reach(_DlqSettings)
    urls = (at.settings.run_dead_letter_queue_url, at.settings.run_queue_url)
    dead, runs = (Queue(url, lambda: at.client("sqs")) for url in urls)
    with as_sentences(), opened(at.settings) as (database, ledger):
        yield DeadLetterEffects(database, ledger, dead, runs)


def _question(found: Sequence[DeadLetter]) -> str:
    waiting = Counter(one.status for one in found)[MessageStatus.QUEUED]
    runs = "1 waiting run" if waiting == 1 else f"{waiting} waiting runs"
    return f"Drop {count_of(len(found))}, and end {runs} with a full refund?"


def _print_table(found: Sequence[DeadLetter]) -> None:
    now = datetime.now(UTC)
    rows = (
        (
            *(_id(one), one.content.tenant_id if one.content else "", _state(one)),
            *(ago(one.message.sent_at, now), str(one.message.receive_count)),
        )
        for one in found
    )
    names = ("run (or message)", "tenant", "run is", "age", "tries")
    print_rows(names, rows, whole=names[:1], right=("age", "tries"), folded=("tenant",))
    for one in found:
        if one.fault is not None:
            console.print(f"message {_id(one)} can't be read: {one.fault}", highlight=False, soft_wrap=True)


def _id(letter: DeadLetter) -> str:
    return letter.message.message_id if letter.content is None else str(letter.content.run_id)


def _state(letter: DeadLetter) -> str:
    """Return the run's status if it has ended, else the state of its message."""
    if letter.run is not None and letter.status == MessageStatus.ENDED:
        return letter.run.status
    return letter.status if letter.run else letter.status.lower()


def _fields(letter: DeadLetter, action: str | None) -> dict[str, object]:
    """Return a dead letter as JSON fields; `state` is the state of its message, `status` its run's."""
    content, run = letter.content, letter.run
    fields: dict[str, object] = {
        "message_id": letter.message.message_id,
        "run_id": content and str(content.run_id),
        "tenant_id": content and content.tenant_id,
        "state": letter.status,
        "status": run and run.status,
        "money_state": run and run.money_state,
        "sent_at": letter.message.sent_at.isoformat(),
        "receive_count": letter.message.receive_count,
        "fault": letter.fault,
    }
    return fields if action is None else fields | {"action": action}


_SHOWN = Shown(
    document=_fields,
    table=_print_table,
    line=lambda letter: f"{_id(letter)}  {_state(letter):<11}",
    labels={
        Action.SENT_BACK: "sent back",
        Action.RUN_ENDED: "run ended, refunded in full; deleted",
        Action.DELETED: "deleted",
        Action.LEFT: "left",
    },
    question=_question,
)
