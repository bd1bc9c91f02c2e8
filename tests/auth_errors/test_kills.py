"""Publishers and consumers are killed by SIGKILL while errors come in (AUTH-4, AUTH-5): each is handled once.

Real processes on real Postgres, with the real SQS client on a queue that delivers. Each handler leaves a line in a
table that keeps nobody from writing it twice, in the transaction of its effects, so that what the states of an error
would hide is counted, too. Two planted faults have to be seen by the same checks.

What takes a minute in production takes two seconds here (SILENT_SECONDS, LEASE_SECONDS, set in the processes that are
killed); time itself is Postgres's own. Nothing is sent again for being silent (RESEND_SECONDS): this queue loses no
message, so whatever would need that was lost by us, and is seen as an event that gets nowhere.
"""

import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from multiprocessing.context import ForkServerProcess
from typing import TYPE_CHECKING

import psycopg
import pytest

from dpp.auth_errors import store
from dpp.auth_errors.api.record import record
from dpp.auth_errors.errors import LeaseLost
from dpp.auth_errors.model import AuthError, AuthErrorReport
from dpp.auth_errors.outbox import consume, tables
from dpp.auth_errors.outbox.consume import Consumed, ConsumeEffects, ConsumeOutcome
from dpp.auth_errors.outbox.handlers import Handler, HandlerResult
from dpp.auth_errors.outbox.publish import Waker
from dpp.money.credits import create_tenant
from dpp.platform.db.postgres import Connection, Database
from tests.auth_errors.subprocess_workers import (
    EffectsOf,
    Patience,
    Servers,
    consume_effects,
    consumer,
    publisher,
)
from tests.support.crash_points import WHOLE
from tests.support.sqs_server import sqs_server

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

TENANT, FAILURES = "t_kills", 25
PATIENCE = Patience(silent_seconds=2, lease_seconds=2, resend_seconds=3_600)
# Processes are forked from one that has imported everything: a new one is at work within a tenth of a second.
SPAWNING = multiprocessing.get_context("forkserver")
SPAWNING.set_forkserver_preload(["pytest", __name__])


def counting(place: Servers, client: "SQSClient") -> ConsumeEffects:
    """Effects whose handlers leave a line each, in the transaction that they are given."""

    def counted(handler: Handler) -> Handler:
        def handle(connection: Connection, error: AuthError, now: datetime | None) -> HandlerResult:
            handled = handler(connection, error, now)
            connection.execute("INSERT INTO effects VALUES (%s, %s)", (error.auth_error_id, handler.__name__))
            return handled

        return handle

    effects = consume_effects(place, client)
    return replace(effects, handlers={kind: counted(one) for kind, one in effects.handlers.items()})


def effects_apart(done_first: bool, place: Servers, client: "SQSClient") -> ConsumeEffects:
    """A planted fault: DONE is in another transaction than what the event changes, before it or after it."""

    def handle(delivery: consume._Delivery) -> Consumed:
        first, second = (finish, change) if done_first else (change, finish)
        with delivery.effects.database.connection() as connection:
            with connection.transaction():
                first(connection, delivery)
            if (
                random.random() < 0.05
            ):  # so that some deaths are here, however the machine shares its time out
                os.kill(os.getpid(), signal.SIGKILL)
            with connection.transaction():
                second(connection, delivery)
        delivery.effects.waker.wake()
        return Consumed(ConsumeOutcome.HANDLED, delivery.named.event_type)

    def change(connection: Connection, delivery: consume._Delivery) -> None:
        error = store.lock(connection, delivery.named.auth_error_id)
        assert error is not None
        delivery.effects.handlers[delivery.named.event_type](connection, error, delivery.now)

    def finish(connection: Connection, delivery: consume._Delivery) -> None:
        if tables.finish(connection, delivery.named.outbox_id, delivery.owner) is None:
            raise LeaseLost

    vars(consume)["_handle"] = handle
    return counting(place, client)


@dataclass(slots=True)
class Crew:
    """Two publishers and two consumers; whoever is killed is followed by another at once."""

    place: Servers
    effects_of: EffectsOf
    chance: random.Random
    at_work: dict[tuple[str, int], ForkServerProcess] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)

    def start(self, kind: str, number: int) -> None:
        """One process."""
        target = publisher if kind == "publisher" else partial(consumer, effects_of=self.effects_of)
        process = SPAWNING.Process(target=target, args=(self.place,), daemon=True)
        process.start()
        self.at_work[kind, number] = process

    def tend(self) -> None:
        """Have whoever killed itself followed by another."""
        for kind, number in [at for at, process in self.at_work.items() if not process.is_alive()]:
            self.end(kind, number)
            self.start(kind, number)

    def kill(self, kind: str) -> None:
        """One of a kind, whatever it is doing."""
        number = self.chance.randrange(2)
        self.end(kind, number)
        self.kills[kind] += 1
        self.start(kind, number)

    def end(self, kind: str, number: int) -> None:
        """By SIGKILL, and by nothing else: none may have ended by itself."""
        process = self.at_work.pop((kind, number))
        process.kill()
        process.join(10)
        assert process.exitcode == -signal.SIGKILL
        process.close()


@contextmanager
def crew_at_work(place: Servers, effects_of: EffectsOf) -> Iterator[Crew]:
    """All four, ended at the end."""
    crew = Crew(place, effects_of, random.Random(4))
    try:
        for kind in ("publisher", "consumer"):
            for number in range(2):
                crew.start(kind, number)
        yield crew
    finally:
        for kind, number in list(crew.at_work):
            crew.end(kind, number)


def _post(place: Servers, numbers: range, each_seconds: float, posted: list[int]) -> None:
    """As a service reports, one error after another at its pace."""
    waker = Waker(place.queue("wakes"))
    with closing(Database(place.database_url)) as database:
        for number in numbers:
            failure = number % FAILURES
            report = AuthErrorReport(
                request_id=f"r-{number}",
                occurred_at=datetime.now(UTC),
                http_status=401,
                exception_class=f"com.example.auth.Refused{failure}",
                stacktrace=f"com.example.auth.Refused{failure}\n\tat com.example.Auth.check(Auth.java:{failure})",
            )
            assert record(report, TENANT, database, waker).created
            posted.append(number)
            time.sleep(each_seconds)


@dataclass(frozen=True, slots=True)
class Run:
    """So many errors at the most in so many seconds, and so many publishers and so many consumers killed meanwhile."""

    errors: int
    posting_seconds: float
    kills_each: int


def _run(run: Run, place: Servers, effects_of: EffectsOf) -> Mapping[str, int]:
    """Until all has come to rest; how many were killed. The kills are spread over the posts, not over time."""
    share, posted = run.errors // 4, list[int]()
    parts = [range(start, start + share) for start in range(0, run.errors, share)]
    with (
        psycopg.connect(place.database_url, autocommit=True) as connection,
        ThreadPoolExecutor(4) as posters,
        crew_at_work(place, effects_of) as crew,
    ):
        create_tenant(connection, TENANT, "Kills", 1)
        connection.execute("CREATE TABLE effects (auth_error_id uuid, handler text)")
        pace = run.posting_seconds / share
        posts = [posters.submit(_post, place, part, pace, posted) for part in parts]
        while (killed := crew.kills.total()) < 2 * run.kills_each:
            crew.tend()
            if len(posted) >= run.errors * (killed + 1) / (2 * run.kills_each + 1) or all(
                post.done() for post in posts
            ):
                time.sleep(crew.chance.uniform(0, 0.2))
                crew.kill(("publisher", "consumer")[killed % 2])
            time.sleep(0.02)
        for post in posts:
            post.result()
        _come_to_rest(place, connection, crew)
        return crew.kills


def _come_to_rest(place: Servers, connection: psycopg.Connection[tuple[int]], crew: Crew) -> None:
    """Every event is handled, and no message is left that could be handled once more; it may not stand still."""
    client, url, seen = place.client(), place.queue("events").url, ("", "")
    moved_at = time.monotonic()
    while (left := _left(connection, client, url)) != ("0", "0"):
        if left != seen:
            seen, moved_at = left, time.monotonic()
        assert time.monotonic() < moved_at + 30, f"{left[0]} events and {left[1]} messages get nowhere"
        crew.tend()
        time.sleep(0.2)


def _left(connection: psycopg.Connection[tuple[int]], client: "SQSClient", url: str) -> tuple[str, str]:
    """How many events are on their way, and how many messages."""
    ((events,),) = connection.execute(
        "SELECT count(*) FROM outbox_message WHERE status <> 'PUBLISHED' OR handled_at IS NULL"
    ).fetchall()
    found = client.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    return str(events), found["Attributes"]["ApproximateNumberOfMessages"]


PROMISES = {
    "each error was analysed": "SELECT count(*) FROM auth_error WHERE status = 'ANALYSIS_COMPLETED'",
    "each error went the way once": """
        SELECT count(*) FROM (
          SELECT FROM auth_error_transition GROUP BY auth_error_id
          HAVING array_agg(to_status ORDER BY transition_id) = '{NEW,ANALYSIS_REQUESTED,ANALYSIS_COMPLETED}') AS one""",
    "both events of each error are done, each under its own id": """
        SELECT count(*) FROM (
          SELECT FROM outbox_message m JOIN processed_message p USING (outbox_id)
          WHERE m.status = 'PUBLISHED' AND m.handled_at IS NOT NULL AND p.status = 'DONE'
          GROUP BY m.aggregate_id HAVING count(*) = 2 AND count(DISTINCT m.event_type) = 2) AS one""",
    "each handler's effects were committed once": """
        SELECT count(*) FROM (
          SELECT FROM effects GROUP BY auth_error_id
          HAVING array_agg(handler ORDER BY handler) = '{on_analysis_requested,on_recorded}') AS one""",
    "each error is in one cluster": """
        SELECT count(*) FROM (
          SELECT FROM auth_error_cluster_item GROUP BY auth_error_id HAVING count(*) = 1) AS one""",
    "clusters count what is in them": """
        SELECT sum(error_count) FROM auth_error_cluster c
        WHERE error_count = (SELECT count(*) FROM auth_error_cluster_item i WHERE i.cluster_id = c.cluster_id)""",
}
"""For how many errors each promise is kept."""


def _kept(place: Servers) -> dict[str, int]:
    with psycopg.connect(place.database_url) as connection:
        found = {}
        for promise, query in PROMISES.items():
            ((count,),) = connection.execute(query.encode()).fetchall()
            found[promise] = int(count or 0)
        return found


def _place(database_url: str, endpoint: str) -> Servers:
    # A message may be taken over often, and none of these deaths is its own fault.
    return Servers(database_url, endpoint, visibility_seconds=4, max_retries=50, patience=PATIENCE)


@pytest.fixture
def endpoint() -> Iterator[str]:
    """A queue that delivers, of this test's own."""
    with sqs_server() as found:
        yield found


@pytest.mark.timeout(300)  # a busy machine takes its time; what stands still for half a minute fails at once
def test_no_error_is_lost_or_handled_twice_while_publishers_and_consumers_are_killed(
    database_url: str, endpoint: str
) -> None:
    """Four reporters, two publishers and two consumers, of whom most die on the way; `make crash`: of 2,000 errors."""
    place = _place(database_url, endpoint)
    errors, seconds, kills_each = (2_000, 15, 12) if WHOLE else (500, 5, 5)
    kills = _run(Run(errors, posting_seconds=seconds, kills_each=kills_each), place, counting)
    assert _kept(place) == dict.fromkeys(PROMISES, errors)
    assert place.queue("dead-letters").receive(at_most=1, invisible_seconds=1) == []
    assert kills == {"publisher": kills_each, "consumer": kills_each}


@pytest.mark.parametrize("done_first", [True, False], ids=["lost", "twice"])
def test_effects_that_are_committed_apart_from_done_are_seen(
    database_url: str, endpoint: str, done_first: bool
) -> None:
    """A check that can't fail is none: with DONE first a kill loses effects, with DONE last it repeats them."""
    place, errors = _place(database_url, endpoint), 100
    _run(Run(errors, posting_seconds=2, kills_each=4), place, partial(effects_apart, done_first))
    kept = _kept(place)
    assert kept["each handler's effects were committed once"] < errors
    assert (kept["each error was analysed"] < errors) == done_first
    assert kept["clusters count what is in them"] <= errors
