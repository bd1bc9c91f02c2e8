"""The objects of a task in the state bucket (LIFE-3, LIFE-4): builds them and writes them.

The row of every object is committed before the object is written. So no object is ever without a row, and an attempt
that has been superseded writes nothing. The content depends on the task and the run's report only, so that a retry
after a crash writes the same bytes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from dpp.lifecycle.flow import model, store
from dpp.lifecycle.flow.machine import TaskOutcome
from dpp.lifecycle.flow.model import ObjectKind, StateObject, Task, bounded
from dpp.lifecycle.flow.ports import Objects, TaskRunReport
from dpp.lifecycle.flow.prompts import prompt_of
from dpp.platform.db.postgres import Database

_JSON = "application/json; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_MARKDOWN = "text/markdown; charset=utf-8"
_NO_SUMMARY = "The answer has no text."
_NOTHING_CHARGED = "0.0000"
MAX_SUMMARY = 20_000
MAX_FAILURE = 500


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """The end of a task. `report` is None if no run could be submitted, or if the run no longer exists."""

    outcome: TaskOutcome
    summary: str
    finished_at: datetime
    report: TaskRunReport | None


def write(
    database: Database, objects: Objects, task: Task, new: Sequence[StateObject], now: datetime | None = None
) -> bool:
    """Register the objects, then write them. Returns False if the attempt is superseded or a key is being deleted.

    Raises PostgresUnavailable, StorageUnavailable; the next check of the task then writes what was registered.
    """
    with database.connection() as connection, connection.transaction():
        registered = store.register(connection, task, new, now)
    if registered:
        for one in new:
            objects.put(one.key, one.body, one.content_type)
    return registered


def prompt_object(task: Task) -> StateObject:
    """The prompt of the current attempt."""
    return StateObject(model.prompt_key(task.task_id), ObjectKind.PROMPT, prompt_of(task).encode(), _MARKDOWN)


def identity_objects(task: Task, run_id: UUID) -> list[StateObject]:
    """The ids of the run and of the session."""
    ids = ((model.run_id_key(task.task_id), str(run_id)), (model.session_id_key(task.task_id), task.session_id))
    return [StateObject(key, ObjectKind.RESULT, text.encode(), _TEXT) for key, text in ids]


def session_objects(task: Task, report: TaskRunReport) -> list[StateObject]:
    """The log of an attempt that ended, and its error text (empty if it succeeded)."""
    log = {
        "soldier_id": str(report.run_id),
        "session_id": task.session_id,
        "task_id": task.task_id,
        "attempt": task.attempt,
        "state": report.state,
        "reason_code": report.reason_code,
        "charged_usd": report.charged_usd,
        "tokens_consumed": report.tokens_consumed,
        "created_at": report.created_at.isoformat(),
        "updated_at": report.updated_at.isoformat(),
    }
    failure = f"{failure_of(report)}\n".encode() if report.reason_code or report.detail else b""
    run_id, kind = str(report.run_id), ObjectKind.SESSION_LOG
    return [
        StateObject(model.session_log_key(run_id), kind, _json(log), _JSON),
        StateObject(model.session_error_key(run_id), kind, failure, _TEXT),
    ]


def end_objects(task: Task, ended: TaskEnd) -> list[StateObject]:
    """All objects of a task that ended. The ids are written again so that all results have the same creation time."""
    report = ended.report
    run_id = task.run_id if report is None else report.run_id
    result = {
        "task_id": task.task_id,
        "status": ended.outcome,
        "summary": ended.summary,
        "charged_usd": _NOTHING_CHARGED if report is None else report.charged_usd,
        "soldier_id": None if run_id is None else str(run_id),
        "session_id": task.session_id,
        "attempt": task.attempt,
        "finished_at": ended.finished_at.isoformat(),
    }
    objects = [StateObject(model.result_key(task.task_id), ObjectKind.RESULT, _json(result), _JSON)]
    if run_id is not None:
        objects += identity_objects(task, run_id)
    if report is not None:
        objects += session_objects(task, report)
        if report.raw is not None:
            raw = _json(report.raw)
            objects.append(StateObject(model.raw_key(task.task_id), ObjectKind.RESULT, raw, _JSON))
    return objects


def summary_of(raw: Mapping[str, Any] | None) -> str:
    """The answer of the decision pack, from the run's envelope."""
    data = (raw or {}).get("data")
    text = data.get("answer_text") if isinstance(data, Mapping) else None
    return (bounded(text, MAX_SUMMARY) if isinstance(text, str) else "") or _NO_SUMMARY


def failure_of(report: TaskRunReport) -> str:
    """Return the reason of a run's failure in one line."""
    text = ": ".join(part for part in (report.reason_code, report.detail) if part)
    return bounded(text, MAX_FAILURE) or "the run failed"


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
