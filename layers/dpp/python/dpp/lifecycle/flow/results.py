"""What a task leaves in the bucket (LIFE-3, LIFE-4), and how it gets there.

Every object has its row before it is written: the rows are committed first, so that no object is ever without one, and
an attempt that has moved on writes no more. What is written is made of the task and the soldier's report alone, so that
it is the same however often a crash has it written.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from dpp.lifecycle.flow import store
from dpp.lifecycle.flow.machine import TaskOutcome
from dpp.lifecycle.flow.model import (
    ObjectKind,
    Task,
    bounded,
    prompt_key,
    raw_key,
    result_key,
    session_error_key,
    session_id_key,
    session_log_key,
    soldier_id_key,
)
from dpp.lifecycle.flow.ports import Objects, SoldierReport
from dpp.lifecycle.flow.prompts import prompt_of
from dpp.lifecycle.flow.store import NewObject
from dpp.platform.db.postgres import Database

_JSON = "application/json; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_MARKDOWN = "text/markdown; charset=utf-8"
_NO_SUMMARY = "The answer has no text."
_NOTHING_CHARGED = "0.0000"
MAX_SUMMARY = 20_000
MAX_FAILURE = 500


@dataclass(frozen=True, slots=True)
class Item:
    """An object to write."""

    key: str
    kind: ObjectKind
    body: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class End:
    """How a task ended. `report` None: no soldier was had, or nothing is known of it any more."""

    outcome: TaskOutcome
    summary: str
    finished_at: datetime
    report: SoldierReport | None

    @property
    def charged_usd(self) -> str:
        """What the last attempt cost."""
        return _NOTHING_CHARGED if self.report is None else self.report.charged_usd


def keep(
    database: Database, objects: Objects, task: Task, items: Sequence[Item], now: datetime | None = None
) -> bool:
    """Enter the objects, then write them; False where the attempt has moved on, or a key is still being deleted.

    Raises PostgresUnavailable, StorageUnavailable: then what was entered is written when the task is looked at again.
    """
    new = [NewObject(item.key, item.kind, len(item.body)) for item in items]
    with database.connection() as connection, connection.transaction():
        entered = store.register(connection, task, new, now)
    if not entered:
        return False
    for item in items:
        objects.put(item.key, item.body, item.content_type)
    return True


def prompt(task: Task) -> Item:
    """What the soldier is told."""
    return Item(prompt_key(task.task_id), ObjectKind.PROMPT, prompt_of(task).encode(), _MARKDOWN)


def who(task: Task, soldier_id: UUID) -> tuple[Item, Item]:
    """Which soldier, and which session."""
    return (
        _result_text(soldier_id_key(task.task_id), str(soldier_id)),
        _result_text(session_id_key(task.task_id), task.session_id),
    )


def session(task: Task, report: SoldierReport) -> tuple[Item, Item]:
    """A soldier's session as it ended, and what went wrong in it."""
    told = {
        "soldier_id": str(report.soldier_id),
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
    wrong = f"{failure_of(report)}\n".encode() if report.reason_code or report.detail else b""
    log, errors = session_log_key(str(report.soldier_id)), session_error_key(str(report.soldier_id))
    return (
        Item(log, ObjectKind.SESSION_LOG, _json(told), _JSON),
        Item(errors, ObjectKind.SESSION_LOG, wrong, _TEXT),
    )


def end(task: Task, ended: End) -> list[Item]:
    """All that stands when the task has ended. Soldier and session are written once more, so that all of it is kept
    for as long."""
    soldier_id = task.run_id if ended.report is None else ended.report.soldier_id
    told = {
        "task_id": task.task_id,
        "status": ended.outcome,
        "summary": ended.summary,
        "charged_usd": ended.charged_usd,
        "soldier_id": None if soldier_id is None else str(soldier_id),
        "session_id": task.session_id,
        "attempt": task.attempt,
        "finished_at": ended.finished_at.isoformat(),
    }
    items = [Item(result_key(task.task_id), ObjectKind.RESULT, _json(told), _JSON)]
    if soldier_id is not None:
        items += who(task, soldier_id)
    if ended.report is not None:
        items += session(task, ended.report)
        if ended.report.raw is not None:
            body = _json(ended.report.raw)
            items.append(Item(raw_key(task.task_id), ObjectKind.RESULT, body, _JSON))
    return items


def summary_of(raw: Mapping[str, Any] | None) -> str:
    """The decision pack's answer, out of its envelope."""
    data = (raw or {}).get("data")
    text = data.get("answer_text") if isinstance(data, Mapping) else None
    return (bounded(text, MAX_SUMMARY) if isinstance(text, str) else "") or _NO_SUMMARY


def failure_of(report: SoldierReport) -> str:
    """Why a soldier failed, in a line."""
    told = ": ".join(part for part in (report.reason_code, report.detail) if part)
    return bounded(told, MAX_FAILURE) or "the run failed"


def _result_text(key: str, text: str) -> Item:
    return Item(key, ObjectKind.RESULT, text.encode(), _TEXT)


def _json(told: Mapping[str, Any]) -> bytes:
    return json.dumps(told, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
