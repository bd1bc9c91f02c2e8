"""Operator commands: the dead-letter queue of events (AUTH-7, AUTH-8). See `dpp.auth_errors.outbox.dead_letters`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import typer
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from rich.table import Table
from rich.text import Text

from dpp.auth_errors.config import EventDeadLetterSettings
from dpp.auth_errors.outbox import dead_letters
from dpp.auth_errors.outbox.dead_letters import Action, EventDeadLetter, EventDeadLetterEffects, HandledDeadLetter
from dpp.auth_errors.outbox.redrive import DeliveryStatus
from dpp.platform.aws.held_messages import Choice
from dpp.platform.aws.queue import Queue
from dpp_cli.auth_errors.events import WakeSettings, waker_of
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
from dpp_cli.operator.output import ago, as_array, plain, print_table
from dpp_cli.operator.rows import opened_rows

letters_app = typer.Typer(no_args_is_help=True, help="Dead letters: copies of events that could not be handled.")
_DONE: Mapping[str, str] = {Action.REVIVED: "event revived; deleted", Action.DELETED: "deleted", Action.LEFT: "left"}
_STATES = {
    DeliveryStatus.DEAD: "dead",
    DeliveryStatus.HANDLED: "handled since",
    DeliveryStatus.UNDER_WAY: "in progress again",
    DeliveryStatus.UNKNOWN: "unknown event",
}


class _LetterSettings(WakeSettings, EventDeadLetterSettings):
    """Settings of the database, the dead-letter queue and the publisher's wake queue."""


class _LetterView(BaseModel):
    """A dead letter as JSON; `state` is the state of its event."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    message_id: str
    outbox_id: int | None
    event_type: str | None
    reason: str | None
    detail: str | None
    state: DeliveryStatus
    auth_error_id: str | None
    sent_at: datetime
    receive_count: int
    action: Action | None = None

    @classmethod
    def of(cls, letter: EventDeadLetter, action: Action | None = None) -> "_LetterView":
        """Build the view of a dead letter and what was done with it."""
        return cls(
            message_id=letter.message.message_id,
            outbox_id=letter.outbox_id,
            event_type=letter.event_type,
            reason=letter.reason,
            detail=letter.detail,
            state=letter.status,
            auth_error_id=str(letter.entry.auth_error_id) if letter.entry else None,
            sent_at=letter.message.sent_at,
            receive_count=letter.message.receive_count,
            action=action,
        )


@letters_app.command("list")
def show(limit: Limit = 100, as_json: AsJson = False) -> None:
    """List dead letters with their reason and the state of their event.

    They stay hidden from other readers only while this runs.
    """
    with _effects() as effects:
        letters = dead_letters.list_dead_letters(effects, Choice(limit))
    if as_json:
        typer.echo(as_array(_LetterView.of(letter) for letter in letters))
        return
    _print_letters(letters)
    print_count(len(letters), limit)


@letters_app.command("redrive")
def redrive(ids: Ids = None, every: All = False, limit: Limit = 100, as_json: AsJson = False) -> None:
    """Revive dead events, delete copies of events that were handled since, leave messages that are not events.

    Safe to repeat. Exit code 1 if a named message was not found or was left.
    """
    choice = choose(ids, every, limit, subjects="events")
    with _effects() as effects:
        handled = _carry_out(dead_letters.send_again(effects, choice), as_json=as_json)
    account_for(choice, handled)


@letters_app.command("drop")
def drop(ids: Ids = None, every: All = False, yes: Yes = False, limit: Limit = 100, as_json: AsJson = False) -> None:
    """Delete messages. A dead event stays dead; `dpp auth-errors redrive OUTBOX_ID` can still revive it.

    Safe to repeat. Exit code 1 if a named message was not found.
    """
    choice = choose(ids, every, limit, subjects="events")
    refuse_silent_drop(as_json=as_json, yes=yes)
    with _effects() as effects:
        if not yes:
            _confirm(dead_letters.list_dead_letters(effects, choice))
        handled = _carry_out(dead_letters.drop(effects, choice), as_json=as_json)
    account_for(choice, handled)


@contextmanager
def _effects() -> Iterator[EventDeadLetterEffects]:
    """Open all connections that a command needs. Raises StackError, also for errors inside the block."""
    with opened_rows(_LetterSettings) as rows:
        at = rows.at
        queue = Queue(at.settings.event_dead_letter_queue_url, lambda: at.client("sqs"))
        yield EventDeadLetterEffects(rows.database, queue, waker_of(at))


def _confirm(letters: list[EventDeadLetter]) -> None:
    """Show what would be dropped and ask for confirmation; any answer but yes ends the command."""
    if letters:
        _print_letters(letters)
        typer.confirm(f"Drop {count_of(len(letters))}?", abort=True)


def _carry_out(handled: Iterator[HandledDeadLetter], *, as_json: bool) -> list[HandledDeadLetter]:
    def line_of(one: HandledDeadLetter) -> Text:
        return plain(f"{_id(one.dead_letter)}  {_STATES[one.dead_letter.status]}: {_DONE[one.action]}")

    def json_of(done: Sequence[HandledDeadLetter]) -> str:
        return as_array(_LetterView.of(one.dead_letter, one.action) for one in done)

    return carry_out(handled, _DONE, line_of=line_of, json_of=json_of if as_json else None)


def _print_letters(letters: list[EventDeadLetter]) -> None:
    if not letters:
        return
    names = ("event (or message)", "type", "event is", "reason", "age", "detail")
    table = Table(*names, box=None, header_style="dim", pad_edge=False)
    for column in table.columns[:5]:
        column.no_wrap = True
    now = datetime.now(UTC)
    for letter in letters:
        kind = (letter.event_type or "").removeprefix("auth.error.")
        reason, detail = letter.reason or "none given", letter.detail or ""
        cells = (plain(_id(letter)), plain(kind[:30]), _STATES[letter.status], plain(reason[:30]))
        table.add_row(*cells, ago(letter.message.sent_at, now), plain(detail))
    print_table(table)


def _id(letter: EventDeadLetter) -> str:
    return letter.message.message_id if letter.outbox_id is None else str(letter.outbox_id)
