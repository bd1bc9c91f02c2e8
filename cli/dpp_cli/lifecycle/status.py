"""Operator commands: who is silent, what is open, which source fails, what is not sent (LIFE-5, LIFE-7, LIFE-11)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer
from pydantic_core import to_jsonable_python
from rich.table import Table

from dpp.lifecycle.flow import heartbeat, store
from dpp.lifecycle.flow.intake import source_rows
from dpp.lifecycle.flow.intake.source_rows import SourceStatus
from dpp.lifecycle.flow.machine import MessageStatus
from dpp.lifecycle.flow.ports import Role
from dpp.lifecycle.flow.reading import read
from dpp.lifecycle.flow.reading.read import Backlog
from dpp.lifecycle.flow.reading.read_rows import OutgoingMessage
from dpp_cli.operator.output import ago, as_json, moment, plain, print_note, print_table, span, until
from dpp_cli.operator.rows import RowSettings, connected_rows
from dpp_cli.operator.tenants import console

AsArray = Annotated[bool, typer.Option("--json", help="One JSON array.")]
_OF_FLOW = tuple(role for role in Role if role is not Role.CHAMBERLAIN)


def show_status(
    as_object: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show when each role was last heard, and what is open: events, tasks, questions and messages."""
    with connected_rows(RowSettings) as (connection, _):
        heartbeat_ages, backlog = heartbeat.ages(connection), read.backlog(connection)
        longest, sources = read.waiting(connection, 1), source_rows.statuses(connection)
        now = store.clock(connection)
    dead = heartbeat.dead(heartbeat_ages)
    if as_object:
        roles = [
            {"role": role, "silent_seconds": heartbeat_ages.get(role), "is_dead": role in dead}
            for role in Role
        ]
        typer.echo(as_json({"asof": now, "roles": roles, "open": backlog}))
        return
    _print_roles(heartbeat_ages)
    _print_backlog(backlog, longest[0][1].asked_at if longest else None, now)
    for told in (*_of_roles(heartbeat_ages), *_of_sources(sources), *_of_backlog(backlog)):
        print_note(told)


def show_messages(
    sent: Annotated[bool, typer.Option("--sent", help="Those that were sent, the newest first.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="The first so many.")] = 50,
    as_array: AsArray = False,
) -> None:
    """Show which messages are not sent, the oldest first: why, and when each is tried next."""
    with connected_rows(RowSettings) as (connection, settings):
        found = read.outgoing(connection, sent=sent, limit=limit + 1)
        now = store.clock(connection)
    shown = found[:limit]
    if as_array:
        typer.echo(as_json([message_fields(one) for one in shown]))
    elif shown:
        print_messages(shown, now, settings.zone)
    else:
        console.print("no message was sent that is still kept" if sent else "every message is sent")
    if len(found) > limit:
        print_note("there are more (--limit)")


def show_sources(as_array: AsArray = False) -> None:
    """Show where the polls of each source stand: what fails, and until when it is left alone."""
    with connected_rows(RowSettings) as (connection, settings):
        found = source_rows.statuses(connection)
        now = store.clock(connection)
    if as_array:
        typer.echo(as_json(found))
    elif found:
        _print_sources(found, now, settings.zone)
    else:
        console.print("no source was ever asked: the sentinel asks those that a deployment names")


def message_fields(one: OutgoingMessage) -> dict[str, Any]:
    """A message as JSON has it."""
    told: dict[str, Any] = to_jsonable_python(one.message)
    return told | {"next_attempt_at": one.next_attempt_at, "behind": one.behind}


def print_messages(
    messages: Sequence[OutgoingMessage], now: datetime, zone: ZoneInfo, *, of_one_task: bool = False
) -> None:
    """Messages as a table: when each was written, what keeps it, and what went wrong last."""
    whose = () if of_one_task else ("of task",)
    names = ("message", *whose, "kind", "written", "tries", "stands", "last error")
    table = Table(*names, box=None, header_style="dim", pad_edge=False)
    for column in table.columns[:-1]:
        column.no_wrap = True
    table.columns[-3].justify = "right"
    for one in messages:
        said = one.message
        ids = (said.message_id, *(said.task_id or "" for _ in whose))
        cells = (said.kind, moment(said.created_at, zone), str(said.attempts), _stands(one, now, zone))
        table.add_row(*ids, *cells, plain(said.last_error or ""))
    print_table(table)


def _stands(one: OutgoingMessage, now: datetime, zone: ZoneInfo) -> str:
    """SENT and when; else what it waits for."""
    if one.message.status is MessageStatus.SENT:
        return f"SENT {moment(one.message.sent_at, zone)}"
    return f"behind {one.behind}" if one.behind else f"PENDING, {until(one.next_attempt_at, now)}"


def _print_roles(heartbeat_ages: Mapping[Role, float]) -> None:
    table = Table("role", "last heard", box=None, header_style="dim", pad_edge=False)
    for role in Role:
        silent = heartbeat_ages.get(role)
        table.add_row(role, "never" if silent is None else _heard(silent))
    print_table(table)


def _heard(seconds: float) -> str:
    told = f"{seconds:.0f} s ago" if seconds < 120 else f"{span(seconds)} ago"
    return f"{told}, DEAD" if seconds > heartbeat.DEAD_AFTER_SECONDS else told


def _print_backlog(backlog: Backlog, asked_at: datetime | None, now: datetime) -> None:
    def oldest(seconds: float) -> str:
        return span(seconds) if seconds else ""

    with_general = backlog.tasks_pending + backlog.tasks_in_progress
    asked_for = ago(asked_at, now) if asked_at else ""
    rows = (
        ("events that no task was made of", backlog.events_pending, oldest(backlog.oldest_event_seconds)),
        ("events whose tasks are not over", backlog.events_dispatched, ""),
        ("tasks that the general has", with_general, oldest(backlog.oldest_task_seconds)),
        ("tasks that wait for a person", backlog.tasks_waiting_for_person, asked_for),
        ("messages that are not sent", backlog.messages_pending, oldest(backlog.oldest_message_seconds)),
    )
    table = Table("open", "", "the oldest for", box=None, header_style="dim", pad_edge=False)
    table.columns[1].justify = "right"
    for name, count, longest in rows:
        table.add_row(name, f"{count:,}", longest)
    print_table(table)


def _of_roles(heartbeat_ages: Mapping[Role, float]) -> Iterator[str]:
    if not any(role in heartbeat_ages for role in _OF_FLOW):
        yield "no role but the chamberlain was ever heard: this deployment has none (docs/lifecycle.md)"
        return
    for role in heartbeat.dead(heartbeat_ages):
        yield f"{role} was not heard for over {heartbeat.DEAD_AFTER_SECONDS} s (docs/runbook.md#role-dead)"
    if unheard := [role for role in _OF_FLOW if role not in heartbeat_ages]:
        yield f"{', '.join(unheard)}: never heard, so its function was never fired"


def _of_sources(sources: Iterable[SourceStatus]) -> Iterator[str]:
    for one in sources:
        if one.failures:
            yield f"{one.source} failed {one.failures} times in a row, {one.last_error}: `dpp lifecycle sources`"


def _of_backlog(backlog: Backlog) -> Iterator[str]:
    if backlog.tasks_waiting_for_person:
        yield "who is asked what: `dpp lifecycle tasks list --waiting`"
    if backlog.messages_pending:
        yield "what keeps messages: `dpp lifecycle messages`"
    if backlog.old_threads:
        yield f"{backlog.old_threads} threads are older than {read.OLD_DAYS} days (docs/runbook.md#threads-overdue)"
    if backlog.old_awaiting:
        yield f"{backlog.old_awaiting} questions were not answered for {read.OLD_DAYS} days"


def _print_sources(sources: Sequence[SourceStatus], now: datetime, zone: ZoneInfo) -> None:
    names = ("source", "last asked", "next", "complete until", "failures", "last error")
    table = Table(*names, box=None, header_style="dim", pad_edge=False)
    table.columns[4].justify = "right"
    for one in sources:
        whole = moment(one.complete_until, zone) or "never"
        due = until(one.next_poll_at, now)
        cells = (one.source, moment(one.polled_at, zone), due, whole, str(one.failures))
        table.add_row(*cells, plain(one.last_error or ""))
    print_table(table)
