"""Every call that the roles make to Postgres, S3, the run pipeline and Slack, failed in every way (LIFE-1 … LIFE-12).

After each crash each event ends once and as its task did, one attempt is one run, a task has one result, no object is
without a row, and messages are posted in order and once. One message may be posted twice: that of a process that dies
between Slack's reply and the commit of SENT.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, cast
from uuid import uuid4

import pytest

from dpp.lifecycle.flow import dispatcher, prompts, results, store
from dpp.lifecycle.flow.model import MessageKind, StateObject, Task
from dpp.lifecycle.flow.ports import Objects, TaskRunRequest
from dpp.lifecycle.flow.store import NewMessage
from dpp.platform.db.postgres import Connection, Database
from tests.lifecycle.crash_environment import Act, Fate, FlowCrashes, Process
from tests.lifecycle.environment import ASKS, FAILED, SUCCEEDED, Environment, open_environment
from tests.support.crash_matrix import Plant
from tests.support.crash_points import Killed

_DONE, _LOST = Fate("SUCCEEDED", 1), Fate("FAILED", 3)


def _two_new_and_one_done(env: Environment) -> None:
    env.started("done", ticks=2)
    env.emit("first")
    env.emit("second")


def _one_of_each(env: Environment) -> None:
    """An opening message, a question and a result, of three tasks."""
    env.started("unclear", plan=[ASKS, SUCCEEDED], ticks=0)
    env.notify()
    env.run_tasks()
    env.pass_time(130)
    env.run_tasks()
    env.started("done", ticks=2)
    env.emit("new")
    env.dispatch()


def _with_a_person(env: Environment) -> None:
    env.started("unclear", plan=[ASKS, SUCCEEDED], ticks=2)
    env.notify()


_KEEPS = {"postgres.lock_objects", "postgres.register_objects", "s3.put_object"}
_SAYS = {"postgres.next_number", "postgres.insert_message", "postgres.commit transaction"}
ACTS = {
    "rule": Act(
        Process.dispatch,
        _two_new_and_one_done,
        {"github-done": _DONE, "github-first": _DONE, "github-second": _DONE},
        frozenset(
            _SAYS
            | {"postgres.dispatch_event", "postgres.insert_task", "postgres.end_events", "postgres.record_heartbeat"}
        ),
    ),
    "send": Act(
        Process.run_tasks,
        lambda env: env.started("new", ticks=0),
        {"github-new": _DONE},
        frozenset(_KEEPS | {"postgres.take_on_tasks", "task_runs.send", "postgres.record_run"}),
    ),
    "succeed": Act(
        Process.run_tasks,
        lambda env: env.started("new"),
        {"github-new": _DONE},
        frozenset(_KEEPS | _SAYS | {"task_runs.report", "postgres.complete_task"}),
    ),
    "retry": Act(
        Process.run_tasks,
        lambda env: env.started("new", plan=[FAILED, SUCCEEDED]),
        {"github-new": replace(_DONE, attempts=2)},
        frozenset(_KEEPS | {"task_runs.report", "postgres.next_attempt"}),
    ),
    "fail": Act(
        Process.run_tasks,
        lambda env: env.started("new", plan=[FAILED], ticks=5),
        {"github-new": _LOST},
        frozenset(_KEEPS | _SAYS | {"postgres.complete_task"}),
    ),
    "ask": Act(
        Process.run_tasks,
        lambda env: env.started("new", plan=[ASKS, SUCCEEDED]),
        {"github-new": Fate("SUCCEEDED", 2, asked=1)},
        frozenset(_KEEPS | _SAYS | {"postgres.ask_person"}),
    ),
    "deliver": Act(
        Process.notify,
        _one_of_each,
        {"github-unclear": Fate("SUCCEEDED", 2, asked=1), "github-done": _DONE, "github-new": _DONE},
        frozenset(
            {"slack.ask", "postgres.claim_message", "postgres.mark_sent", "postgres.keep_thread"}
            | {"postgres.await_answer", "postgres.drop_thread", "postgres.commit transaction"}
        ),
    ),
    "answer": Act(
        Process.answer,
        _with_a_person,
        {"github-unclear": Fate("SUCCEEDED", 2, asked=1)},
        frozenset({"postgres.take_answer", "postgres.forget_awaited", "postgres.commit transaction"}),
    ),
}


@pytest.fixture(scope="module")
def crashes(shared_database: str) -> Iterator[FlowCrashes]:
    """One for the whole module."""
    with open_environment(shared_database) as opened:
        yield FlowCrashes(opened, ACTS)


@pytest.mark.parametrize("act", list(ACTS))
def test_every_port_is_among_the_points(crashes: FlowCrashes, act: str) -> None:
    """A recording that misses calls would pass, too."""
    assert ACTS[act].calls <= crashes.calls_of_clean_run(act)


@pytest.mark.parametrize("act", list(ACTS))
def test_a_crash_at_any_call_loses_nothing_and_does_nothing_twice(crashes: FlowCrashes, act: str) -> None:
    """LIFE-1 … LIFE-5, LIFE-10, LIFE-12: all calls of this act, one after the other."""
    assert list(crashes.crash_everywhere(act)) == []


def _write_before_entering(patch: pytest.MonkeyPatch) -> None:
    """Write objects before their rows."""
    real = results.write

    def write(
        database: Database, objects: Objects, task: Task, new: Sequence[StateObject], now: datetime | None = None
    ) -> bool:
        for one in new:
            objects.put(one.key, one.body, one.content_type)
        return real(database, objects, task, new, now)

    patch.setattr(results, "write", write)


def _send_under_a_new_key(patch: pytest.MonkeyPatch) -> None:
    """Submit each repetition as another run."""
    real = prompts.run_request_of

    def request(task: Task) -> TaskRunRequest:
        return replace(real(task), key=f"{uuid4()}-{task.attempt}")

    patch.setattr(prompts, "run_request_of", request)


def _end_without_a_word(patch: pytest.MonkeyPatch) -> None:
    """End a task and write its message in separate transactions."""
    real = store.add_message

    def say(connection: Connection, message: NewMessage, now: datetime | None = None) -> None:
        if message.kind is not MessageKind.TASK_RESULT:
            real(connection, message, now)

    patch.setattr(store, "add_message", say)


def _dispatch_without_a_task(patch: pytest.MonkeyPatch) -> None:
    """Dispatch an event and create its task in separate transactions."""

    def dispatch(connection: Connection, event_id: str, now: datetime | None) -> bool:
        store.dispatch_event(connection, event_id, now)
        raise Killed

    patch.setattr(dispatcher, "_dispatch", dispatch)


def _out_of_order(patch: pytest.MonkeyPatch) -> None:
    """Send the newest message first, even before others of its task."""
    query = store.QUERIES["claim_message"]
    assert "earlier.sequence < m.sequence" in query
    turned = query.replace("earlier.sequence < m.sequence", "false").replace("BY m.sequence", "BY m.sequence DESC")
    patch.setitem(cast(Any, store.QUERIES)._queries, "claim_message", turned)


def _forget_the_attempt(patch: pytest.MonkeyPatch) -> None:
    """Do not count a failed attempt."""
    real = store.next_attempt

    def again(
        connection: Connection, task: Task, failure: str, pause_seconds: float, now: datetime | None = None
    ) -> Task | None:
        moved = real(connection, task, failure, pause_seconds, now)
        connection.execute("UPDATE lifecycle_tasks SET attempt = 1")
        return moved

    patch.setattr(store, "next_attempt", again)


@pytest.mark.parametrize(
    ("plant", "act", "violation"),
    [
        (_write_before_entering, "succeed", "without a row"),
        (_send_under_a_new_key, "send", "runs: "),
        (_end_without_a_word, "succeed", "said ['THREAD_START']"),
        (_dispatch_without_a_task, "rule", "is None"),
        (_out_of_order, "deliver", "sent "),
        (_forget_the_attempt, "retry", "at attempt"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_planted_fault_is_found(
    crashes: FlowCrashes, monkeypatch: pytest.MonkeyPatch, plant: Plant, act: str, violation: str
) -> None:
    """Without these the matrix could pass by finding nothing."""
    env: Any = crashes.env
    crashes.arrange(act)
    plant(monkeypatch)
    with suppress(Killed):
        {"rule": env.dispatch, "deliver": env.notify}.get(act, env.run_tasks)()
    if plant is _dispatch_without_a_task:
        monkeypatch.undo()
    crashes.recover(act)
    found = list(crashes.violations(act))
    assert any(violation in one for one in found), found
