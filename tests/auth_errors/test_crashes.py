"""Crashes at every call to Postgres and SQS while errors are recorded, published and consumed.

The crash points are recorded from a run of the code, so that a new call is covered without being listed. After each
crash time passes and healthy processes run. Then the invariants hold: each recorded error is analysed once, its events
are handled once each, it is in one cluster and counted once there, and a dead event has a dead letter.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID, uuid4

import psycopg
import pytest

from dpp.auth_errors.api.record import record
from dpp.auth_errors.machine import ERROR_MACHINE
from dpp.auth_errors.outbox import tables
from dpp.auth_errors.outbox.consume import LEASE_SECONDS, ConsumeEffects, consume
from dpp.auth_errors.outbox.events import EventType
from dpp.auth_errors.outbox.handlers import HANDLERS, HandlerResult
from dpp.auth_errors.outbox.message import EventMessage
from dpp.auth_errors.outbox.publish import SILENT_SECONDS, PublishEffects, Waker, publish
from dpp.platform.aws.queue import Queue
from dpp.platform.errors import DependencyUnavailable
from tests.auth_errors.environment import (
    DEAD_LETTERS,
    EVENTS,
    OTHER_TRACE,
    TENANT,
    VISIBILITY_SECONDS,
    WAKE,
    Environment,
    reasons,
)
from tests.support.counted_drivers import CountedDatabase, counted_queue
from tests.support.crash_points import Killed, Kind, Points

_EMPTY = """
SET session_replication_role = replica;
DELETE FROM auth_error_decision; DELETE FROM auth_error_cluster_item; DELETE FROM auth_error_cluster;
DELETE FROM processed_message; DELETE FROM outbox_message; DELETE FROM auth_error_transition; DELETE FROM auth_error
"""


class _HandlerError(Exception):
    """An unexpected error of a handler."""


@dataclass(slots=True)
class Process:
    """A process whose calls are counted."""

    env: Environment
    database: CountedDatabase
    points: Points

    def queue(self, url: str) -> Queue:
        """A queue whose calls are counted."""
        return counted_queue(url, self.env.sqs, self.points)

    def work(self, handlers: dict[EventType, Callable[..., HandlerResult]]) -> None:
        """Handle the visible messages, as the function does; Lambda deletes handled ones."""
        env = self.env
        effects = ConsumeEffects(
            self.database, self.queue(DEAD_LETTERS), Waker(self.queue(WAKE)), env.policy, handlers
        )
        events = env.queue(EVENTS)
        for one in events.receive(at_most=10, invisible_seconds=VISIBILITY_SECONDS):
            consumed = consume(EventMessage(one.body, one.attributes), effects, env.now)
            if consumed.return_in_seconds is None:
                events.delete(one.receipt_handle)
            else:
                self.queue(EVENTS).extend_visibility(one.receipt_handle, consumed.return_in_seconds)


REQUEST_ID = "the-report-of-the-scenario"


def _record(process: Process) -> None:
    env = process.env
    waker = Waker(process.queue(WAKE))
    record(env.report(request_id=REQUEST_ID), TENANT, process.database, waker, env.now)


def _publish(process: Process) -> None:
    env = process.env
    publish(PublishEffects(process.database, process.queue(EVENTS), env.policy), env.now)


def _consume(process: Process) -> None:
    process.work(dict(HANDLERS))


def _fail(process: Process) -> None:
    def fails(*_: object) -> HandlerResult:
        raise _HandlerError

    process.work(dict.fromkeys(EventType, fails))


def _nothing(_env: Environment) -> None:
    """The arranged state, unchanged."""


def _left_by_crashes(env: Environment) -> None:
    """An event of a dead owner, an event whose message was lost, and a due event."""
    with env.database.connection() as connection:
        claimed = tables.claim(connection, uuid4(), 10, env.now)
        first = claimed[0].outbox_id
        env.pass_time(1_000)
    env.rows(
        "UPDATE outbox_message SET status = 'PUBLISHED', processing_owner = NULL, processing_since = NULL,"
        f" published_at = '{env.now}', last_sent_at = '-infinity' WHERE outbox_id = {first}"
    )
    env.pass_time(SILENT_SECONDS)
    env.post()


def _published(env: Environment) -> None:
    env.publish()


def _to_be_analyzed(env: Environment) -> None:
    env.publish()
    env.deliver()
    env.publish()


def _without_attempts(env: Environment) -> None:
    """Every consumer crashed; the next one marks the message dead."""
    env.publish()
    for auth_error_id in _ids(env):
        message = env.message(auth_error_id)
        named = tables.EventRef(int(message.headers["outboxId"]), EventType.RECORDED, auth_error_id)
        for _ in range(env.policy.max_retries + 1):
            with env.database.connection() as connection:
                tables.ensure_row_exists(connection, named, env.now)
                tables.take_lease(
                    connection,
                    named,
                    uuid4(),
                    lease_seconds=LEASE_SECONDS,
                    max_retries=env.policy.max_retries,
                    now=env.now,
                )
            env.pass_time(LEASE_SECONDS)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The actions of a process and the state before it. `dead`: its events end as dead letters."""

    does: Callable[[Process], None]
    before: Callable[[Environment], None] = _nothing
    dead: bool = False


SCENARIOS = {
    "record": Scenario(_record),
    "publish": Scenario(_publish, _left_by_crashes),
    "consume-recorded": Scenario(_consume, _published),
    "consume-analysis": Scenario(_consume, _to_be_analyzed),
    "consume-failing": Scenario(_fail, _published),
    "consume-worn-out": Scenario(_consume, _without_attempts, dead=True),
}


def arrange(env: Environment, name: str) -> None:
    """Create two errors of one failure and one of another, in the state where the scenario starts."""
    env.rows(_EMPTY)
    env.sqs.queues.clear()
    for trace in (None, None, OTHER_TRACE):
        env.post(**({"stacktrace": trace} if trace else {}))
    SCENARIOS[name].before(env)


def run(env: Environment, name: str, points: Points) -> None:
    """Run the process until it is done, fails or is killed."""
    database = CountedDatabase(env.url, points)
    try:
        with suppress(Killed, DependencyUnavailable):
            SCENARIOS[name].does(Process(env, database, points))
    finally:
        database.close()
    points.land()


def recover(env: Environment, name: str) -> None:
    """The client repeats its reports, time passes, and healthy processes run."""
    if name == "record":
        env.record(request_id=REQUEST_ID)
    for _ in range(4):
        env.pass_time(1_000)
        env.publish()
        env.deliver()


def broken(env: Environment, name: str) -> Iterator[str]:
    """The invariants that don't hold."""
    ids = _ids(env)
    for auth_error_id in ids:
        yield from _broken_of_error(env, name, auth_error_id)
    clusters = env.rows(
        "SELECT c.error_count, count(i.auth_error_id) FROM auth_error_cluster c"
        " LEFT JOIN auth_error_cluster_item i USING (cluster_id) GROUP BY c.cluster_id"
    )
    if any(counted != found for counted, found in clusters):
        yield f"clusters {clusters}"
    if not SCENARIOS[name].dead and sum(counted for counted, _ in clusters) != len(ids):
        yield f"{len(ids)} errors in clusters {clusters}"
    if env.sqs.of(EVENTS):
        yield f"{len(env.sqs.of(EVENTS))} messages are left"
    dead_letters = reasons(env.dead_letters())
    if SCENARIOS[name].dead != bool(dead_letters) or (dead_letters and len(dead_letters) < len(ids)):
        yield f"dead letters {dead_letters}"


def _broken_of_error(env: Environment, name: str, auth_error_id: UUID) -> Iterator[str]:
    whole = env.details(auth_error_id)
    moves = [(one.from_status, one.to_status) for one in whole.transitions]
    allowed = all(ERROR_MACHINE.allows(*move) for move in moves)
    if not allowed or [move[0] for move in moves[1:]] != [move[1] for move in moves[:-1]]:
        yield f"{auth_error_id} has the transitions {moves}"
    events = [(one.status, one.processed_status, one.handled_at is not None) for one in whole.events]
    if SCENARIOS[name].dead:
        if events != [("PUBLISHED", "DEAD", True)]:
            yield f"{auth_error_id} has {events}"
        return
    if whole.error.status != "ANALYSIS_COMPLETED":
        yield f"{auth_error_id} is {whole.error.status}"
    if events != [("PUBLISHED", "DONE", True)] * 2:
        yield f"{auth_error_id} has {events}"
    for status in ("NEW", "ANALYSIS_REQUESTED", "ANALYSIS_COMPLETED"):
        if sum(target == status for _, target in moves) != 1:
            yield f"{auth_error_id} did not reach {status} once: {moves}"
    if len(whole.clusters) != 1:
        yield f"{auth_error_id} is in {whole.clusters}"


def _ids(env: Environment) -> list[UUID]:
    return [row[0] for row in env.rows("SELECT auth_error_id FROM auth_error ORDER BY sequence")]


@pytest.fixture(scope="module")
def env(shared_env: Environment) -> Environment:
    """One database for all tests, emptied before each."""
    return shared_env


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_crash_points_include_every_port(env: Environment, name: str) -> None:
    """Incomplete crash points would pass, too."""
    arrange(env, name)
    points = Points(name)
    run(env, name, points)
    found = {(point.port, point.call) for point in points.met}
    expected = {
        "record": {("postgres", "record"), ("postgres", "enqueue"), ("sqs", "send_message")},
        "publish": {
            ("postgres", "claim"),
            ("postgres", "take_over"),
            ("postgres", "send_again"),
            ("postgres", "mark_published"),
            ("sqs", "send_message_batch"),
        },
        "consume-recorded": {
            ("postgres", "take_lease"),
            ("postgres", "request_analysis"),
            ("postgres", "enqueue"),
            ("postgres", "finish"),
            ("sqs", "send_message"),
        },
        "consume-analysis": {("postgres", "join_cluster"), ("postgres", "complete_analysis")},
        "consume-failing": {
            ("postgres", "wait"),
            ("postgres", "note_failure"),
            ("sqs", "change_message_visibility"),
        },
        "consume-worn-out": {
            ("postgres", "mark_dead"),
            ("postgres", "mark_dead_lettered"),
            ("sqs", "send_message"),
        },
    }
    assert expected[name] <= found


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("name", list(SCENARIOS))
@pytest.mark.timeout(300)
def test_crash_at_any_call_loses_and_repeats_nothing(env: Environment, name: str, kind: Kind) -> None:
    """AUTH-2, AUTH-4, AUTH-5: at each call of the scenario, one after the other."""
    arrange(env, name)
    recording = Points(name)
    run(env, name, recording)
    for point in recording.met:
        if kind not in point.kinds:
            continue
        arrange(env, name)
        points = Points(name, at=point.number, kind=kind)
        run(env, name, points)
        assert points.met[point.number - 1] == point
        recover(env, name)
        assert list(broken(env, name)) == [], f"{point.id}, {kind}"


def test_marking_events_handled_when_sent_is_detected(env: Environment) -> None:
    """The invariants must detect a lost message that is not sent again."""
    arrange(env, "consume-recorded")
    env.rows("UPDATE outbox_message SET handled_at = now()")
    env.sqs.queues.clear()
    recover(env, "consume-recorded")
    assert any("is NEW" in one for one in broken(env, "consume-recorded"))


def test_marking_a_dead_letter_before_sending_it_is_detected(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reverse order, with a crash in between."""

    def marked_first(queue: Queue, _message: object) -> None:
        if queue.url == DEAD_LETTERS:
            env.rows("UPDATE processed_message SET dead_lettered_at = updated_at WHERE status = 'DEAD'")
            env.rows("UPDATE outbox_message SET handled_at = now()")
            raise Killed

    arrange(env, "consume-worn-out")
    with monkeypatch.context() as patch:
        patch.setattr(Queue, "send_with_headers", marked_first)
        run(env, "consume-worn-out", Points("consume-worn-out"))
    recover(env, "consume-worn-out")
    assert any("dead letters" in one for one in broken(env, "consume-worn-out"))


def test_emptied_database_is_empty(env: Environment) -> None:
    """Otherwise, rows of one crash would affect the next."""
    env.rows(_EMPTY)
    with psycopg.connect(env.url) as connection:
        assert connection.execute("SELECT count(*) FROM auth_error").fetchone() == (0,)
