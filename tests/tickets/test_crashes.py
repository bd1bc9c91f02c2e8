"""Every call that a run of the reaper and an ops cycle make to Postgres, S3 and an executor, gone wrong in every way.

The points are recorded from the code as it runs, so that a new call is crashed without being listed. After each crash
time passes and healthy cycles run; then every promise is kept: each ticket ends once, with one result that says the
same; what an executor was asked is done once for its request_id; every report has its copies, `latest` is the newest's.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import psycopg
import pytest

from dpp.platform.aws.storage import ObjectStore
from dpp.platform.errors import DependencyUnavailable, RedisUnavailable
from dpp.tickets.cycle import LEASE_SECONDS, CycleEffects, run_cycle
from dpp.tickets.errors import CycleRunning, ReaperRunning
from dpp.tickets.machine import MACHINE
from dpp.tickets.model import REAPER, RequestType, Ticket
from dpp.tickets.process import SILENT_SECONDS, ProcessEffects
from dpp.tickets.reap import ReapEffects, ReapRequest, reap
from dpp.tickets.staleness import LATEST_KEY, result_message
from tests.support.counted_drivers import CountedDatabase, counted_storage
from tests.support.crash_points import Call, Killed, Kind, Points
from tests.tickets.environment import A_DAY, RULES, SEOUL, Environment

PAUSES_SECONDS = (LEASE_SECONDS + 100, SILENT_SECONDS + 1)
"""Past both leases, and past the silence of a processor that died."""
WAYS = {(way.source, way.target) for way in MACHINE.transitions}


class Bucket:
    """S3's client as far as reports are put: a whole object or none, the last one stands.

    moto would be most of this module's time; the other tests of reports have it.
    """

    exceptions = SimpleNamespace(NoSuchKey=KeyError)

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}

    def put_object(self, *, Key: str, Body: bytes, **_: object) -> None:
        """Write an object."""
        self.objects[Key] = json.loads(Body)


class World:
    """What executors change, behind a port of their own: by request_id, so that a repetition changes nothing."""

    def __init__(self) -> None:
        self.done: set[UUID] = set()

    def executor(self, points: Points) -> Callable[[Ticket], str]:
        """An executor whose call is counted."""

        def carry_out(ticket: Ticket) -> str:
            def make() -> str:
                self.done.add(ticket.request_id)
                return "done"

            def lost() -> Exception:
                return RedisUnavailable("lost")

            return points.pass_through(Call("executor", "carry_out", True, make, lost, lost, make))

        return carry_out


@dataclass(slots=True)
class CrashEnvironment:
    """A desk with what a day left, and the process that is hit."""

    env: Environment
    world: World
    stale: list[Ticket]
    waiting: list[Ticket]
    bucket: Bucket = field(default_factory=Bucket)

    def effects(self, points: Points) -> tuple[CountedDatabase, CycleEffects]:
        """A process whose calls are counted, and its database."""
        database = CountedDatabase(self.env.url, points)
        storage = counted_storage(self.env.bucket, self.bucket, points)
        executors = dict.fromkeys(RequestType, self.world.executor(points))
        return database, CycleEffects(
            ReapEffects(database, storage, SEOUL), ProcessEffects(database, executors, RULES)
        )


def arrange(env: Environment) -> CrashEnvironment:
    """Two stale tickets, one of a processor that died a while ago, one open."""
    ages = {uuid4(): seconds for seconds in (30 * 3_600, 26 * 3_600, SILENT_SECONDS + 5, None)}
    with psycopg.connect(env.url, autocommit=True) as admin:
        admin.execute(_EMPTY)  # no trigger, so that nothing refuses
        with admin.cursor() as cursor:
            cursor.executemany(_TAKEN, [{"id": key, "age": age} for key, age in ages.items() if age])
        admin.execute(_KEEP)
    (waiting,) = [key for key, age in ages.items() if age is None]
    env.file(request_id=waiting)
    first, second, dead, opened = (env.ticket(key) for key in ages)
    return CrashEnvironment(env, World(), [first, second], [dead, opened])


_EMPTY = """
SET session_replication_role = replica;
DELETE FROM ticket_results; DELETE FROM ticket_transitions; DELETE FROM tickets;
DELETE FROM exclusive_leases; DELETE FROM ticket_reaper_reports; DELETE FROM ops_run_receipts
"""
_TAKEN = """
INSERT INTO tickets (request_id, request_type, params, reason, requested_by, current_status, attempts, processor_id,
  moved_by, last_processed_at, created_at, updated_at)
SELECT %(id)s, 'DLQ_REDRIVE', '{}', 'for a test', 'kim', 'IN_PROGRESS', 1, 'gone', 'gone', at, at, at
FROM (SELECT now() - make_interval(secs => %(age)s) AS at)
"""
_KEEP = """
INSERT INTO ticket_transitions (request_id, from_status, to_status, actor, attempt, happened_at)
SELECT request_id, way[1], way[2], 'x', 1, created_at
FROM tickets, (VALUES (ARRAY[NULL, 'OPEN']), (ARRAY['OPEN', 'IN_PROGRESS'])) AS ways (way)
"""


def _reap(crash_env: CrashEnvironment, effects: CycleEffects) -> None:
    reap(ReapRequest("kim", RULES), effects.reaping)


def _cycle(crash_env: CrashEnvironment, effects: CycleEffects) -> None:
    run_cycle(effects)


ACTS: dict[str, Callable[[CrashEnvironment, CycleEffects], None]] = {"reap": _reap, "cycle": _cycle}


def play(crash_env: CrashEnvironment, act: str, points: Points) -> None:
    """Let the process act until it is done, fails or is killed."""
    database, effects = crash_env.effects(points)
    try:
        with suppress(Killed, DependencyUnavailable):
            ACTS[act](crash_env, effects)
    finally:
        database.close()
    points.land()


def come_to_rest(crash_env: CrashEnvironment) -> None:
    """Time passes, and healthy cycles run."""
    env, world, at = crash_env.env, crash_env.world, crash_env.env.now()
    reaping = env.reap_effects(ObjectStore(env.bucket, lambda: cast(Any, crash_env.bucket)))
    processing = ProcessEffects(
        env.database, dict.fromkeys(RequestType, world.executor(Points("healthy"))), RULES
    )
    for pause in PAUSES_SECONDS:
        at += timedelta(seconds=pause)
        with suppress(CycleRunning, ReaperRunning):
            run_cycle(CycleEffects(reaping, processing), at)


def broken(crash_env: CrashEnvironment) -> Iterator[str]:
    """Every promise that does not hold."""
    env = crash_env.env
    for ticket in (*crash_env.stale, *crash_env.waiting):
        whole = env.details(ticket)
        if whole.result is None or whole.result.status != whole.ticket.current_status:
            yield f"{ticket.request_id} is {whole.ticket.current_status}, its result {whole.result}"
            continue
        ways = [(one.from_status, one.to_status) for one in whole.transitions]
        if not set(ways) <= WAYS or [way[0] for way in ways[1:]] != [way[1] for way in ways[:-1]]:
            yield f"{ticket.request_id} went {ways}"
        cleaned = ticket in crash_env.stale
        expected = (REAPER, "FAILED", result_message(A_DAY)) if cleaned else (None, "DONE", "done")
        found = (whole.result.processor_id if cleaned else None, whole.result.status, whole.result.message)
        if found != expected:
            yield f"{ticket.request_id}: {found}, not {expected}"
    if crash_env.world.done != {ticket.request_id for ticket in crash_env.waiting}:
        yield f"done: {crash_env.world.done}"
    yield from _reports(env, crash_env.bucket.objects)
    for outcome, count in env.rows("SELECT outcome, count(*) FROM ops_run_receipts GROUP BY 1"):
        if outcome == "RUNNING":
            yield f"{count} receipts say RUNNING"


def _reports(env: Environment, objects: dict[str, Any]) -> Iterator[str]:
    rows = env.rows("SELECT snapshot_key, report, published_at FROM ticket_reaper_reports ORDER BY report_id")
    if set(objects) != {LATEST_KEY, *(key for key, _, _ in rows)}:
        yield f"objects {sorted(objects)}"
        return
    for key, report, published_at in rows:
        if published_at is None or objects[key] != report:
            yield f"{key}: {objects[key]} is not {report}, published {published_at}"
    if objects[LATEST_KEY] != rows[-1][1]:
        yield f"latest is {objects[LATEST_KEY]}"
    cleaned = [item["request_id"] for _, report, _ in rows for item in report["cleaned_items"]]
    if len(cleaned) != len(set(cleaned)) or len(cleaned) != 2:
        yield f"cleaned {cleaned}"


@pytest.fixture(scope="module")
def env(shared_env: Environment) -> Environment:
    """One database for all: it is emptied each time."""
    return shared_env


@pytest.mark.parametrize("act", list(ACTS))
def test_every_port_is_among_the_points(env: Environment, act: str) -> None:
    """A recording with a hole in it would be green, too."""
    points = Points(act)
    play(arrange(env), act, points)
    met = {(point.port, point.call) for point in points.met}
    wanted = {
        ("postgres", "take_lease"),
        ("postgres", "reap"),
        ("s3", "put_object"),
        ("postgres", "mark_published"),
    }
    if act == "cycle":
        wanted |= {("executor", "carry_out"), ("postgres", "finish"), ("postgres", "write_receipt")}
    assert wanted <= met
    assert len(points.met) > 10


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("act", list(ACTS))
@pytest.mark.timeout(300)
def test_a_crash_at_any_call_loses_nothing_and_does_nothing_twice(
    env: Environment, act: str, kind: Kind
) -> None:
    """TIX-2, TIX-3, TIX-6: all calls of this path, one after the other."""
    recording = Points(act)
    play(arrange(env), act, recording)
    for point in recording.met:
        if kind not in point.kinds:
            continue
        crash_env, points = arrange(env), Points(act, at=point.number, kind=kind)
        play(crash_env, act, points)
        assert points.met[point.number - 1] == point
        come_to_rest(crash_env)
        assert list(broken(crash_env)) == [], f"{point.id}, {kind}"


def test_a_fault_that_is_planted_is_seen(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that can't fail is none: `latest` written before the snapshot, and a run that dies in between."""

    def dies(_store: ObjectStore, key: str, _body: bytes) -> None:
        if key != LATEST_KEY:
            raise Killed

    crash_env = arrange(env)
    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(ObjectStore, "put_json", dies)
        play(crash_env, "cycle", Points("cycle"))
    env.rows("UPDATE ticket_reaper_reports SET published_at = now() RETURNING 1")
    come_to_rest(crash_env)
    assert any("objects" in one for one in broken(crash_env))
