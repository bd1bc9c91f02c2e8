"""Operator commands: events from GitHub and Jira, and their tasks (LIFE-1, LIFE-6)."""

from collections.abc import Mapping, Sequence
from typing import Annotated
from zoneinfo import ZoneInfo

import typer
from pydantic_core import to_jsonable_python
from rich.text import Text

from dpp.lifecycle.flow.errors import EventNotFound
from dpp.lifecycle.flow.machine import EventStatus
from dpp.lifecycle.flow.model import Event, Subject, Task
from dpp.lifecycle.flow.reading import read
from dpp.lifecycle.flow.reading.read import EventRecord
from dpp_cli.errors import StackError
from dpp_cli.operator.output import as_json, moment, plain, plain_lines, print_note, print_rows, print_values, short
from dpp_cli.operator.rows import RowSettings, connected_rows
from dpp_cli.operator.tenants import console

events_app = typer.Typer(no_args_is_help=True, help="Show events from GitHub and Jira and what happened to them.")


@events_app.command("list")
def show_events(
    status: Annotated[EventStatus | None, typer.Option(help="Only events with this status.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Show at most this many, newest first.")] = 50,
    as_array: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """List events with their tasks, newest first."""
    with connected_rows(RowSettings) as (connection, settings):
        page = read.events(connection, below=None, limit=limit, status=status)
        task_ids = read.task_ids(connection, page.events)
    if as_array:
        typer.echo(as_json([to_jsonable_python(one) | {"task_id": task_ids.get(one.event_id)} for one in page.events]))
    elif page.events:
        _print_events(page.events, task_ids, settings.zone)
    else:
        console.print("no events found")
    if page.below is not None:
        print_note("there are more; raise --limit")


@events_app.command("show")
def show_event(
    event_id: Annotated[str, typer.Argument(metavar="EVENT_ID", help="The id from `list`.")],
    as_object: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show an event with its content and its task."""
    with connected_rows(RowSettings) as (connection, settings):
        try:
            found = read.event(connection, event_id)
        except EventNotFound as error:
            raise StackError(_missing(event_id, error, settings.zone)) from None
    if as_object:
        typer.echo(as_json(to_jsonable_python(found.event) | {"task": found.task}))
    else:
        _print_event(found, settings.zone)


def about(subject: Subject) -> str:
    """Format the subject of an event or task in one line."""
    return f"{subject.place}: {subject.title}"


def status_of(task: Task) -> str:
    """Format a task's status and outcome."""
    return ", ".join(filter(None, (task.status, task.outcome)))


def _missing(event_id: str, error: EventNotFound, zone: ZoneInfo) -> str:
    named = plain(event_id).plain
    if error.seen_at is None:
        return f"event {named} does not exist; `dpp lifecycle events list` shows all"
    return (
        f"event {named} arrived {moment(error.seen_at, zone)} and was deleted after its retention period;"
        " its id is still remembered so that it is not accepted again"
    )


def _print_events(events: Sequence[Event], task_ids: Mapping[str, str], zone: ZoneInfo) -> None:
    names = ("arrived", "by", "status", "kind", "task", "event", "about")
    rows = (
        (
            *(short(one.created_at, zone), one.arrived_by, one.status, one.kind, task_ids.get(one.event_id, "")),
            *(one.event_id, about(one.subject)),
        )
        for one in events
    )
    print_rows(names, rows, whole=names[:5], folded=("event",))


def _print_event(found: EventRecord, zone: ZoneInfo) -> None:
    event, subject, task = found.event, found.event.subject, found.task
    console.print(plain(f"event {event.event_id}"), soft_wrap=True)
    values = {
        "about": about(subject),
        "kind": f"{event.kind}, arrived by {event.arrived_by}",
        "by": subject.actor or None,
        "link": subject.url or None,
        "status": ": ".join(filter(None, (event.status, event.reason))),
        "task": None if task is None else f"{task.task_id}, {status_of(task)}",
        "happened": moment(event.happened_at, zone),
        "arrived": moment(event.created_at, zone),
        "dispatched": moment(event.dispatched_at, zone) or None,
        "ended": moment(event.ended_at, zone) or None,
    }
    print_values(values, indent="  ")
    if subject.body:
        print_words("text", subject.body)


def print_words(name: str, text: str) -> None:
    """Print text written by a person, possibly multi-line, below its name."""
    console.print(f"  {name}", highlight=False)
    for line in plain_lines(text).split(allow_blank=True):
        console.print(Text("    ") + line, soft_wrap=True)
