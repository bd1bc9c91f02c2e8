"""The acts of the flow's roles for the crash matrix, and the invariants that hold after a crash."""

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from dpp.lifecycle.flow import answer
from dpp.lifecycle.flow.errors import OutsideUnavailable
from dpp.platform.db.postgres import Database
from dpp.platform.errors import RedisUnavailable
from tests.lifecycle.environment import TABLES, Environment
from tests.support.crash_matrix import CrashSuite
from tests.support.crash_points import FaultInjector
from tests.support.crashable import CrashablePort, crashable_database, crashable_storage
from tests.support.saved_tables import SavedTables

ANSWER = "the second one"
_FRESH: dict[str, Any] = {"seconds": 0.0, "objects": {}, "plans": {}, "requests": {}, "posts": []}


@dataclass(slots=True)
class Process:
    """One process, each of its calls through the injector."""

    env: Environment
    database: Database
    injector: FaultInjector

    def dispatch(self) -> None:
        """One tick of the dispatcher."""
        self.env.dispatch(self.database)

    def run_tasks(self) -> None:
        """One tick of the runner."""
        objects = crashable_storage("state", self.env.bucket, self.injector)
        task_runs: Any = CrashablePort(
            self.env.task_runs, self.injector, "task_runs", lambda: RedisUnavailable("lost"), {"report"}
        )
        self.env.run_tasks(self.env.runner_effects(self.database, task_runs, objects))

    def notify(self) -> None:
        """One tick of the notifier."""
        slack: Any = CrashablePort(self.env.slack, self.injector, "slack", lambda: OutsideUnavailable("lost"))
        self.env.notify(self.database, slack)

    def answer(self) -> None:
        """A reply in the only thread that waits for one."""
        thread = self.env.thread(_waiting(self.env)[0])
        self.database.using(answer.answer_in_thread, thread, ANSWER, self.env.now)


@dataclass(frozen=True, slots=True)
class Fate:
    """The planned end of a task: its outcome, its attempts, and how often a person is asked."""

    outcome: str
    attempts: int
    asked: int = 0


@dataclass(frozen=True, slots=True)
class Act:
    """The act of a process, the state before it, how each event's task ends, and the calls that it must make."""

    perform: Callable[[Process], None]
    before: Callable[[Environment], object]
    fates: Mapping[str, Fate]
    calls: frozenset[str]


class FlowCrashes(CrashSuite):
    """One tick of a role, or an answer."""

    def __init__(self, env: Environment, acts: Mapping[str, Act]) -> None:
        super().__init__(SavedTables(env.admin, TABLES))
        self.env = env
        self.acts = acts
        self._wrong: list[str] = []

    def set_up(self, act: str) -> None:
        """Create the state before the act."""
        self.acts[act].before(self.env)

    def state(self) -> dict[str, Any]:
        """Clock, bucket, task runs and Slack."""
        env = self.env
        return deepcopy(
            {
                "seconds": env.clock.seconds,
                "objects": env.bucket.objects,
                "plans": env.task_runs.plans,
                "requests": env.task_runs.requests,
                "posts": env.slack.posts,
            }
        )

    def restore(self, state: dict[str, Any] | None) -> None:
        """Clock, bucket, task runs and Slack; from now on each write to the bucket is checked."""
        env, held = self.env, deepcopy(state or _FRESH)
        env.clock.seconds = held["seconds"]
        env.bucket.objects = held["objects"]
        env.task_runs.plans, env.task_runs.requests = held["plans"], held["requests"]
        env.slack.posts = held["posts"]
        env.bucket.before_put = self._check_write
        self._wrong.clear()

    def _check_write(self, key: str) -> None:
        """An object has its row before it is written, and its task has not ended."""
        found = self.env.rows(
            "SELECT t.status FROM lifecycle_objects o JOIN lifecycle_tasks t USING (task_id) WHERE object_key = %(k)s",
            {"k": key},
        )
        if not found:
            self._wrong.append(f"{key} is written without a row")
        elif found != [("IN_PROGRESS",)]:
            self._wrong.append(f"{key} is written, its task {found[0][0]}")

    def perform(self, act: str, injector: FaultInjector) -> None:
        with crashable_database(self.env.url, injector) as database:
            self.acts[act].perform(Process(self.env, database, injector))

    def recover(self, act: str) -> None:
        """Time passes, healthy roles tick, and each question is answered."""
        env = self.env
        for _ in range(14):
            env.tick()
            for task_id in _waiting(env):
                env.answer(task_id, ANSWER)
            if _is_idle(env):
                break
        env.pass_time(3_700)
        env.tick()
        env.tick()

    def violations(self, act: str) -> Iterator[str]:
        """Events, tasks, runs, objects and posts."""
        env = self.env
        yield from self._wrong
        yield from self._of_events(self.acts[act].fates)
        yield from _objects(env)
        yield from _posts(env)
        for left in ("threads", "awaiting"):
            if found := env.rows(f"SELECT task_id FROM lifecycle_{left}"):
                yield f"{left} are left: {found}"

    def _of_events(self, fates: Mapping[str, Fate]) -> Iterator[str]:
        env = self.env
        rows = env.rows(
            "SELECT e.event_id, e.status, t.task_id, t.status, t.outcome, t.attempt"
            " FROM lifecycle_events e LEFT JOIN lifecycle_tasks t USING (event_id) ORDER BY e.sequence"
        )
        if len(rows) != len(fates):
            yield f"there are {len(rows)} events with tasks"
        runs: set[str] = set()
        for event_id, ended, task_id, status, outcome, attempt in rows:
            fate = fates[event_id]
            if (status, outcome, attempt) != ("COMPLETED", fate.outcome, fate.attempts):
                yield f"{task_id} is {status}, {outcome}, at attempt {attempt}"
                continue
            if ended != ("COMPLETED" if outcome == "SUCCEEDED" else "FAILED"):
                yield f"{event_id} is {ended}"
            runs |= {f"{task_id}-{number}" for number in range(1, attempt + 1)}
            yield from _of_task(env, task_id, fate)
        if set(env.task_runs.requests) != runs:
            yield f"runs: {sorted(env.task_runs.requests)}, not {sorted(runs)}"


def _waiting(env: Environment) -> list[str]:
    rows = env.rows("SELECT task_id FROM lifecycle_tasks WHERE waits_for_person ORDER BY sequence")
    return [str(row[0]) for row in rows]


def _is_idle(env: Environment) -> bool:
    return env.rows(
        "SELECT (SELECT count(*) FROM lifecycle_events WHERE ended_at IS NULL)"
        " + (SELECT count(*) FROM lifecycle_messages WHERE status = 'PENDING')"
    ) == [(0,)]


def _of_task(env: Environment, task_id: str, fate: Fate) -> Iterator[str]:
    kinds = [kind for kind, _ in env.messages(task_id)]
    expected = ["THREAD_START", *["HUMAN_INPUT_REQUEST"] * fate.asked, "TASK_RESULT"]
    if kinds != expected:
        yield f"{task_id} said {kinds}"
    result = env.result(task_id)
    if (result["status"], result["attempt"]) != (fate.outcome, fate.attempts):
        yield f"the result of {task_id} is {result}"
    if fate.outcome == "SUCCEEDED":
        raw = json.loads(env.bucket.objects[f"state/results/{task_id}-raw.json"])
        run_id = env.bucket.objects[f"state/results/{task_id}-soldier-id"].decode()
        if len({raw["run_id"], run_id, result["soldier_id"]}) != 1:
            yield f"{task_id} has the results of several runs"


def _objects(env: Environment) -> Iterator[str]:
    rows = dict(env.rows("SELECT object_key, bytes FROM lifecycle_objects"))
    found = {key: len(body) for key, body in env.bucket.objects.items()}
    if rows != found:
        yield f"objects without a row: {set(found) - set(rows)}; rows without an object: {set(rows) - set(found)}"


def _posts(env: Environment) -> Iterator[str]:
    """All messages are posted, those of a task in their order, and at most one of them twice."""
    tasks = {
        str(message_id): str(task_id)
        for message_id, task_id in env.rows("SELECT message_id, task_id FROM lifecycle_messages ORDER BY sequence")
    }
    posted = env.slack.posted_ids
    if len(posted) > len(tasks) + 1:
        yield f"sent {posted}"
    for task_id in set(tasks.values()):
        sent = [message for message, _ in groupby(one for one in posted if tasks[one] == task_id)]
        if sent != [message for message, its in tasks.items() if its == task_id]:
            yield f"{task_id} sent {sent}"
    if pending := env.rows("SELECT message_id FROM lifecycle_messages WHERE status = 'PENDING'"):
        yield f"unsent: {pending}"
