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
from dpp.auth_errors.machine import TRANSITIONS
from dpp.auth_errors.outbox import tables
from dpp.auth_errors.outbox.consume import LEASE_SECONDS, ConsumeEffects, consume
from dpp.auth_errors.outbox.events import EventType
from dpp.auth_errors.outbox.handlers import HANDLERS, Handled
from dpp.auth_errors.outbox.message import Message
from dpp.auth_errors.outbox.publish import SILENT_SECONDS, PublishEffects, Waker, publish
from dpp.platform.aws.queue import Queue
from dpp.platform.errors import DependencyUnavailable
from tests.auth_errors.conftest import (
    DEAD_LETTERS,
    EVENTS,
    OTHER_TRACE,
    TENANT,
    VISIBILITY_SECONDS,
    WAKE,
    Desk,
    reasons,
)
from tests.crash.drivers import CountedDatabase, counted_queue
from tests.crash.points import Killed, Kind, Points

WAYS = {(way.source, way.target) for way in TRANSITIONS}
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

    desk: Desk
    database: CountedDatabase
    points: Points

    def queue(self, url: str) -> Queue:
        """A queue, counted."""
        return counted_queue(url, self.desk.sqs, self.points)

    def work(self, handlers: dict[EventType, Callable[..., Handled]]) -> None:
        """Handle what the queue shows as the function does; Lambda deletes what the function is done with."""
        desk = self.desk
        effects = ConsumeEffects(
            self.database, self.queue(DEAD_LETTERS), Waker(self.queue(WAKE)), desk.policy, handlers
        )
        events = desk.queue(EVENTS)
        for one in events.receive(at_most=10, invisible_seconds=VISIBILITY_SECONDS):
            consumed = consume(Message(one.body, one.attributes), effects, desk.now)
            if consumed.return_in_seconds is None:
                events.delete(one.receipt_handle)
            else:
                self.queue(EVENTS).extend_visibility(one.receipt_handle, consumed.return_in_seconds)


REQUEST_ID = "the-one-that-is-posted"


def _record(process: Process) -> None:
    desk = process.desk
    waker = Waker(process.queue(WAKE))
    record(desk.report(request_id=REQUEST_ID), TENANT, process.database, waker, desk.now)


def _publish(process: Process) -> None:
    desk = process.desk
    publish(PublishEffects(process.database, process.queue(EVENTS), desk.policy), desk.now)


def _consume(process: Process) -> None:
    process.work(dict(HANDLERS))


def _fail(process: Process) -> None:
    def fails(*_: object) -> Handled:
        raise _Fault

    process.work(dict.fromkeys(EventType, fails))


def _nothing(_desk: Desk) -> None:
    """As it was arranged."""


def _left_by_the_dead(desk: Desk) -> None:
    """One event that an owner died with, one that a queue lost, and one that is due."""
    with desk.database.connection() as connection:
        claimed = tables.claim(connection, uuid4(), 10, desk.now)
        first = claimed[0].outbox_id
        desk.pass_time(1_000)
    desk.rows(
        "UPDATE outbox_message SET status = 'PUBLISHED', processing_owner = NULL, processing_since = NULL,"
        f" published_at = '{desk.now}', last_sent_at = '-infinity' WHERE outbox_id = {first}"
    )
    desk.pass_time(SILENT_SECONDS)
    desk.post()


def _published(desk: Desk) -> None:
    desk.publish()


def _to_be_analyzed(desk: Desk) -> None:
    desk.publish()
    desk.deliver()
    desk.publish()


def _worn_out(desk: Desk) -> None:
    """Each of its consumers died; the next one buries it."""
    desk.publish()
    for auth_error_id in _ids(desk):
        message = desk.message(auth_error_id)
        named = tables.Named(int(message.headers["outboxId"]), EventType.RECORDED, auth_error_id)
        for _ in range(desk.policy.max_retries + 1):
            with desk.database.connection() as connection:
                tables.ensure_row_exists(connection, named, desk.now)
                tables.take_lease(
                    connection,
                    named,
                    uuid4(),
                    lease_seconds=LEASE_SECONDS,
                    max_retries=desk.policy.max_retries,
                    now=desk.now,
                )
            desk.pass_time(LEASE_SECONDS)


@dataclass(frozen=True, slots=True)
class Act:
    """What a process does, and what is there before; `dead`: its events end as dead letters."""

    does: Callable[[Process], None]
    before: Callable[[Desk], None] = _nothing
    dead: bool = False


ACTS = {
    "record": Act(_record),
    "publish": Act(_publish, _left_by_the_dead),
    "consume-recorded": Act(_consume, _published),
    "consume-analysis": Act(_consume, _to_be_analyzed),
    "consume-failing": Act(_fail, _published),
    "consume-worn-out": Act(_consume, _worn_out, dead=True),
}


def arrange(desk: Desk, act: str) -> None:
    """Two errors of one failure and one of another, brought to where the act begins."""
    desk.rows(_EMPTY)
    desk.sqs.queues.clear()
    for trace in (None, None, OTHER_TRACE):
        desk.post(**({"stacktrace": trace} if trace else {}))
    ACTS[act].before(desk)


def play(desk: Desk, act: str, points: Points) -> None:
    """Let the process act until it is done, fails or is killed."""
    database = CountedDatabase(desk.url, points)
    try:
        with suppress(Killed, DependencyUnavailable):
            ACTS[act].does(Process(desk, database, points))
    finally:
        database.close()
    points.land()


def come_to_rest(desk: Desk, act: str) -> None:
    """A client that heard nothing repeats its post; time passes, and healthy processes run."""
    if act == "record":
        desk.record(request_id=REQUEST_ID)
    for _ in range(4):
        desk.pass_time(1_000)
        desk.publish()
        desk.deliver()


def broken(desk: Desk, act: str) -> Iterator[str]:
    """Every promise that does not hold."""
    ids = _ids(desk)
    for auth_error_id in ids:
        yield from _of_error(desk, act, auth_error_id)
    clusters = desk.rows(
        "SELECT c.error_count, count(i.auth_error_id) FROM auth_error_cluster c"
        " LEFT JOIN auth_error_cluster_item i USING (cluster_id) GROUP BY c.cluster_id"
    )
    if any(counted != found for counted, found in clusters):
        yield f"clusters {clusters}"
    if not ACTS[act].dead and sum(counted for counted, _ in clusters) != len(ids):
        yield f"{len(ids)} errors in clusters {clusters}"
    if desk.sqs.of(EVENTS):
        yield f"{len(desk.sqs.of(EVENTS))} messages are left"
    letters = reasons(desk.dead_letters())
    if ACTS[act].dead != bool(letters) or (letters and len(letters) < len(ids)):
        yield f"letters {letters}"


def _of_error(desk: Desk, act: str, auth_error_id: UUID) -> Iterator[str]:
    whole = desk.whole(auth_error_id)
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


def _ids(desk: Desk) -> list[UUID]:
    return [row[0] for row in desk.rows("SELECT auth_error_id FROM auth_error ORDER BY sequence")]


@pytest.fixture(scope="module")
def desk(shared_desk: Desk) -> Desk:
    """One database for all: it is emptied each time."""
    return shared_desk


@pytest.mark.parametrize("act", list(ACTS))
def test_every_port_is_among_the_points(desk: Desk, act: str) -> None:
    """A recording with a hole in it would be green, too."""
    arrange(desk, act)
    points = Points(act)
    play(desk, act, points)
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
            ("postgres", "bury"),
            ("postgres", "mark_dead_lettered"),
            ("sqs", "send_message"),
        },
    }
    assert wanted[act] <= met


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("act", list(ACTS))
@pytest.mark.timeout(300)
def test_a_crash_at_any_call_loses_nothing_and_does_nothing_twice(desk: Desk, act: str, kind: Kind) -> None:
    """AUTH-2, AUTH-4, AUTH-5: all calls of this path, one after the other."""
    arrange(desk, act)
    recording = Points(act)
    play(desk, act, recording)
    for point in recording.met:
        if kind not in point.kinds:
            continue
        arrange(desk, act)
        points = Points(act, at=point.number, kind=kind)
        play(desk, act, points)
        assert points.met[point.number - 1] == point
        come_to_rest(desk, act)
        assert list(broken(desk, act)) == [], f"{point.id}, {kind}"


def test_an_event_that_is_called_handled_when_it_is_sent_would_be_seen(desk: Desk) -> None:
    """A check that can't fail is none: a message is lost, and nobody sends it again."""
    arrange(desk, "consume-recorded")
    desk.rows("UPDATE outbox_message SET handled_at = now()")
    desk.sqs.queues.clear()
    come_to_rest(desk, "consume-recorded")
    assert any("is NEW" in one for one in broken(desk, "consume-recorded"))


def test_a_letter_that_is_noted_before_it_is_sent_would_be_seen(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other order of the two, and a process that dies in between."""

    def noted_first(queue: Queue, _message: object) -> None:
        if queue.url == DEAD_LETTERS:
            desk.rows("UPDATE processed_message SET dead_lettered_at = updated_at WHERE status = 'DEAD'")
            desk.rows("UPDATE outbox_message SET handled_at = now()")
            raise Killed

    arrange(desk, "consume-worn-out")
    with monkeypatch.context() as patch:
        patch.setattr(Queue, "send_with_headers", noted_first)
        play(desk, "consume-worn-out", Points("consume-worn-out"))
    come_to_rest(desk, "consume-worn-out")
    assert any("letters" in one for one in broken(desk, "consume-worn-out"))


def test_the_emptied_database_is_empty(desk: Desk) -> None:
    """Else a crash would be judged by what another left."""
    desk.rows(_EMPTY)
    with psycopg.connect(desk.url) as connection:
        assert connection.execute("SELECT count(*) FROM auth_error").fetchone() == (0,)
