"""The general (runner): has tasks executed by runs (the soldiers of 002), one run at a time per task, and stores the
results (LIFE-2 … LIFE-4).

A task is claimed for two minutes, longer than a tick can take, so that concurrent runners work on different tasks. Each
update names the attempt and the run that it read, so that only one of two runners with the same task changes it. The
next check repeats what a crash interrupted: the run is submitted with the attempt's idempotency key, objects are
registered before they are written, and a task and its message change in one transaction.
"""

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from pydantic import ValidationError

from dpp.lifecycle.flow import heartbeat, prompts, results, store
from dpp.lifecycle.flow.errors import TaskRunRefused, TaskRunsUnavailable
from dpp.lifecycle.flow.machine import TaskOutcome
from dpp.lifecycle.flow.model import MessageKind, Task, bounded
from dpp.lifecycle.flow.ports import Objects, Role, TaskRunReport, TaskRuns, TaskRunState, Wake
from dpp.lifecycle.flow.results import TaskEnd
from dpp.lifecycle.flow.store import NewMessage
from dpp.lifecycle.flow.tick import LIMIT, rounds
from dpp.platform.db.postgres import Connection, Database
from dpp.platform.errors import DependencyUnavailable, PostgresNotReached

_LOG = logging.getLogger("dpp.lifecycle.flow.runner")
LEASE_SECONDS = 120
FIRST_CHECK_SECONDS = 3.0
LAST_CHECK_SECONDS = 60.0
WAIT_SECONDS = 60.0
_GONE = "the run no longer exists"


@dataclass(frozen=True, slots=True)
class RunnerEffects:
    """Connections and clients that the runner uses, and the number of attempts at a task."""

    database: Database
    task_runs: TaskRuns
    objects: Objects
    wake: Wake
    max_attempts: int


class Step(StrEnum):
    """The result of one check of a task."""

    SENT = "SENT"
    """A run was submitted."""
    AT_WORK = "AT_WORK"
    """The run has not finished."""
    WAITS = "WAITS"
    """No run can be submitted now."""
    RETRIED = "RETRIED"
    """The run failed, and another attempt follows."""
    ASKED = "ASKED"
    """A person was asked."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    LOST = "LOST"
    """The task has changed meanwhile, or a key of its objects is still being deleted; the next check continues."""


@dataclass(slots=True)
class RunnerReport:
    """The result of one tick in tasks by step. `left`: a dependency failed, and the next check tries again."""

    taken_on: int = 0
    sent: int = 0
    at_work: int = 0
    waits: int = 0
    retried: int = 0
    asked: int = 0
    succeeded: int = 0
    failed: int = 0
    lost: int = 0
    left: int = 0

    def count(self, step: Step) -> None:
        """Count a step."""
        name = step.lower()
        setattr(self, name, getattr(self, name) + 1)

    def as_dict(self) -> dict[str, int]:
        """The counts for the log."""
        return asdict(self)


def run_tasks(effects: RunnerEffects, now: datetime | None = None) -> RunnerReport:
    """One tick: at most 100 tasks in 20 s. Raises PostgresUnavailable if no task can be claimed."""
    report = RunnerReport()
    with effects.database.connection() as connection:
        heartbeat.record(connection, Role.GENERAL, now)
        report.taken_on = store.start_tasks(connection, LIMIT, now)
        due = store.clock(connection, now)
    for _ in rounds():
        try:
            task = effects.database.using(store.claim_task, due, LEASE_SECONDS, now)
        except ValidationError:  # its claim is committed, so that it comes last in the next ticks
            report.left += 1
            _LOG.error("a task can't be read")
            continue
        if task is None:
            break
        _check(effects, task, report, now)
    if report.succeeded or report.failed:
        effects.wake(Role.KING)
    if report.succeeded or report.failed or report.asked:
        effects.wake(Role.ENVOY)
    return report


def _check(effects: RunnerEffects, task: Task, report: RunnerReport, now: datetime | None) -> None:
    """Check one task; its failure does not affect other tasks."""
    try:
        report.count(_step(effects, task, now))
    except PostgresNotReached:
        raise
    except DependencyUnavailable as error:
        report.left += 1
        extra = {"task_id": task.task_id, "error": {"dependency": error.dependency}}
        _LOG.error("a task is left for the next check", extra=extra)


def _step(effects: RunnerEffects, task: Task, now: datetime | None) -> Step:
    if task.run_id is None:
        return _send(effects, task, now)
    report = effects.task_runs.report(task.run_id)
    if report is None:
        return _continue(effects, task, None, now)
    match report.state:
        case TaskRunState.AT_WORK:
            return _check_later(effects, task, report, now)
        case TaskRunState.SUCCEEDED:
            return _succeed(effects, task, report, now)
        case TaskRunState.FAILED:
            return _continue(effects, task, report, now)
        case _:
            assert_never(report.state)


def _send(effects: RunnerEffects, task: Task, now: datetime | None) -> Step:
    """Submit the run of the attempt. The objects with its id are written before the task's row names it."""
    if not results.write(effects.database, effects.objects, task, [results.prompt_object(task)], now):
        return Step.LOST
    try:
        run_id = effects.task_runs.send(prompts.run_request_of(task))
    except TaskRunRefused as refused:
        return _fail(effects, task, None, bounded(str(refused), results.MAX_FAILURE), now)
    except TaskRunsUnavailable as error:
        why = bounded(str(error), results.MAX_FAILURE)
        return _update(effects, lambda on: store.check_later(on, task, WAIT_SECONDS, why, now=now), Step.WAITS)
    if not results.write(effects.database, effects.objects, task, results.identity_objects(task, run_id), now):
        return Step.LOST
    return _update(effects, lambda on: store.record_run(on, task, run_id, FIRST_CHECK_SECONDS, now), Step.SENT)


def _check_later(effects: RunnerEffects, task: Task, report: TaskRunReport, now: datetime | None) -> Step:
    """Check again after half of the run's age: after 3 seconds at least, and 60 at most."""

    def leave(connection: Connection) -> Task | None:
        age_seconds = (store.clock(connection, now) - report.created_at).total_seconds()
        pause_seconds = min(max(age_seconds / 2, FIRST_CHECK_SECONDS), LAST_CHECK_SECONDS)
        return store.check_later(connection, task, pause_seconds, now=now)

    return _update(effects, leave, Step.AT_WORK)


def _succeed(effects: RunnerEffects, task: Task, report: TaskRunReport, now: datetime | None) -> Step:
    summary = results.summary_of(report.raw)
    ended = TaskEnd(TaskOutcome.SUCCEEDED, summary, report.updated_at, report)
    body = prompts.success(summary, report.charged_usd)
    return _end(effects, task, ended, body, now)


def _continue(effects: RunnerEffects, task: Task, report: TaskRunReport | None, now: datetime | None) -> Step:
    """Continue after a run that failed or no longer exists: ask a person, start another attempt, or end the task.

    A person is asked only if an attempt is left that can use the answer.
    """
    why = _GONE if report is None else results.failure_of(report)
    if task.attempt >= effects.max_attempts:
        return _fail(effects, task, report, why, now)
    if report is not None and not results.write(
        effects.database, effects.objects, task, results.session_objects(task, report), now
    ):
        return Step.LOST
    if report is None or not report.needs_person:
        return _update(effects, lambda on: store.next_attempt(on, task, why, FIRST_CHECK_SECONDS, now), Step.RETRIED)

    def ask(connection: Connection) -> Task | None:
        with connection.transaction():
            asked = store.ask_person(connection, task, why, now)
            if asked is not None:
                body = prompts.question_to_person(task, why)
                key = store.ask_key(task)
                store.add_message(connection, NewMessage(MessageKind.HUMAN_INPUT_REQUEST, task.task_id, key, body), now)
            return asked

    return _update(effects, ask, Step.ASKED)


def _fail(effects: RunnerEffects, task: Task, report: TaskRunReport | None, why: str, now: datetime | None) -> Step:
    finished_at = effects.database.using(store.clock, now) if report is None else report.updated_at
    ended = TaskEnd(TaskOutcome.FAILED, why, finished_at, report)
    return _end(effects, task, ended, prompts.failure(task, why), now)


def _end(effects: RunnerEffects, task: Task, ended: TaskEnd, body: str, now: datetime | None) -> Step:
    """Write all objects, then end the task together with its message."""
    if not results.write(effects.database, effects.objects, task, results.end_objects(task, ended), now):
        return Step.LOST
    failed = ended.outcome is TaskOutcome.FAILED

    def complete(connection: Connection) -> Task | None:
        with connection.transaction():
            done = store.complete(connection, task, ended.outcome, ended.summary if failed else None, now)
            if done is not None:
                key = f"{task.task_id}/result"
                store.add_message(connection, NewMessage(MessageKind.TASK_RESULT, task.task_id, key, body), now)
            return done

    return _update(effects, complete, Step.FAILED if failed else Step.SUCCEEDED)


def _update(effects: RunnerEffects, move: Callable[[Connection], Task | None], step: Step) -> Step:
    with effects.database.connection() as connection:
        return Step.LOST if move(connection) is None else step
