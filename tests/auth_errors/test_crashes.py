"""Every call that recording, publishing and consuming make to Postgres and SQS, failed in every way.

After each crash each recorded error is analysed once, each of its events is handled once, it is in one cluster and
counted once there, and each event that failed for good has a dead letter.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID, uuid4

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
from dpp.platform.db.postgres import Database
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
from tests.support.crash_matrix import CrashSuite
from tests.support.crash_points import FaultInjector, Killed
from tests.support.crashable import crashable_database, crashable_queue
from tests.support.memory_sqs import Message as SentMessage
from tests.support.saved_tables import SavedTables

WAYS = {(way.source, way.target) for way in ERROR_MACHINE.transitions}
_TABLES = (
    *("auth_error", "auth_error_transition", "auth_error_decision", "auth_error_cluster"),
    *("auth_error_cluster_item", "outbox_message", "processed_message"),
)
REQUEST_ID = "the-one-that-is-posted"


class _HandlerFailed(Exception):
    """Raised by a handler."""


@dataclass(slots=True)
class Process:
    """One process, each of its calls through the injector."""

    env: Environment
    database: Database
    injector: FaultInjector

    def queue(self, url: str) -> Queue:
        """A queue, as this process sees it."""
        return crashable_queue(url, self.env.sqs, self.injector)

    def consume(self, handlers: Mapping[EventType, Callable[..., HandlerResult]]) -> None:
        """Handle visible messages as the function does; Lambda deletes those that the function has finished."""
        env = self.env
        effects = ConsumeEffects(
            self.database, self.queue(DEAD_LETTERS), Waker(self.queue(WAKE)), env.policy, dict(handlers)
        )
        events = env.queue(EVENTS)
        for one in events.receive(at_most=10, invisible_seconds=VISIBILITY_SECONDS):
            consumed = consume(EventMessage(one.body, one.attributes), effects, env.now)
            if consumed.return_in_seconds is None:
                events.delete(one.receipt_handle)
            else:
                self.queue(EVENTS).extend_visibility(one.receipt_handle, consumed.return_in_seconds)


def _record(process: Process) -> None:
    env = process.env
    waker = Waker(process.queue(WAKE))
    record(env.report(request_id=REQUEST_ID), TENANT, process.database, waker, env.now)


def _publish(process: Process) -> None:
    env = process.env
    publish(PublishEffects(process.database, process.queue(EVENTS), env.policy), env.now)


def _consume(process: Process) -> None:
    process.consume(HANDLERS)


def _fail(process: Process) -> None:
    def fails(*_: object) -> HandlerResult:
        raise _HandlerFailed

    process.consume(dict.fromkeys(EventType, fails))


def _nothing(_env: Environment) -> None:
    """Nothing beside the three errors."""


def _left_by_dead_publishers(env: Environment) -> None:
    """One event that its owner died with, one that the queue lost, and one that is due."""
    with env.database.connection() as connection:
        first = tables.claim(connection, uuid4(), 10, env.now)[0].outbox_id
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


def _out_of_attempts(env: Environment) -> None:
    """Each of its consumers died; the next one makes it a dead letter."""
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
    """The actions of a process, and the calls that it must make. `dead`: its events end as dead letters."""

    perform: Callable[[Process], None]
    calls: frozenset[str]
    before: Callable[[Environment], None] = _nothing
    dead: bool = False


ACTS = {
    "record": Act(_record, frozenset({"postgres.record", "postgres.enqueue", "sqs.send_message"})),
    "publish": Act(
        _publish,
        frozenset(
            {"postgres.claim", "postgres.take_over", "postgres.send_again", "postgres.mark_published"}
            | {"sqs.send_message_batch"}
        ),
        _left_by_dead_publishers,
    ),
    "consume-recorded": Act(
        _consume,
        frozenset(
            {"postgres.take_lease", "postgres.request_analysis", "postgres.enqueue", "postgres.finish"}
            | {"sqs.send_message"}
        ),
        _published,
    ),
    "consume-analysis": Act(
        _consume, frozenset({"postgres.join_cluster", "postgres.complete_analysis"}), _to_be_analyzed
    ),
    "consume-failing": Act(
        _fail, frozenset({"postgres.wait", "postgres.note_failure", "sqs.change_message_visibility"}), _published
    ),
    "consume-out-of-attempts": Act(
        _consume,
        frozenset({"postgres.mark_dead", "postgres.mark_dead_lettered", "sqs.send_message"}),
        _out_of_attempts,
        dead=True,
    ),
}


class AuthErrorCrashes(CrashSuite):
    """Three errors are recorded, two of them from one failure."""

    def __init__(self, env: Environment) -> None:
        super().__init__(SavedTables(env.admin, _TABLES))
        self.env = env

    def set_up(self, act: str) -> None:
        """Bring the errors to where the act begins."""
        for trace in (None, None, OTHER_TRACE):
            self.env.post(**({"stacktrace": trace} if trace else {}))
        ACTS[act].before(self.env)

    def state(self) -> tuple[float, dict[str, list[SentMessage]]]:
        """Clock and queues."""
        return self.env.clock.seconds, self.env.sqs.saved()

    def restore(self, state: tuple[float, dict[str, list[SentMessage]]] | None) -> None:
        """Clock and queues."""
        self.env.clock.seconds, messages = state or (0.0, {})
        self.env.sqs.restore(messages)

    def perform(self, act: str, injector: FaultInjector) -> None:
        with crashable_database(self.env.url, injector) as database:
            ACTS[act].perform(Process(self.env, database, injector))

    def recover(self, act: str) -> None:
        """A client without an answer repeats its post; time passes, and healthy processes run."""
        if act == "record":
            self.env.record(request_id=REQUEST_ID)
        for _ in range(4):
            self.env.pass_time(1_000)
            self.env.publish()
            self.env.deliver()

    def violations(self, act: str) -> Iterator[str]:
        """All errors, their clusters, and the queues."""
        env, ids, dead = self.env, _ids(self.env), ACTS[act].dead
        for auth_error_id in ids:
            yield from _of_error(env, auth_error_id, dead=dead)
        clusters = env.rows(
            "SELECT c.error_count, count(i.auth_error_id) FROM auth_error_cluster c"
            " LEFT JOIN auth_error_cluster_item i USING (cluster_id) GROUP BY c.cluster_id"
        )
        if any(counted != found for counted, found in clusters):
            yield f"clusters {clusters}"
        if not dead and sum(counted for counted, _ in clusters) != len(ids):
            yield f"{len(ids)} errors in clusters {clusters}"
        if left := env.sqs.of(EVENTS):
            yield f"{len(left)} messages are left"
        dead_letters = reasons(env.dead_letters())
        if dead != bool(dead_letters) or (dead_letters and len(dead_letters) < len(ids)):
            yield f"dead letters {dead_letters}"


def _of_error(env: Environment, auth_error_id: UUID, *, dead: bool) -> Iterator[str]:
    found = env.details(auth_error_id)
    ways = [(one.from_status, one.to_status) for one in found.transitions]
    if not set(ways) <= WAYS or [way[0] for way in ways[1:]] != [way[1] for way in ways[:-1]]:
        yield f"{auth_error_id} went {ways}"
    events = [(one.status, one.processed_status, one.handled_at is not None) for one in found.events]
    if dead:
        if events != [("PUBLISHED", "DEAD", True)]:
            yield f"{auth_error_id} has {events}"
        return
    if found.error.status != "ANALYSIS_COMPLETED":
        yield f"{auth_error_id} is {found.error.status}"
    if events != [("PUBLISHED", "DONE", True)] * 2:
        yield f"{auth_error_id} has {events}"
    for status in ("NEW", "ANALYSIS_REQUESTED", "ANALYSIS_COMPLETED"):
        if sum(target == status for _, target in ways) != 1:
            yield f"{auth_error_id} came to {status} in {ways}"
    if len(found.clusters) != 1:
        yield f"{auth_error_id} is in {found.clusters}"


def _ids(env: Environment) -> list[UUID]:
    return [row[0] for row in env.rows("SELECT auth_error_id FROM auth_error ORDER BY sequence")]


@pytest.fixture(scope="module")
def crashes(shared_env: Environment) -> AuthErrorCrashes:
    """One for the whole module."""
    return AuthErrorCrashes(shared_env)


@pytest.mark.parametrize("act", list(ACTS))
def test_every_port_is_among_the_points(crashes: AuthErrorCrashes, act: str) -> None:
    """A recording that misses calls would pass, too."""
    assert ACTS[act].calls <= crashes.calls_of_clean_run(act)


@pytest.mark.parametrize("act", list(ACTS))
def test_a_crash_at_any_call_loses_nothing_and_does_nothing_twice(crashes: AuthErrorCrashes, act: str) -> None:
    """AUTH-2, AUTH-4, AUTH-5: all calls of this act, one after the other."""
    assert list(crashes.crash_everywhere(act)) == []


def test_an_event_marked_handled_when_it_is_sent_is_found(crashes: AuthErrorCrashes) -> None:
    """A planted fault: a message is lost and never sent again."""
    crashes.arrange("consume-recorded")
    crashes.env.rows("UPDATE outbox_message SET handled_at = now()")
    crashes.env.sqs.clear()
    crashes.recover("consume-recorded")
    assert any("is NEW" in one for one in crashes.violations("consume-recorded"))


def test_a_dead_letter_noted_before_it_is_sent_is_found(
    crashes: AuthErrorCrashes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault: the two are done in the other order, and the process dies in between."""
    act = "consume-out-of-attempts"

    def noted_first(queue: Queue, _message: object) -> None:
        if queue.url == DEAD_LETTERS:
            crashes.env.rows("UPDATE processed_message SET dead_lettered_at = updated_at WHERE status = 'DEAD'")
            crashes.env.rows("UPDATE outbox_message SET handled_at = now()")
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Queue, "send_with_headers", noted_first)
        crashes.play(act, FaultInjector(act))
    crashes.recover(act)
    assert any("dead letters" in one for one in crashes.violations(act))
