"""Operator commands: tasks, what each waits for, and answers to their questions (LIFE-2, LIFE-10)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer
from pydantic_core import to_jsonable_python

from dpp.lifecycle.config import WakesGeneral
from dpp.lifecycle.flow import heartbeat, store
from dpp.lifecycle.flow.answer import MAX_ANSWER, answer
from dpp.lifecycle.flow.errors import NothingAwaited, TaskNotFound
from dpp.lifecycle.flow.machine import TaskStatus
from dpp.lifecycle.flow.model import Task
from dpp.lifecycle.flow.ports import Role
from dpp.lifecycle.flow.reading import read
from dpp.lifecycle.flow.reading.read import TaskRecord
from dpp.lifecycle.flow.reading.read_rows import ObjectRow, Question
from dpp.lifecycle.flow.wake import WakeByInvocation
from dpp.platform.db.postgres import Connection
from dpp.runs import store as runs_store
from dpp.runs.model import Run
from dpp_cli.errors import StackError
from dpp_cli.lifecycle.events import about, print_words, status_of
from dpp_cli.lifecycle.status import message_fields, print_messages
from dpp_cli.operator import output
from dpp_cli.operator.rows import RowSettings, connected_rows
from dpp_cli.operator.tenants import console

tasks_app = typer.Typer(no_args_is_help=True, help="Show tasks and what they wait for.")

TaskId = Annotated[str, typer.Argument(metavar="TASK_ID", help="The id from `tasks list`.")]
AsObject = Annotated[bool, typer.Option("--json", help="One JSON object.")]
_OF_RUN = ("run_id", "tenant_id", "status", "money_state", "last_error_reason_code", "last_error_detail")


class _AnswerSettings(RowSettings, WakesGeneral):
    """Settings of the database and, if known, of the general (runner) function."""


@tasks_app.command("list")
def show_tasks(
    status: Annotated[TaskStatus | None, typer.Option(help="Only tasks with this status.")] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only tasks waiting for a person, longest first.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Show at most this many.")] = 50,
    as_array: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """List tasks, newest first, with what each waits for."""
    if waiting and status not in (None, TaskStatus.IN_PROGRESS):
        raise StackError(
            f"tasks that wait for a person are IN_PROGRESS; give only one of --waiting and --status {status}"
        )
    with connected_rows(RowSettings) as (connection, settings):
        if waiting:
            found = read.waiting(connection, limit + 1)
            shown, more = [task for task, _ in found[:limit]], len(found) > limit
            asked: Mapping[str, Question] = {task.task_id: question for task, question in found}
        else:
            page = read.tasks(connection, below=None, limit=limit, status=status)
            shown, asked, more = page.tasks, read.questions(connection, page.tasks), page.below is not None
        now = store.clock(connection)
    if as_array:
        typer.echo(output.as_json([to_jsonable_python(one) | {"question": asked.get(one.task_id)} for one in shown]))
    elif shown:
        _print_tasks(shown, asked, now, settings.zone)
    else:
        console.print("no tasks found")
    if more:
        output.print_note("there are more; raise --limit")


@tasks_app.command("show")
def show_task(task_id: TaskId, as_object: AsObject = False) -> None:
    """Show a task with its event, run, question, messages and object keys."""
    with connected_rows(RowSettings) as (connection, settings):
        try:
            found = read.task(connection, task_id)
        except TaskNotFound:
            raise StackError(_no_task(task_id)) from None
        run_id = found.task.run_id
        run = None if run_id is None else runs_store.find_by_id(connection, run_id)
        now = store.clock(connection)
    if as_object:
        typer.echo(output.as_json(_document(found, run)))
        return
    _print_task(found, run, now, settings.zone)
    if found.question is not None:
        output.print_note(f"to answer it: `dpp lifecycle answer {found.task.task_id} TEXT`")


def answer_one(
    task_id: TaskId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer; the task's next attempt gets it.")],
    as_object: AsObject = False,
) -> None:
    """Answer a task's question; its next attempt gets the answer."""
    if len(text.strip()) > MAX_ANSWER:
        raise StackError(f"the answer has {len(text.strip()):,} characters; at most {MAX_ANSWER:,} are allowed")
    with connected_rows(_AnswerSettings) as (connection, settings):
        try:
            answer(connection, task_id, text)
        except TaskNotFound:
            raise StackError(_no_task(task_id)) from None
        except NothingAwaited:
            raise StackError(_not_asked(connection, task_id)) from None
        found = read.task(connection, task_id)
        silent = heartbeat.ages(connection).get(Role.GENERAL)
    WakeByInvocation(settings.functions)(Role.GENERAL)
    if as_object:
        typer.echo(output.as_json(_document(found, None)))
    else:
        typer.echo(f"task {task_id} is answered; attempt {found.task.attempt} gets the answer")
    output.print_note(_next_step(silent))


def _no_task(task_id: str) -> str:
    return f"task {output.plain(task_id).plain} does not exist; `dpp lifecycle tasks list` shows all"


def _not_asked(connection: Connection, task_id: str) -> str:
    """Explain why there is nothing to answer; somebody else may have answered a moment ago."""
    task = read.task(connection, task_id).task
    if task.status is TaskStatus.IN_PROGRESS and task.answer is not None:
        return f"task {task_id} is already answered and continues"
    return f"task {task_id} has no open question; its status is {status_of(task)}"


def _next_step(silent_seconds: float | None) -> str:
    if silent_seconds is None:
        return (
            "the answer is stored, but this deployment has no general (runner) that would continue the task"
            " (docs/lifecycle.md explains how to enable it)"
        )
    if silent_seconds > heartbeat.DEAD_AFTER_SECONDS:
        heard = output.span(silent_seconds)
        return f"the answer is stored, but the general (runner) has sent no heartbeat for {heard}"
    return "the general (runner) continues the task within a minute"


def _document(found: TaskRecord, run: Run | None) -> dict[str, Any]:
    """Return the task as JSON with everything that belongs to it."""
    row = found.row
    thread = None if row.thread is None else to_jsonable_python(row.thread)
    document: dict[str, Any] = to_jsonable_python(found.task)
    return document | {
        "next_look_at": row.next_look_at if found.task.status is not TaskStatus.COMPLETED else None,
        "event": found.event,
        "run": None if run is None else {name: getattr(run, name) for name in _OF_RUN},
        "thread": None if thread is None else thread | {"since": row.thread_since},
        "question": found.question,
        "messages": [message_fields(one) for one in found.messages],
        "objects": found.objects,
    }


def _waits_for(task: Task, question: Question | None, now: datetime) -> str:
    match task.status:
        case TaskStatus.PENDING:
            return f"the general, {output.ago(task.created_at, now)}"
        case TaskStatus.IN_PROGRESS if question is not None:
            sent = "" if question.told_at else ", question not sent yet"
            return f"a person, {output.ago(question.asked_at, now)}{sent}"
        case TaskStatus.IN_PROGRESS:
            return "a run to start" if task.run_id is None else "its run"
        case TaskStatus.COMPLETED:
            return ""


def _print_tasks(tasks: Sequence[Task], asked: Mapping[str, Question], now: datetime, zone: ZoneInfo) -> None:
    names = ("task", "created", "status", "attempt", "waits for", "about", "last failure")
    rows = (
        (
            *(one.task_id, output.short(one.created_at, zone), status_of(one), str(one.attempt)),
            *(_waits_for(one, asked.get(one.task_id), now), about(one.subject), one.last_failure or ""),
        )
        for one in tasks
    )
    output.print_rows(names, rows, whole=names[:5], right=("attempt",), folded=("last failure",))


def _print_task(found: TaskRecord, run: Run | None, now: datetime, zone: ZoneInfo) -> None:
    console.print(f"task {found.task.task_id}", highlight=False)
    output.print_values(_values(found, run, now, zone), indent="  ")
    if found.question is not None and found.question.body is not None:
        print_words("question", found.question.body)
    if found.task.answer is not None:
        print_words("answer", found.task.answer)
    if found.messages:
        print_messages(found.messages, now, zone, of_one_task=True)
    _print_objects(found.objects, zone)


def _values(found: TaskRecord, run: Run | None, now: datetime, zone: ZoneInfo) -> dict[str, str | None]:
    task, event, row = found.task, found.event, found.row
    is_gone = f"{task.event_id} (deleted)"
    thread = row.thread
    in_progress = task.status is TaskStatus.IN_PROGRESS and not task.waits_for_person
    return {
        "about": about(task.subject),
        "link": task.subject.url or None,
        "event": is_gone if event is None else f"{event.event_id}, {event.status}",
        "status": status_of(task),
        "attempt": str(task.attempt),
        "run": _run(task, run),
        "waits for": _waits_for(task, found.question, now) or None,
        "asked": None if found.question is None else _asked(found.question, zone),
        "last failure": task.last_failure,
        "thread": None if thread is None else f"{thread.channel} {thread.thread_ts}",
        "created": output.moment(task.created_at, zone),
        "started": output.moment(task.started_at, zone) or None,
        "next check": output.until(row.next_look_at, now) if in_progress else None,
        "ended": output.moment(task.ended_at, zone) or None,
    }


def _run(task: Task, run: Run | None) -> str | None:
    if task.run_id is None:
        return None
    if run is None:
        return f"{task.run_id} (deleted)"
    failed = f": {run.last_error_reason_code}" if run.last_error_reason_code else ""
    return f"{run.run_id}, {run.status}, {run.money_state}{failed}, paid by {run.tenant_id}"


def _asked(question: Question, zone: ZoneInfo) -> str:
    sent = f"sent {output.moment(question.told_at, zone)}" if question.told_at else "not sent yet"
    return f"{output.moment(question.asked_at, zone)}, {sent}"


def _print_objects(objects: Sequence[ObjectRow], zone: ZoneInfo) -> None:
    if not objects:
        return
    rows = ((one.object_key, one.kind, f"{one.bytes:,}", output.moment(one.created_at, zone)) for one in objects)
    output.print_rows(
        ("object", "kind", "bytes", "written"), rows, whole=("object", "kind", "bytes", "written"), right=("bytes",)
    )
