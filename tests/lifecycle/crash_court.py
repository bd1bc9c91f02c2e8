"""A court before an act, kept so that each crash begins from the same; the process that acts; and what was promised."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, cast
from uuid import UUID

from dpp.lifecycle.flow import answer
from dpp.lifecycle.flow.errors import WireUnavailable
from dpp.lifecycle.flow.ports import Orders, OutsideReply, OutsideRequest, SoldierReport
from dpp.lifecycle.flow.runner import GeneralEffects
from dpp.platform.errors import RedisUnavailable
from tests.crash.drivers import CountedDatabase, counted_storage
from tests.crash.points import Call, Points
from tests.lifecycle.court import EMPTY, TABLES, Court

ANSWER = "the second one"


@dataclass(slots=True)
class CountedSoldiers:
    """Soldiers whose calls are counted."""

    court: Court
    points: Points

    def send(self, orders: Orders) -> UUID:
        """One run a key."""
        return self._call("send", True, lambda: self.court.soldiers.send(orders))

    def report(self, soldier_id: UUID) -> SoldierReport | None:
        """As planned."""
        return self._call("report", False, lambda: self.court.soldiers.report(soldier_id))

    def _call[Result](self, name: str, writes: bool, make: Callable[[], Result]) -> Result:
        return self.points.pass_through(Call("soldiers", name, writes, make, _away, _away, make))


@dataclass(slots=True)
class CountedSlack:
    """A Slack whose posts are counted."""

    court: Court
    points: Points

    def ask(self, request: OutsideRequest) -> OutsideReply:
        """One post."""

        def make() -> OutsideReply:
            return self.court.slack.ask(request)

        def lost() -> Exception:
            return WireUnavailable("lost")

        return self.points.pass_through(Call("slack", "ask", True, make, lost, lost, make))


def _away() -> Exception:
    return RedisUnavailable("away")


@dataclass(slots=True)
class Process:
    """One process whose calls are counted."""

    court: Court
    points: Points
    database: CountedDatabase

    @property
    def generals(self) -> GeneralEffects:
        """What its general touches."""
        objects = counted_storage("state", self.court.bucket, self.points)
        return self.court.generals(self.database, CountedSoldiers(self.court, self.points), objects)

    def king(self) -> None:
        """A firing."""
        self.court.king(self.database)

    def general(self) -> None:
        """A firing."""
        self.court.general(self.generals)

    def envoy(self) -> None:
        """A firing."""
        self.court.envoy(self.database, CountedSlack(self.court, self.points))

    def answer(self) -> None:
        """A reply in the only thread."""
        thread = self.court.thread(_waiting(self.court)[0])
        with self.database.connection() as connection:
            answer.answer_in_thread(connection, thread, ANSWER, self.court.now)


@dataclass(slots=True)
class Stage:
    """A court, what was kept of it before each act, and what was seen to be wrong on the way."""

    court: Court
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def arrange(self, act: str, before: Callable[[Court], object]) -> None:
        """Bring all of it to where the act begins."""
        court = self.court
        court.bucket.before_put = lambda _key: None
        if act in self.kept:
            self._restore(act)
        else:
            court.rows(EMPTY)
            self._fakes(deepcopy(_FRESH))
            before(court)
            self._keep(act)
        self.wrong.clear()
        court.bucket.before_put = self._watch

    def _watch(self, key: str) -> None:
        """Its row stands before an object is put, and its task has not ended."""
        found = self.court.rows(
            "SELECT t.status FROM lifecycle_objects o JOIN lifecycle_tasks t USING (task_id) WHERE object_key = %(k)s",
            {"k": key},
        )
        if not found:
            self.wrong.append(f"{key} is written without a row")
        elif found != [("IN_PROGRESS",)]:
            self.wrong.append(f"{key} is written, its task {found[0][0]}")

    def _keep(self, act: str) -> None:
        copies = ";".join(f"CREATE TABLE kept_{act}_{one} AS TABLE lifecycle_{one}" for one in TABLES)
        self.court.rows(copies)
        court = self.court
        self.kept[act] = deepcopy(
            {
                "seconds": court.seconds,
                "objects": court.bucket.objects,
                "plans": court.soldiers.plans,
                "orders": court.soldiers.orders,
                "posts": court.slack.posts,
            }
        )

    def _restore(self, act: str) -> None:
        copies = "".join(
            f"INSERT INTO lifecycle_{one} OVERRIDING SYSTEM VALUE SELECT * FROM kept_{act}_{one};"
            for one in TABLES
        )
        self.court.rows(EMPTY.replace("SET session_replication_role = origin", copies))
        self.court.rows("SET session_replication_role = origin")
        self._fakes(deepcopy(self.kept[act]))

    def _fakes(self, held: dict[str, Any]) -> None:
        court = self.court
        court.seconds = held["seconds"]
        court.bucket.objects = held["objects"]
        court.soldiers.plans, court.soldiers.orders = held["plans"], held["orders"]
        court.slack.posts = held["posts"]

    def come_to_rest(self) -> None:
        """Time passes, healthy roles are fired, and whoever is asked answers."""
        court = self.court
        for _ in range(14):
            court.beat()
            for task_id in _waiting(court):
                court.answer(task_id, ANSWER)
            if _is_at_rest(court):
                break
        court.pass_time(3_700)
        court.beat()
        court.beat()


_FRESH: dict[str, Any] = {"seconds": 0.0, "objects": {}, "plans": {}, "orders": {}, "posts": []}


def _waiting(court: Court) -> list[str]:
    rows = court.rows("SELECT task_id FROM lifecycle_tasks WHERE waits_for_person ORDER BY sequence")
    return [str(row[0]) for row in rows]


def _is_at_rest(court: Court) -> bool:
    return court.rows(
        "SELECT (SELECT count(*) FROM lifecycle_events WHERE ended_at IS NULL)"
        " + (SELECT count(*) FROM lifecycle_messages WHERE status = 'PENDING')"
    ) == [(0,)]


@dataclass(frozen=True, slots=True)
class Fate:
    """How a task ends: its outcome, its attempts, and how often a person is asked."""

    outcome: str
    attempts: int
    asked: int = 0


def broken(stage: Stage, fates: dict[str, Fate]) -> Iterator[str]:
    """Every promise that does not hold; `fates` by event."""
    court = stage.court
    yield from stage.wrong
    rows = court.rows(
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
        yield from _of_task(court, task_id, fate)
    if set(court.soldiers.orders) != runs:
        yield f"runs: {sorted(court.soldiers.orders)}, not {sorted(runs)}"
    yield from _objects(court)
    yield from _posts(court)
    for left in ("threads", "awaiting"):
        if found := court.rows(f"SELECT task_id FROM lifecycle_{left}"):
            yield f"{left} are left: {found}"


def _of_task(court: Court, task_id: str, fate: Fate) -> Iterator[str]:
    kinds = [kind for kind, _ in court.messages(task_id)]
    expected = ["THREAD_START", *["HUMAN_INPUT_REQUEST"] * fate.asked, "TASK_RESULT"]
    if kinds != expected:
        yield f"{task_id} said {kinds}"
    result = court.result(task_id)
    if (result["status"], result["attempt"]) != (fate.outcome, fate.attempts):
        yield f"the result of {task_id} is {result}"
    if fate.outcome == "SUCCEEDED":
        raw = json.loads(court.bucket.objects[f"state/results/{task_id}-raw.json"])
        told = court.bucket.objects[f"state/results/{task_id}-soldier-id"].decode()
        if len({raw["run_id"], told, result["soldier_id"]}) != 1:
            yield f"{task_id} has the results of several soldiers"


def _objects(court: Court) -> Iterator[str]:
    rows = dict(court.rows("SELECT object_key, bytes FROM lifecycle_objects"))
    found = {key: len(body) for key, body in court.bucket.objects.items()}
    if rows != found:
        yield f"objects without a row: {set(found) - set(rows)}; rows without an object: {set(rows) - set(found)}"


def _posts(court: Court) -> Iterator[str]:
    """All messages, of each task in their order, one of them twice at most."""
    tasks = {
        str(message_id): str(task_id)
        for message_id, task_id in court.rows(
            "SELECT message_id, task_id FROM lifecycle_messages ORDER BY sequence"
        )
    }
    told = court.slack.told
    if len(told) > len(tasks) + 1:
        yield f"sent {told}"
    for task_id in set(tasks.values()):
        sent = [message for message, _ in groupby(one for one in told if tasks[one] == task_id)]
        if sent != [message for message, its in tasks.items() if its == task_id]:
            yield f"{task_id} told {sent}"
    if pending := court.rows("SELECT message_id FROM lifecycle_messages WHERE status = 'PENDING'"):
        yield f"unsent: {pending}"


def process(court: Court, points: Points) -> Process:
    """A process of this court's."""
    return Process(court, points, CountedDatabase(court.url, points))


def as_any(value: object) -> Any:
    """For what stands in for a module's own."""
    return cast(Any, value)
