"""The general (LIFE-2 … LIFE-4): has tasks carried out by task_runs, one at a time, and writes what came of it.

A look is claimed for two minutes, which a firing never lasts, so that two generals have different tasks in hand; and
every step names the attempt and the soldier that it saw, so that of two who look at one task all the same one moves it.
What a crash leaves is done again by the next look: a soldier is sent under the attempt's key, which makes it one run;
objects are entered, then written, then counted as written; a task and the message that tells of it move together.
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
FIRST_LOOK_SECONDS = 3.0
LAST_LOOK_SECONDS = 60.0
WAIT_SECONDS = 60.0
_GONE = "the run is gone"


@dataclass(frozen=True, slots=True)
class RunnerEffects:
    """What the general touches, and how many attempts a task has."""

    database: Database
    task_runs: TaskRuns
    objects: Objects
    wake: Wake
    max_attempts: int


class Step(StrEnum):
    """What a look at a task did."""

    SENT = "SENT"
    """A soldier was sent."""
    AT_WORK = "AT_WORK"
    """Its soldier is at work."""
    WAITS = "WAITS"
    """No soldier can be had for now."""
    RETRIED = "RETRIED"
    """Its soldier failed, and another is sent."""
    ASKED = "ASKED"
    """A person is asked."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    LOST = "LOST"
    """It has moved on meanwhile, or a key of its objects is still being deleted: the next look sees."""


@dataclass(slots=True)
class RunnerReport:
    """What one firing did, by tasks; `left`: a dependency failed, and the next look tries again."""

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
        """One more."""
        name = step.lower()
        setattr(self, name, getattr(self, name) + 1)

    def as_dict(self) -> dict[str, int]:
        """The figures, for the log."""
        return asdict(self)


def run_tasks(effects: RunnerEffects, now: datetime | None = None) -> RunnerReport:
    """One firing, of at most 100 tasks, for 20 s. Raises PostgresUnavailable where no task can be had."""
    report = RunnerReport()
    with effects.database.connection() as connection:
        heartbeat.record(connection, Role.GENERAL, now)
        report.taken_on = store.start_tasks(connection, LIMIT, now)
        due = store.clock(connection, now)
    for _ in rounds():
        try:
            with effects.database.connection() as connection:
                task = store.claim_task(connection, due, LEASE_SECONDS, now)
        except ValidationError:  # it was claimed all the same, and comes last from now on
            report.left += 1
            _LOG.error("a task can't be read")
            continue
        if task is None:
            break
        _look(effects, task, report, now)
    if report.succeeded or report.failed:
        effects.wake(Role.KING)
    if report.succeeded or report.failed or report.asked:
        effects.wake(Role.ENVOY)
    return report


def _look(effects: RunnerEffects, task: Task, report: RunnerReport, now: datetime | None) -> None:
    """One task, whose trouble is its own."""
    try:
        report.count(_step(effects, task, now))
    except PostgresNotReached:
        raise
    except DependencyUnavailable as error:
        report.left += 1
        told = {"task_id": task.task_id, "error": {"dependency": error.dependency}}
        _LOG.error("left for the next look", extra=told)


def _step(effects: RunnerEffects, task: Task, now: datetime | None) -> Step:
    if task.run_id is None:
        return _send(effects, task, now)
    report = effects.task_runs.report(task.run_id)
    if report is None:
        return _go_on(effects, task, None, now)
    match report.state:
        case TaskRunState.AT_WORK:
            return _look_later(effects, task, report, now)
        case TaskRunState.SUCCEEDED:
            return _succeed(effects, task, report, now)
        case TaskRunState.FAILED:
            return _go_on(effects, task, report, now)
        case _:
            assert_never(report.state)


def _send(effects: RunnerEffects, task: Task, now: datetime | None) -> Step:
    """Send the attempt's soldier. It is noted with the task once the objects that name it stand."""
    if not results.write(effects.database, effects.objects, task, [results.prompt_object(task)], now):
        return Step.LOST
    try:
        run_id = effects.task_runs.send(prompts.run_request_of(task))
    except TaskRunRefused as refused:
        return _fail(effects, task, None, bounded(str(refused), results.MAX_FAILURE), now)
    except TaskRunsUnavailable as error:
        why = bounded(str(error), results.MAX_FAILURE)
        return _one(effects, lambda on: store.check_later(on, task, WAIT_SECONDS, why, now=now), Step.WAITS)
    if not results.write(
        effects.database, effects.objects, task, results.identity_objects(task, run_id), now
    ):
        return Step.LOST
    return _one(effects, lambda on: store.record_run(on, task, run_id, FIRST_LOOK_SECONDS, now), Step.SENT)


def _look_later(effects: RunnerEffects, task: Task, report: TaskRunReport, now: datetime | None) -> Step:
    """After half the time again that the soldier has been at work: from a few seconds to a minute."""

    def leave(connection: Connection) -> Task | None:
        age_seconds = (store.clock(connection, now) - report.created_at).total_seconds()
        pause_seconds = min(max(age_seconds / 2, FIRST_LOOK_SECONDS), LAST_LOOK_SECONDS)
        return store.check_later(connection, task, pause_seconds, now=now)

    return _one(effects, leave, Step.AT_WORK)


def _succeed(effects: RunnerEffects, task: Task, report: TaskRunReport, now: datetime | None) -> Step:
    summary = results.summary_of(report.raw)
    ended = TaskEnd(TaskOutcome.SUCCEEDED, summary, report.updated_at, report)
    body = prompts.success(summary, report.charged_usd)
    return _end(effects, task, ended, body, now)


def _go_on(effects: RunnerEffects, task: Task, report: TaskRunReport | None, now: datetime | None) -> Step:
    """After a soldier that failed, or of whom nothing is known: a person, another soldier, or the end.

    A person is asked only where an attempt is left that their answer can go to.
    """
    why = _GONE if report is None else results.failure_of(report)
    if task.attempt >= effects.max_attempts:
        return _fail(effects, task, report, why, now)
    if report is not None and not results.write(
        effects.database, effects.objects, task, results.session_objects(task, report), now
    ):
        return Step.LOST
    if report is None or not report.needs_person:
        return _one(
            effects, lambda on: store.next_attempt(on, task, why, FIRST_LOOK_SECONDS, now), Step.RETRIED
        )

    def ask(connection: Connection) -> Task | None:
        with connection.transaction():
            asked = store.ask_person(connection, task, why, now)
            if asked is not None:
                body = prompts.question_to_person(task, why)
                key = store.ask_key(task)
                store.add_message(
                    connection, NewMessage(MessageKind.HUMAN_INPUT_REQUEST, task.task_id, key, body), now
                )
            return asked

    return _one(effects, ask, Step.ASKED)


def _fail(
    effects: RunnerEffects, task: Task, report: TaskRunReport | None, why: str, now: datetime | None
) -> Step:
    if report is None:
        with effects.database.connection() as connection:
            finished_at = store.clock(connection, now)
    else:
        finished_at = report.updated_at
    ended = TaskEnd(TaskOutcome.FAILED, why, finished_at, report)
    return _end(effects, task, ended, prompts.failure(task, why), now)


def _end(effects: RunnerEffects, task: Task, ended: TaskEnd, body: str, now: datetime | None) -> Step:
    """Write all that stays; then the task has ended, and a message says so."""
    if not results.write(effects.database, effects.objects, task, results.end_objects(task, ended), now):
        return Step.LOST
    failed = ended.outcome is TaskOutcome.FAILED

    def complete(connection: Connection) -> Task | None:
        with connection.transaction():
            done = store.complete(connection, task, ended.outcome, ended.summary if failed else None, now)
            if done is not None:
                key = f"{task.task_id}/result"
                store.add_message(
                    connection, NewMessage(MessageKind.TASK_RESULT, task.task_id, key, body), now
                )
            return done

    return _one(effects, complete, Step.FAILED if failed else Step.SUCCEEDED)


def _one(effects: RunnerEffects, move: Callable[[Connection], Task | None], step: Step) -> Step:
    with effects.database.connection() as connection:
        return Step.LOST if move(connection) is None else step
