"""Operator commands: the dead-letter queue of events (AUTH-7, AUTH-8). See `dpp.auth_errors.outbox.dead_letters`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import typer
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from dpp.auth_errors.config import EventDeadLetterSettings
from dpp.auth_errors.outbox import dead_letters
from dpp.auth_errors.outbox.dead_letters import Action, EventDeadLetter, EventDeadLetterEffects
from dpp.auth_errors.outbox.redrive import DeliveryStatus
from dpp.platform.aws.held_messages import Choice
from dpp.platform.aws.queue import Queue
from dpp_cli.auth_errors.events import WakeSettings, waker_of
from dpp_cli.operator.dead_letters import All, AsJson, Ids, Limit, Shown, Yes, choose, count_of, refuse_silent_drop
from dpp_cli.operator.output import ago, print_rows
from dpp_cli.operator.rows import opened_rows

letters_app = typer.Typer(no_args_is_help=True, help="Dead letters: copies of events that could not be handled.")
_STATES = {
    DeliveryStatus.DEAD: "dead",
    DeliveryStatus.HANDLED: "handled since",
    DeliveryStatus.UNDER_WAY: "in progress again",
    DeliveryStatus.UNKNOWN: "unknown event",
}


class _LetterSettings(WakeSettings, EventDeadLetterSettings):
    """Settings of the database, the dead-letter queue and the publisher's wake queue."""


class _LetterView(BaseModel):
    """A dead letter as JSON; `state` is the state of its event, `action` what was done with it."""

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
    action: str | None = None


@letters_app.command("list")
def show(limit: Limit = 100, as_json: AsJson = False) -> None:
    """List dead letters with their reason and the state of their event.

    They stay hidden from other readers only while this runs.
    """
    with _effects() as effects:
        letters = dead_letters.list_dead_letters(effects, Choice(limit))
    _SHOWN.show(letters, limit, as_json=as_json)


@letters_app.command("redrive")
def redrive(ids: Ids = None, every: All = False, limit: Limit = 100, as_json: AsJson = False) -> None:
    """Revive dead events, delete copies of events that were handled since, leave messages that are not events.

    Safe to repeat. Exit code 1 if a named message was not found or was left.
    """
    choice = choose(ids, every, limit, subjects="events")
    with _effects() as effects:
        _SHOWN.carry_out(dead_letters.send_again(effects, choice), choice, as_json=as_json)


@letters_app.command("drop")
def drop(ids: Ids = None, every: All = False, yes: Yes = False, limit: Limit = 100, as_json: AsJson = False) -> None:
    """Delete messages. A dead event stays dead; `dpp auth-errors redrive OUTBOX_ID` can still revive it.

    Safe to repeat. Exit code 1 if a named message was not found.
    """
    choice = choose(ids, every, limit, subjects="events")
    refuse_silent_drop(as_json=as_json, yes=yes)
    with _effects() as effects:
        if not yes:
            _SHOWN.confirm(dead_letters.list_dead_letters(effects, choice))
        _SHOWN.carry_out(dead_letters.drop(effects, choice), choice, as_json=as_json)


@contextmanager
def _effects() -> Iterator[EventDeadLetterEffects]:
    """Open all connections that a command needs. Raises StackError, also for errors inside the block."""
    with opened_rows(_LetterSettings) as rows:
        at = rows.at
        queue = Queue(at.settings.event_dead_letter_queue_url, lambda: at.client("sqs"))
        yield EventDeadLetterEffects(rows.database, queue, waker_of(at))


def _print_letters(letters: Sequence[EventDeadLetter]) -> None:
    names = ("event (or message)", "type", "event is", "reason", "age", "detail")
    now = datetime.now(UTC)
    rows = (
        (
            *(_id(letter), (letter.event_type or "").removeprefix("auth.error.")[:30], _STATES[letter.status]),
            *((letter.reason or "none given")[:30], ago(letter.message.sent_at, now), letter.detail or ""),
        )
        for letter in letters
    )
    print_rows(names, rows, whole=names[:5])


def _id(letter: EventDeadLetter) -> str:
    return letter.message.message_id if letter.outbox_id is None else str(letter.outbox_id)


def _fields(letter: EventDeadLetter, action: str | None) -> dict[str, object]:
    view = _LetterView(
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
    return view.model_dump(mode="json", by_alias=True, exclude_none=True)


_SHOWN = Shown(
    document=_fields,
    table=_print_letters,
    line=lambda letter: f"{_id(letter)}  {_STATES[letter.status]}:",
    labels={Action.REVIVED: "event revived; deleted", Action.DELETED: "deleted", Action.LEFT: "left"},
    question=lambda letters: f"Drop {count_of(len(letters))}?",
)
