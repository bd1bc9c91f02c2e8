"""A court before an act, kept so that each crash begins from the same; the process that acts; and what was promised."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, cast
from uuid import UUID

from dpp.lifecycle.flow import answer
from dpp.lifecycle.flow.errors import OutsideUnavailable
from dpp.lifecycle.flow.ports import OutsideReply, OutsideRequest, TaskRunReport, TaskRunRequest
from dpp.lifecycle.flow.runner import RunnerEffects
from dpp.platform.errors import RedisUnavailable
from tests.lifecycle.environment import EMPTY, TABLES, Environment
from tests.support.counted_drivers import CountedDatabase, counted_storage
from tests.support.crash_points import Call, Points

ANSWER = "the second one"


@dataclass(slots=True)
class CountedTaskRuns:
    """TaskRuns whose calls are counted."""

    env: Environment
    points: Points

    def send(self, request: TaskRunRequest) -> UUID:
        """One run a key."""
        return self._call("send", True, lambda: self.env.task_runs.send(request))

    def report(self, run_id: UUID) -> TaskRunReport | None:
        """As planned."""
        return self._call("report", False, lambda: self.env.task_runs.report(run_id))

    def _call[Result](self, name: str, writes: bool, make: Callable[[], Result]) -> Result:
        return self.points.pass_through(Call("task_runs", name, writes, make, _away, _away, make))


@dataclass(slots=True)
class CountedSlack:
    """A Slack whose posts are counted."""

    env: Environment
    points: Points

    def ask(self, request: OutsideRequest) -> OutsideReply:
        """One post."""

        def make() -> OutsideReply:
            return self.env.slack.ask(request)

        def lost() -> Exception:
            return OutsideUnavailable("lost")

        return self.points.pass_through(Call("slack", "ask", True, make, lost, lost, make))


def _away() -> Exception:
    return RedisUnavailable("away")


@dataclass(slots=True)
class Process:
    """One process whose calls are counted."""

    env: Environment
    points: Points
    database: CountedDatabase

    @property
    def runner_effects(self) -> RunnerEffects:
        """What its general touches."""
        objects = counted_storage("state", self.env.bucket, self.points)
        return self.env.runner_effects(self.database, CountedTaskRuns(self.env, self.points), objects)

    def dispatch(self) -> None:
        """A firing."""
        self.env.dispatch(self.database)

    def run_tasks(self) -> None:
        """A firing."""
        self.env.run_tasks(self.runner_effects)

    def notify(self) -> None:
        """A firing."""
        self.env.notify(self.database, CountedSlack(self.env, self.points))

    def answer(self) -> None:
        """A reply in the only thread."""
        thread = self.env.thread(_waiting(self.env)[0])
        with self.database.connection() as connection:
            answer.answer_in_thread(connection, thread, ANSWER, self.env.now)


@dataclass(slots=True)
class CrashEnvironment:
    """A court, what was kept of it before each act, and what was seen to be wrong on the way."""

    env: Environment
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def arrange(self, act: str, before: Callable[[Environment], object]) -> None:
        """Bring all of it to where the act begins."""
        env = self.env
        env.bucket.before_put = lambda _key: None
        if act in self.kept:
            self._restore(act)
        else:
            env.rows(EMPTY)
            self._fakes(deepcopy(_FRESH))
            before(env)
            self._keep(act)
        self.wrong.clear()
        env.bucket.before_put = self._watch

    def _watch(self, key: str) -> None:
        """Its row stands before an object is put, and its task has not ended."""
        found = self.env.rows(
            "SELECT t.status FROM lifecycle_objects o JOIN lifecycle_tasks t USING (task_id) WHERE object_key = %(k)s",
            {"k": key},
        )
        if not found:
            self.wrong.append(f"{key} is written without a row")
        elif found != [("IN_PROGRESS",)]:
            self.wrong.append(f"{key} is written, its task {found[0][0]}")

    def _keep(self, act: str) -> None:
        copies = ";".join(f"CREATE TABLE kept_{act}_{one} AS TABLE lifecycle_{one}" for one in TABLES)
        self.env.rows(copies)
        env = self.env
        self.kept[act] = deepcopy(
            {
                "seconds": env.seconds,
                "objects": env.bucket.objects,
                "plans": env.task_runs.plans,
                "request": env.task_runs.request,
                "posts": env.slack.posts,
            }
        )

    def _restore(self, act: str) -> None:
        copies = "".join(
            f"INSERT INTO lifecycle_{one} OVERRIDING SYSTEM VALUE SELECT * FROM kept_{act}_{one};"
            for one in TABLES
        )
        self.env.rows(EMPTY.replace("SET session_replication_role = origin", copies))
        self.env.rows("SET session_replication_role = origin")
        self._fakes(deepcopy(self.kept[act]))

    def _fakes(self, held: dict[str, Any]) -> None:
        env = self.env
        env.seconds = held["seconds"]
        env.bucket.objects = held["objects"]
        env.task_runs.plans, env.task_runs.request = held["plans"], held["request"]
        env.slack.posts = held["posts"]

    def come_to_rest(self) -> None:
        """Time passes, healthy roles are fired, and whoever is asked answers."""
        env = self.env
        for _ in range(14):
            env.tick()
            for task_id in _waiting(env):
                env.answer(task_id, ANSWER)
            if _is_at_rest(env):
                break
        env.pass_time(3_700)
        env.tick()
        env.tick()


_FRESH: dict[str, Any] = {"seconds": 0.0, "objects": {}, "plans": {}, "request": {}, "posts": []}


def _waiting(env: Environment) -> list[str]:
    rows = env.rows("SELECT task_id FROM lifecycle_tasks WHERE waits_for_person ORDER BY sequence")
    return [str(row[0]) for row in rows]


def _is_at_rest(env: Environment) -> bool:
    return env.rows(
        "SELECT (SELECT count(*) FROM lifecycle_events WHERE ended_at IS NULL)"
        " + (SELECT count(*) FROM lifecycle_messages WHERE status = 'PENDING')"
    ) == [(0,)]


@dataclass(frozen=True, slots=True)
class Fate:
    """How a task ends: its outcome, its attempts, and how often a person is asked."""

    outcome: str
    attempts: int
    asked: int = 0


def broken(crash_env: CrashEnvironment, fates: dict[str, Fate]) -> Iterator[str]:
    """Every promise that does not hold; `fates` by event."""
    env = crash_env.env
    yield from crash_env.wrong
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
    if set(env.task_runs.request) != runs:
        yield f"runs: {sorted(env.task_runs.request)}, not {sorted(runs)}"
    yield from _objects(env)
    yield from _posts(env)
    for left in ("threads", "awaiting"):
        if found := env.rows(f"SELECT task_id FROM lifecycle_{left}"):
            yield f"{left} are left: {found}"


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
        told = env.bucket.objects[f"state/results/{task_id}-soldier-id"].decode()
        if len({raw["run_id"], told, result["soldier_id"]}) != 1:
            yield f"{task_id} has the results of several task_runs"


def _objects(env: Environment) -> Iterator[str]:
    rows = dict(env.rows("SELECT object_key, bytes FROM lifecycle_objects"))
    found = {key: len(body) for key, body in env.bucket.objects.items()}
    if rows != found:
        yield f"objects without a row: {set(found) - set(rows)}; rows without an object: {set(rows) - set(found)}"


def _posts(env: Environment) -> Iterator[str]:
    """All messages, of each task in their order, one of them twice at most."""
    tasks = {
        str(message_id): str(task_id)
        for message_id, task_id in env.rows(
            "SELECT message_id, task_id FROM lifecycle_messages ORDER BY sequence"
        )
    }
    told = env.slack.told
    if len(told) > len(tasks) + 1:
        yield f"sent {told}"
    for task_id in set(tasks.values()):
        sent = [message for message, _ in groupby(one for one in told if tasks[one] == task_id)]
        if sent != [message for message, its in tasks.items() if its == task_id]:
            yield f"{task_id} told {sent}"
    if pending := env.rows("SELECT message_id FROM lifecycle_messages WHERE status = 'PENDING'"):
        yield f"unsent: {pending}"


def process(env: Environment, points: Points) -> Process:
    """A process of this court's."""
    return Process(env, points, CountedDatabase(env.url, points))


def as_any(value: object) -> Any:
    """For what stands in for a module's own."""
    return cast(Any, value)
