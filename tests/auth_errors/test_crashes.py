"""Every call that recording, publishing and consuming make to Postgres and SQS, gone wrong in every way.

The points are recorded from the code as it runs, so that a new call is crashed without being listed. After each crash
time passes and healthy processes run; then every promise is kept: each error that was taken in is analysed once, its
events are handled once each, it is in one cluster and counted once there, and what died has its letter.
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

WAYS = {(way.source, way.target) for way in ERROR_MACHINE.transitions}
_EMPTY = """
SET session_replication_role = replica;
DELETE FROM auth_error_decision; DELETE FROM auth_error_cluster_item; DELETE FROM auth_error_cluster;
DELETE FROM processed_message; DELETE FROM outbox_message; DELETE FROM auth_error_transition; DELETE FROM auth_error
"""


class _Fault(Exception):
    """A handler's own."""


@dataclass(slots=True)
class Process:
    """One process whose calls are counted."""

    env: Environment
    database: CountedDatabase
    points: Points

    def queue(self, url: str) -> Queue:
        """A queue, counted."""
        return counted_queue(url, self.env.sqs, self.points)

    def work(self, handlers: dict[EventType, Callable[..., HandlerResult]]) -> None:
        """Handle what the queue shows as the function does; Lambda deletes what the function is done with."""
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


REQUEST_ID = "the-one-that-is-posted"


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
        raise _Fault

    process.work(dict.fromkeys(EventType, fails))


def _nothing(_desk: Environment) -> None:
    """As it was arranged."""


def _left_by_the_dead(env: Environment) -> None:
    """One event that an owner died with, one that a queue lost, and one that is due."""
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


def _worn_out(env: Environment) -> None:
    """Each of its consumers died; the next one buries it."""
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
class Act:
    """What a process does, and what is there before; `dead`: its events end as dead letters."""

    does: Callable[[Process], None]
    before: Callable[[Environment], None] = _nothing
    dead: bool = False


ACTS = {
    "record": Act(_record),
    "publish": Act(_publish, _left_by_the_dead),
    "consume-recorded": Act(_consume, _published),
    "consume-analysis": Act(_consume, _to_be_analyzed),
    "consume-failing": Act(_fail, _published),
    "consume-worn-out": Act(_consume, _worn_out, dead=True),
}


def arrange(env: Environment, act: str) -> None:
    """Two errors of one failure and one of another, brought to where the act begins."""
    env.rows(_EMPTY)
    env.sqs.queues.clear()
    for trace in (None, None, OTHER_TRACE):
        env.post(**({"stacktrace": trace} if trace else {}))
    ACTS[act].before(env)


def play(env: Environment, act: str, points: Points) -> None:
    """Let the process act until it is done, fails or is killed."""
    database = CountedDatabase(env.url, points)
    try:
        with suppress(Killed, DependencyUnavailable):
            ACTS[act].does(Process(env, database, points))
    finally:
        database.close()
    points.land()


def come_to_rest(env: Environment, act: str) -> None:
    """A client that heard nothing repeats its post; time passes, and healthy processes run."""
    if act == "record":
        env.record(request_id=REQUEST_ID)
    for _ in range(4):
        env.pass_time(1_000)
        env.publish()
        env.deliver()


def broken(env: Environment, act: str) -> Iterator[str]:
    """Every promise that does not hold."""
    ids = _ids(env)
    for auth_error_id in ids:
        yield from _of_error(env, act, auth_error_id)
    clusters = env.rows(
        "SELECT c.error_count, count(i.auth_error_id) FROM auth_error_cluster c"
        " LEFT JOIN auth_error_cluster_item i USING (cluster_id) GROUP BY c.cluster_id"
    )
    if any(counted != found for counted, found in clusters):
        yield f"clusters {clusters}"
    if not ACTS[act].dead and sum(counted for counted, _ in clusters) != len(ids):
        yield f"{len(ids)} errors in clusters {clusters}"
    if env.sqs.of(EVENTS):
        yield f"{len(env.sqs.of(EVENTS))} messages are left"
    letters = reasons(env.dead_letters())
    if ACTS[act].dead != bool(letters) or (letters and len(letters) < len(ids)):
        yield f"letters {letters}"


def _of_error(env: Environment, act: str, auth_error_id: UUID) -> Iterator[str]:
    whole = env.details(auth_error_id)
    ways = [(one.from_status, one.to_status) for one in whole.transitions]
    if not set(ways) <= WAYS or [way[0] for way in ways[1:]] != [way[1] for way in ways[:-1]]:
        yield f"{auth_error_id} went {ways}"
    events = [(one.status, one.processed_status, one.handled_at is not None) for one in whole.events]
    if ACTS[act].dead:
        if events != [("PUBLISHED", "DEAD", True)]:
            yield f"{auth_error_id} has {events}"
        return
    if whole.error.status != "ANALYSIS_COMPLETED":
        yield f"{auth_error_id} is {whole.error.status}"
    if events != [("PUBLISHED", "DONE", True)] * 2:
        yield f"{auth_error_id} has {events}"
    for status in ("NEW", "ANALYSIS_REQUESTED", "ANALYSIS_COMPLETED"):
        if sum(target == status for _, target in ways) != 1:
            yield f"{auth_error_id} came to {status} in {ways}"
    if len(whole.clusters) != 1:
        yield f"{auth_error_id} is in {whole.clusters}"


def _ids(env: Environment) -> list[UUID]:
    return [row[0] for row in env.rows("SELECT auth_error_id FROM auth_error ORDER BY sequence")]


@pytest.fixture(scope="module")
def env(shared_env: Environment) -> Environment:
    """One database for all: it is emptied each time."""
    return shared_env


@pytest.mark.parametrize("act", list(ACTS))
def test_every_port_is_among_the_points(env: Environment, act: str) -> None:
    """A recording with a hole in it would be green, too."""
    arrange(env, act)
    points = Points(act)
    play(env, act, points)
    met = {(point.port, point.call) for point in points.met}
    wanted = {
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
    assert wanted[act] <= met


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("act", list(ACTS))
@pytest.mark.timeout(300)
def test_a_crash_at_any_call_loses_nothing_and_does_nothing_twice(
    env: Environment, act: str, kind: Kind
) -> None:
    """AUTH-2, AUTH-4, AUTH-5: all calls of this path, one after the other."""
    arrange(env, act)
    recording = Points(act)
    play(env, act, recording)
    for point in recording.met:
        if kind not in point.kinds:
            continue
        arrange(env, act)
        points = Points(act, at=point.number, kind=kind)
        play(env, act, points)
        assert points.met[point.number - 1] == point
        come_to_rest(env, act)
        assert list(broken(env, act)) == [], f"{point.id}, {kind}"


def test_an_event_that_is_called_handled_when_it_is_sent_would_be_seen(env: Environment) -> None:
    """A check that can't fail is none: a message is lost, and nobody sends it again."""
    arrange(env, "consume-recorded")
    env.rows("UPDATE outbox_message SET handled_at = now()")
    env.sqs.queues.clear()
    come_to_rest(env, "consume-recorded")
    assert any("is NEW" in one for one in broken(env, "consume-recorded"))


def test_a_letter_that_is_noted_before_it_is_sent_would_be_seen(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other order of the two, and a process that dies in between."""

    def noted_first(queue: Queue, _message: object) -> None:
        if queue.url == DEAD_LETTERS:
            env.rows("UPDATE processed_message SET dead_lettered_at = updated_at WHERE status = 'DEAD'")
            env.rows("UPDATE outbox_message SET handled_at = now()")
            raise Killed

    arrange(env, "consume-worn-out")
    with monkeypatch.context() as patch:
        patch.setattr(Queue, "send_with_headers", noted_first)
        play(env, "consume-worn-out", Points("consume-worn-out"))
    come_to_rest(env, "consume-worn-out")
    assert any("letters" in one for one in broken(env, "consume-worn-out"))


def test_the_emptied_database_is_empty(env: Environment) -> None:
    """Else a crash would be judged by what another left."""
    env.rows(_EMPTY)
    with psycopg.connect(env.url) as connection:
        assert connection.execute("SELECT count(*) FROM auth_error").fetchone() == (0,)
