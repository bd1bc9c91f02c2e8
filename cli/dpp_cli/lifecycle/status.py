"""Operator commands: heartbeats of roles, open work, failing sources, unsent messages (LIFE-5, LIFE-7, LIFE-11)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer
from pydantic_core import to_jsonable_python

from dpp.lifecycle.flow import heartbeat, store
from dpp.lifecycle.flow.intake import source_rows
from dpp.lifecycle.flow.intake.source_rows import SourceStatus
from dpp.lifecycle.flow.machine import MessageStatus
from dpp.lifecycle.flow.ports import Role
from dpp.lifecycle.flow.reading import read
from dpp.lifecycle.flow.reading.read import Backlog
from dpp.lifecycle.flow.reading.read_rows import OutgoingMessage
from dpp_cli.operator.output import ago, as_json, moment, print_note, print_rows, span, until
from dpp_cli.operator.rows import RowSettings, connected_rows
from dpp_cli.operator.tenants import console

AsArray = Annotated[bool, typer.Option("--json", help="One JSON array.")]
_OF_FLOW = tuple(role for role in Role if role is not Role.CHAMBERLAIN)


def show_status(as_object: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False) -> None:
    """Show each role's last heartbeat and the open events, tasks, questions and messages."""
    with connected_rows(RowSettings) as (connection, _):
        heartbeat_ages, backlog = heartbeat.ages(connection), read.backlog(connection)
        longest, sources = read.waiting(connection, 1), source_rows.statuses(connection)
        now = store.clock(connection)
    dead = heartbeat.dead(heartbeat_ages)
    if as_object:
        roles = [{"role": role, "silent_seconds": heartbeat_ages.get(role), "is_dead": role in dead} for role in Role]
        typer.echo(as_json({"asof": now, "roles": roles, "open": backlog}))
        return
    _print_roles(heartbeat_ages)
    _print_backlog(backlog, longest[0][1].asked_at if longest else None, now)
    for note in (*_of_roles(heartbeat_ages), *_of_sources(sources), *_of_backlog(backlog)):
        print_note(note)


def show_messages(
    sent: Annotated[bool, typer.Option("--sent", help="Show sent messages instead, newest first.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Show at most this many.")] = 50,
    as_array: AsArray = False,
) -> None:
    """List unsent messages, oldest first, with their last error and next attempt."""
    with connected_rows(RowSettings) as (connection, settings):
        found = read.outgoing(connection, sent=sent, limit=limit + 1)
        now = store.clock(connection)
    shown = found[:limit]
    if as_array:
        typer.echo(as_json([message_fields(one) for one in shown]))
    elif shown:
        print_messages(shown, now, settings.zone)
    else:
        console.print("no sent messages are kept" if sent else "all messages are sent")
    if len(found) > limit:
        print_note("there are more; raise --limit")


def show_sources(as_array: AsArray = False) -> None:
    """Show the poll state of each source: failures, last error, next poll."""
    with connected_rows(RowSettings) as (connection, settings):
        found = source_rows.statuses(connection)
        now = store.clock(connection)
    if as_array:
        typer.echo(as_json(found))
    elif found:
        _print_sources(found, now, settings.zone)
    else:
        console.print("no source was ever polled; the sentinel (poller) polls the sources that a deployment configures")


def message_fields(one: OutgoingMessage) -> dict[str, Any]:
    """Return a message as JSON fields."""
    fields: dict[str, Any] = to_jsonable_python(one.message)
    return fields | {"next_attempt_at": one.next_attempt_at, "behind": one.behind}


def print_messages(
    messages: Sequence[OutgoingMessage], now: datetime, zone: ZoneInfo, *, of_one_task: bool = False
) -> None:
    """Print messages as a table with state, attempts and last error."""
    task_column = () if of_one_task else ("of task",)
    names = ("message", *task_column, "kind", "created", "attempts", "state", "last error")
    rows = (
        (
            *(one.message.message_id, *(one.message.task_id or "" for _ in task_column), one.message.kind),
            *(moment(one.message.created_at, zone), str(one.message.attempts), _state(one, now, zone)),
            one.message.last_error or "",
        )
        for one in messages
    )
    print_rows(names, rows, whole=names[:-1], right=("attempts",))


def _state(one: OutgoingMessage, now: datetime, zone: ZoneInfo) -> str:
    """Return SENT with its time, or what the message waits for."""
    if one.message.status is MessageStatus.SENT:
        return f"SENT {moment(one.message.sent_at, zone)}"
    return f"behind {one.behind}" if one.behind else f"PENDING, {until(one.next_attempt_at, now)}"


def _print_roles(heartbeat_ages: Mapping[Role, float]) -> None:
    print_rows(("role", "last heartbeat"), ((role, _heard(heartbeat_ages.get(role))) for role in Role))


def _heard(seconds: float | None) -> str:
    if seconds is None:
        return "never"
    age = f"{seconds:.0f} s ago" if seconds < 120 else f"{span(seconds)} ago"
    return f"{age}, DEAD" if seconds > heartbeat.DEAD_AFTER_SECONDS else age


def _print_backlog(backlog: Backlog, asked_at: datetime | None, now: datetime) -> None:
    def oldest(seconds: float) -> str:
        return span(seconds) if seconds else ""

    with_general = backlog.tasks_pending + backlog.tasks_in_progress
    asked_for = ago(asked_at, now) if asked_at else ""
    rows = (
        ("events without a task", f"{backlog.events_pending:,}", oldest(backlog.oldest_event_seconds)),
        ("events with an open task", f"{backlog.events_dispatched:,}", ""),
        ("tasks with the general (runner)", f"{with_general:,}", oldest(backlog.oldest_task_seconds)),
        ("tasks waiting for a person", f"{backlog.tasks_waiting_for_person:,}", asked_for),
        ("unsent messages", f"{backlog.messages_pending:,}", oldest(backlog.oldest_message_seconds)),
    )
    print_rows(("open", "", "oldest for"), rows, right=("",))


def _of_roles(heartbeat_ages: Mapping[Role, float]) -> Iterator[str]:
    if not any(role in heartbeat_ages for role in _OF_FLOW):
        yield "no heartbeat of any role but the chamberlain: this deployment has no event flow (docs/lifecycle.md)"
        return
    for role in heartbeat.dead(heartbeat_ages):
        yield f"{role}: no heartbeat for over {heartbeat.DEAD_AFTER_SECONDS} s (docs/runbook.md#role-dead)"
    if unheard := [role for role in _OF_FLOW if role not in heartbeat_ages]:
        yield f"{', '.join(unheard)}: no heartbeat yet, so the function was never invoked"


def _of_sources(sources: Iterable[SourceStatus]) -> Iterator[str]:
    for one in sources:
        if one.failures:
            yield f"{one.source} failed {one.failures} times in a row ({one.last_error}); see `dpp lifecycle sources`"


def _of_backlog(backlog: Backlog) -> Iterator[str]:
    if backlog.tasks_waiting_for_person:
        yield "open questions: `dpp lifecycle tasks list --waiting`"
    if backlog.messages_pending:
        yield "unsent messages: `dpp lifecycle messages`"
    if backlog.old_threads:
        yield f"{backlog.old_threads} threads are older than {read.OLD_DAYS} days (docs/runbook.md#threads-overdue)"
    if backlog.old_awaiting:
        yield f"{backlog.old_awaiting} questions were not answered for {read.OLD_DAYS} days"


def _print_sources(sources: Sequence[SourceStatus], now: datetime, zone: ZoneInfo) -> None:
    names = ("source", "last poll", "next", "complete until", "failures", "last error")
    rows = (
        (
            *(one.source, moment(one.polled_at, zone), until(one.next_poll_at, now)),
            *(moment(one.complete_until, zone) or "never", str(one.failures), one.last_error or ""),
        )
        for one in sources
    )
    print_rows(names, rows, right=("failures",))
