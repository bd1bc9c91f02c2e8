"""The parts of the flow around one test: real Postgres, a bucket in memory, canned task runs and a canned Slack."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import NAMESPACE_URL, UUID, uuid5

import psycopg
from psycopg.types.json import Jsonb

from dpp.lifecycle.flow import answer, ports, store
from dpp.lifecycle.flow.dispatcher import DispatcherEffects, DispatcherReport, dispatch
from dpp.lifecycle.flow.model import Task, Thread
from dpp.lifecycle.flow.notifier import NotifierEffects, NotifierReport, send_messages
from dpp.lifecycle.flow.runner import RunnerEffects, RunnerReport, run_tasks
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from tests.support.clock import MovedClock
from tests.support.memory_s3 import MemoryS3
from tests.support.stored import Stored, existing

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CHANNEL = "C0FLOW"
MAX_ATTEMPTS = 3
AT_WORK, SUCCEEDED, FAILED, ASKS = "AT_WORK", "SUCCEEDED", "FAILED", "ASKS"


class CannedTaskRuns:
    """Runs by their key. A task's plan says how its first attempt ends, its second, and so on."""

    def __init__(self) -> None:
        self.plans: dict[str, list[str]] = {}
        self.requests: dict[str, ports.TaskRunRequest] = {}
        self.sent: list[str] = []
        self.refusal: Exception | None = None

    def send(self, request: ports.TaskRunRequest) -> UUID:
        """One run a key."""
        if self.refusal is not None:
            raise self.refusal
        self.sent.append(request.key)
        self.requests.setdefault(request.key, request)
        return uuid5(NAMESPACE_URL, request.key)

    def report(self, run_id: UUID) -> ports.TaskRunReport | None:
        """As planned; None for a run that was never sent."""
        for key, request in self.requests.items():
            if uuid5(NAMESPACE_URL, key) == run_id:
                return self._report(run_id, key, request)
        return None

    def _report(self, run_id: UUID, key: str, request: ports.TaskRunRequest) -> ports.TaskRunReport | None:
        plan = next((plan for title, plan in self.plans.items() if title in request.question), [SUCCEEDED])
        attempt = int(key.rpartition("-")[2])
        planned = plan[min(attempt, len(plan)) - 1]
        if planned == "GONE":
            return None
        worked, asks = planned == SUCCEEDED, planned == ASKS
        reason = "PACK_RELIABILITY_BELOW_MINIMUM" if asks else "PACK_FAILED"
        return ports.TaskRunReport(
            run_id=run_id,
            state=ports.TaskRunState(FAILED if asks else planned),
            charged_usd="0.0200",
            tokens_consumed=7,
            created_at=NOON,
            updated_at=NOON + timedelta(seconds=9),
            reason_code=None if planned in {SUCCEEDED, AT_WORK} else reason,
            detail=None if planned in {SUCCEEDED, AT_WORK} else "as planned",
            needs_person=asks,
            raw={"run_id": str(run_id), "data": {"answer_text": f"answer of {key}"}} if worked else None,
        )


class CannedSlack:
    """Accepts each post, unless `replies` gives another reply for it."""

    def __init__(self) -> None:
        self.posts: list[dict[str, Any]] = []
        self.replies: Callable[[dict[str, Any]], ports.OutsideReply | None] = lambda _post: None
        self.tells_threads = True

    def ask(self, request: ports.OutsideRequest) -> ports.OutsideReply:
        """One post."""
        post = json.loads(request.body or "")
        reply = self.replies(post)
        if reply is not None:
            return reply
        self.posts.append(post)
        if not self.tells_threads:
            return ports.OutsideReply(status=200, body="ok")
        body = {"ok": True, "channel": CHANNEL, "ts": f"1700000000.{len(self.posts):06}"}
        return ports.OutsideReply(status=200, body=json.dumps(body))

    @property
    def posted_ids(self) -> list[str]:
        """The ids of the posted messages, in their order."""
        return [post["metadata"]["event_payload"]["message_id"] for post in self.posts]


@dataclass(slots=True)
class Environment(Stored):
    """The parts, and short ways to use them. Time passes only when a test moves the clock."""

    url: str
    database: Database
    admin: psycopg.Connection[tuple[Any, ...]]
    bucket: MemoryS3 = field(default_factory=MemoryS3)
    task_runs: CannedTaskRuns = field(default_factory=CannedTaskRuns)
    slack: CannedSlack = field(default_factory=CannedSlack)
    woken: list[str] = field(default_factory=list)
    clock: MovedClock = field(default_factory=lambda: MovedClock(NOON))

    def wake(self, role: str) -> None:
        """Record which role was woken."""
        self.woken.append(role)

    @property
    def now(self) -> datetime:
        """The current time."""
        return self.clock.now

    def pass_time(self, seconds: float) -> None:
        """Move the clock."""
        self.clock.move(seconds)

    @property
    def objects(self) -> ObjectStore:
        """The tasks' bucket."""
        return self.bucket.store("state")

    def runner_effects(
        self,
        database: Database | None = None,
        task_runs: ports.TaskRuns | None = None,
        objects: ObjectStore | None = None,
        max_attempts: int = MAX_ATTEMPTS,
    ) -> RunnerEffects:
        """Connections and clients that the runner uses."""
        return RunnerEffects(
            database or self.database, task_runs or self.task_runs, objects or self.objects, self.wake, max_attempts
        )

    def dispatch(self, database: Database | None = None) -> DispatcherReport:
        return dispatch(DispatcherEffects(database or self.database, self.wake), self.now)

    def run_tasks(self, effects: RunnerEffects | None = None) -> RunnerReport:
        return run_tasks(effects or self.runner_effects(), self.now)

    def notify(self, database: Database | None = None, outside: ports.Outside | None = None) -> NotifierReport:
        return send_messages(NotifierEffects(database or self.database, outside or self.slack, "C0HOME"), self.now)

    def emit(self, title: str, *, plan: list[str] | None = None, **payload: str) -> str:
        """A PENDING event, as the poller inserts it."""
        event_id = f"github-{title.replace(' ', '-')}"
        if plan is not None:
            self.task_runs.plans[title] = plan
        subject = {"place": "a/repo", "title": title, "url": "https://example.com/1", "actor": "kim", "body": "x"}
        self.admin.execute("INSERT INTO lifecycle_seen (event_id, seen_at) VALUES (%s, %s)", (event_id, self.now))
        self.admin.execute(
            "INSERT INTO lifecycle_events"
            " (event_id, source, kind, arrived_by, payload, happened_at, status, created_at)"
            " VALUES (%s, 'GITHUB', 'MENTIONED', 'POLL', %s, %s, 'PENDING', %s)",
            (event_id, Jsonb(subject | payload), self.now, self.now),
        )
        return event_id

    def started(self, title: str = "a task", *, plan: list[str] | None = None, ticks: int = 1) -> str:
        """A task after so many ticks of the runner."""
        event_id = self.emit(title, plan=plan)
        self.dispatch()
        for _ in range(ticks):
            self.run_tasks()
            self.pass_time(130)
        return str(self.rows("SELECT task_id FROM lifecycle_tasks WHERE event_id = %(id)s", {"id": event_id})[0][0])

    def tick(self) -> None:
        """One tick of each role; then time passes."""
        self.dispatch()
        self.run_tasks()
        self.notify()
        self.pass_time(130)

    def run_ticks(self, rounds: int = 8) -> None:
        """Ticks until nothing is open but what a person has to answer."""
        for _ in range(rounds):
            self.tick()

    def answer_in_thread(self, thread: Thread, text: str) -> bool:
        """A reply in a thread of Slack."""
        return self.using(answer.answer_in_thread, thread, text, self.now)

    def answer(self, task_id: str, text: str) -> None:
        """An operator's answer."""
        self.using(answer.answer, task_id, text, self.now)

    def thread(self, task_id: str) -> Thread:
        """The task's thread."""
        ((channel, thread_ts),) = self.rows(
            "SELECT channel, thread_ts FROM lifecycle_threads WHERE task_id = %(id)s", {"id": task_id}
        )
        return Thread(channel, thread_ts)

    def task(self, task_id: str) -> Task:
        """The task's row."""
        return existing(self.using(store.find_task, task_id))

    def event(self, event_id: str) -> tuple[str, str | None]:
        """Status and reason."""
        (row,) = self.rows("SELECT status, reason FROM lifecycle_events WHERE event_id = %(id)s", {"id": event_id})
        return row[0], row[1]

    def messages(self, task_id: str) -> list[tuple[str, str]]:
        """Kind and status, in their order."""
        rows = self.rows(
            "SELECT kind, status FROM lifecycle_messages WHERE task_id = %(id)s ORDER BY sequence", {"id": task_id}
        )
        return [(row[0], row[1]) for row in rows]

    def result(self, task_id: str) -> dict[str, Any]:
        """The result object."""
        return cast(dict[str, Any], json.loads(self.bucket.objects[f"state/results/{task_id}.json"]))

    def unregistered(self) -> set[str]:
        """Objects without a row."""
        return set(self.bucket.objects) - {row[0] for row in self.rows("SELECT object_key FROM lifecycle_objects")}

    def rows(self, statement: str, params: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        """The rows of a statement, on a connection of its own."""
        cursor = self.admin.execute(statement.encode(), params)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def open_environment(url: str) -> Iterator[Environment]:
    with closing(Database(url)) as database, psycopg.connect(url, autocommit=True) as admin:
        yield Environment(url, database, admin)


TABLES = tuple(
    f"lifecycle_{name}"
    for name in (
        *("seen", "events", "tasks", "messages", "threads", "awaiting"),
        *("sequences", "objects", "deletions", "heartbeats"),
    )
)
