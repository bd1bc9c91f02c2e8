"""Publishers and consumers are killed by SIGKILL while errors are reported (AUTH-4, AUTH-5): each is handled once.

Real processes use real Postgres, and the real SQS client with a queue that delivers. Each handler inserts a row into a
table without a unique key, in the transaction of its effects, so that repeated effects are counted even if an error's
status hides them. The invariants must also detect two planted faults.

A minute in production is two seconds here (SILENT_SECONDS, LEASE_SECONDS, set in the processes); the clock is
Postgres's. No event is sent again after RESEND_SECONDS: this queue loses no message, so an event that would need it was
lost by the code, and shows as stuck.
"""

import os
import random
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
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
from tests.auth_errors.subprocess_workers import EffectsOf, Servers, Timeouts, consume_effects, consumer, publisher
from tests.support.crash_points import CRASH_ALL
from tests.support.sqs_server import sqs_server
from tests.support.worker_processes import Workers, running_workers

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

TENANT, FAILURES = "t_kills", 25
TIMEOUTS = Timeouts(silent_seconds=2, lease_seconds=2, resend_seconds=3_600)


def counting(servers: Servers, client: "SQSClient") -> ConsumeEffects:
    """Effects whose handlers insert a row each, in the transaction of the event."""

    def counted(handler: Handler) -> Handler:
        def handle(connection: Connection, error: AuthError, now: datetime | None) -> HandlerResult:
            handled = handler(connection, error, now)
            connection.execute("INSERT INTO effects VALUES (%s, %s)", (error.auth_error_id, handler.__name__))
            return handled

        return handle

    effects = consume_effects(servers, client)
    return replace(effects, handlers={kind: counted(one) for kind, one in effects.handlers.items()})


def effects_apart(done_first: bool, servers: Servers, client: "SQSClient") -> ConsumeEffects:
    """A planted fault: DONE is committed in another transaction than the handler's changes, before or after it."""

    def handle(delivery: consume._Delivery) -> Consumed:
        first, second = (finish, change) if done_first else (change, finish)
        with delivery.effects.database.connection() as connection:
            with connection.transaction():
                first(connection, delivery)
            if random.random() < 0.05:  # some kills happen here, at any speed of the machine
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
    return counting(servers, client)


def _workers(servers: Servers, effects_of: EffectsOf) -> AbstractContextManager[Workers]:
    """Two publishers and two consumers."""
    return running_workers(
        [
            *[("publisher", partial(publisher, servers))] * 2,
            *[("consumer", partial(consumer, servers, effects_of=effects_of))] * 2,
        ]
    )


def _post(servers: Servers, numbers: range, each_seconds: float, posted: list[int]) -> None:
    """Report errors one after another, as a service does."""
    waker = Waker(servers.queue("wakes"))
    with closing(Database(servers.database_url)) as database:
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
    """Limits of errors and seconds, and the numbers of publishers and consumers to kill meanwhile."""

    errors: int
    posting_seconds: float
    kills_each: int


def _run(run: Run, servers: Servers, effects_of: EffectsOf) -> Mapping[str, int]:
    """Run until everything is handled, and return the kills. They are spread over the reports, not over time."""
    share, posted = run.errors // 4, list[int]()
    parts = [range(start, start + share) for start in range(0, run.errors, share)]
    with (
        psycopg.connect(servers.database_url, autocommit=True) as connection,
        ThreadPoolExecutor(4) as posters,
        _workers(servers, effects_of) as workers,
    ):
        create_tenant(connection, TENANT, "Kills", 1)
        connection.execute("CREATE TABLE effects (auth_error_id uuid, handler text)")
        pace = run.posting_seconds / share
        posts = [posters.submit(_post, servers, part, pace, posted) for part in parts]
        while (killed := workers.kills.total()) < 2 * run.kills_each:
            workers.replace_dead()
            if len(posted) >= run.errors * (killed + 1) / (2 * run.kills_each + 1) or all(
                post.done() for post in posts
            ):
                time.sleep(workers.chance.uniform(0, 0.2))
                workers.kill(("publisher", "consumer")[killed % 2])
            time.sleep(0.02)
        for post in posts:
            post.result()
        _wait_until_idle(servers, connection, workers)
        return workers.kills


def _wait_until_idle(servers: Servers, connection: psycopg.Connection[tuple[int]], workers: Workers) -> None:
    """Wait until every event is handled and no message is left; progress must not stop."""
    client, url, seen = servers.client(), servers.queue("events").url, ("", "")
    moved_at = time.monotonic()
    while (left := _left(connection, client, url)) != ("0", "0"):
        if left != seen:
            seen, moved_at = left, time.monotonic()
        assert time.monotonic() < moved_at + 30, f"{left[0]} events and {left[1]} messages are stuck"
        workers.replace_dead()
        time.sleep(0.2)


def _left(connection: psycopg.Connection[tuple[int]], client: "SQSClient", url: str) -> tuple[str, str]:
    """The numbers of unhandled events and of messages."""
    ((events,),) = connection.execute(
        "SELECT count(*) FROM outbox_message WHERE status <> 'PUBLISHED' OR handled_at IS NULL"
    ).fetchall()
    found = client.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    return str(events), found["Attributes"]["ApproximateNumberOfMessages"]


INVARIANTS = {
    "each error was analysed": "SELECT count(*) FROM auth_error WHERE status = 'ANALYSIS_COMPLETED'",
    "each error made its transitions once": """
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
    "clusters have the right error count": """
        SELECT sum(error_count) FROM auth_error_cluster c
        WHERE error_count = (SELECT count(*) FROM auth_error_cluster_item i WHERE i.cluster_id = c.cluster_id)""",
}
"""The number of errors for which each invariant holds."""


def _held(servers: Servers) -> dict[str, int]:
    with psycopg.connect(servers.database_url) as connection:
        found = {}
        for invariant, query in INVARIANTS.items():
            ((count,),) = connection.execute(query.encode()).fetchall()
            found[invariant] = int(count or 0)
        return found


def _servers(database_url: str, endpoint: str) -> Servers:
    # A message may be taken over often, without being the cause of a crash.
    return Servers(database_url, endpoint, visibility_seconds=4, max_retries=50, timeouts=TIMEOUTS)


@pytest.fixture
def endpoint() -> Iterator[str]:
    """A new SQS server that delivers messages."""
    with sqs_server() as found:
        yield found


def test_kills_lose_and_repeat_no_error(database_url: str, endpoint: str) -> None:
    """Four reporters, two publishers and two consumers, most of which are killed; `make crash` uses 2,000 errors."""
    servers = _servers(database_url, endpoint)
    errors, seconds, kills_each = (2_000, 15, 12) if CRASH_ALL else (500, 5, 5)
    kills = _run(Run(errors, posting_seconds=seconds, kills_each=kills_each), servers, counting)
    assert _held(servers) == dict.fromkeys(INVARIANTS, errors)
    assert servers.queue("dead-letters").receive(at_most=1, invisible_seconds=1) == []
    assert kills == {"publisher": kills_each, "consumer": kills_each}


@pytest.mark.parametrize("done_first", [True, False], ids=["lost", "twice"])
def test_effects_in_another_transaction_than_done_are_detected(
    database_url: str, endpoint: str, done_first: bool
) -> None:
    """The invariants must detect it: with DONE first a kill loses effects, with DONE last it repeats them."""
    servers, errors = _servers(database_url, endpoint), 100
    _run(Run(errors, posting_seconds=2, kills_each=4), servers, partial(effects_apart, done_first))
    held = _held(servers)
    assert held["each handler's effects were committed once"] < errors
    assert (held["each error was analysed"] < errors) == done_first
    assert held["clusters have the right error count"] <= errors
