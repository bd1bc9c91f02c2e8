"""Every call that a run of the reaper and an ops cycle make to Postgres, S3 and an executor, failed in every way."""

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from dpp.platform.aws.storage import ObjectStore
from dpp.platform.errors import RedisUnavailable
from dpp.tickets.cycle import LEASE_SECONDS, CycleEffects, run_cycle
from dpp.tickets.errors import CycleRunning, ReaperRunning
from dpp.tickets.machine import MACHINE
from dpp.tickets.model import REAPER, RequestType, Ticket
from dpp.tickets.process import SILENT_SECONDS, ProcessEffects
from dpp.tickets.reap import ReapEffects, ReapRequest, reap
from dpp.tickets.staleness import LATEST_KEY, result_message
from tests.support.crash_matrix import CrashSuite
from tests.support.crash_points import FaultInjector, Killed
from tests.support.crashable import CrashablePort, crashable_database, crashable_storage
from tests.support.memory_s3 import MemoryS3
from tests.support.saved_tables import SavedTables
from tests.tickets.environment import A_DAY, RULES, SEOUL, Environment

PAUSES_SECONDS = (LEASE_SECONDS + 100, SILENT_SECONDS + 1)
"""Past both leases, and past the silence of a processor that died."""
WAYS = {(way.source, way.target) for way in MACHINE.transitions}
_TABLES = (
    *("tickets", "ticket_results", "ticket_transitions"),
    *("exclusive_leases", "ticket_reaper_reports", "ops_run_receipts"),
)
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


class Executor:
    """Carries out tickets by request_id, so that a repetition changes nothing."""

    def __init__(self) -> None:
        self.done: set[UUID] = set()

    def carry_out(self, ticket: Ticket) -> str:
        self.done.add(ticket.request_id)
        return "done"


class TicketCrashes(CrashSuite):
    """A run of the reaper and an ops cycle: two tickets are stale, one was left by a dead processor, one is open."""

    def __init__(self, env: Environment, admin: psycopg.Connection[Any]) -> None:
        super().__init__(SavedTables(admin, _TABLES))
        self.env = env
        self.admin = admin

    def set_up(self, act: str) -> None:
        """The same for both acts."""
        ages = {uuid4(): seconds for seconds in (30 * 3_600, 26 * 3_600, SILENT_SECONDS + 5, None)}
        self.admin.execute("SET session_replication_role = replica")  # no trigger, so that no row is rejected
        with self.admin.cursor() as cursor:
            cursor.executemany(_TAKEN, [{"id": key, "age": age} for key, age in ages.items() if age])
        self.admin.execute(_KEEP)
        self.admin.execute("SET session_replication_role = origin")
        (waiting,) = [key for key, age in ages.items() if age is None]
        self.env.file(request_id=waiting)
        first, second, dead, opened = (self.env.ticket(key) for key in ages)
        self.stale, self.waiting = [first, second], [dead, opened]

    def state(self) -> tuple[list[Ticket], list[Ticket]]:
        """The tickets: those that the reaper ends, and those that are carried out."""
        return self.stale, self.waiting

    def restore(self, state: tuple[list[Ticket], list[Ticket]] | None) -> None:
        """Nothing is carried out or published."""
        self.executor, self.bucket = Executor(), MemoryS3()
        self.stale, self.waiting = state or ([], [])

    def perform(self, act: str, injector: FaultInjector) -> None:
        """One run of the reaper, or one ops cycle."""
        with crashable_database(self.env.url, injector) as database:
            storage = crashable_storage(self.env.bucket, self.bucket, injector)
            port = CrashablePort(self.executor, injector, "executor", lambda: RedisUnavailable("lost"))
            reaping = ReapEffects(database, storage, SEOUL)
            if act == "reap":
                reap(ReapRequest("kim", RULES), reaping)
            else:
                executors = dict.fromkeys(RequestType, port.carry_out)
                run_cycle(CycleEffects(reaping, ProcessEffects(database, executors, RULES)))

    def recover(self, act: str) -> None:
        """Healthy cycles run."""
        at = self.env.now()
        effects = CycleEffects(
            self.env.reap_effects(self.bucket.store(self.env.bucket)), self.env.process_effects(self.executor.carry_out)
        )
        for pause in PAUSES_SECONDS:
            at += timedelta(seconds=pause)
            with suppress(CycleRunning, ReaperRunning):
                run_cycle(effects, at)

    def violations(self, act: str) -> Iterator[str]:
        """Each ticket ends once, with one result that says the same, and is done once; every report has its copies."""
        for ticket in (*self.stale, *self.waiting):
            yield from self._of_ticket(ticket, cleaned=ticket in self.stale)
        if self.executor.done != {ticket.request_id for ticket in self.waiting}:
            yield f"done: {self.executor.done}"
        yield from self._of_reports()
        running = self._rows("SELECT count(*) FROM ops_run_receipts WHERE outcome = 'RUNNING'")
        if running != [(0,)]:
            yield f"{running[0][0]} receipts say RUNNING"

    def _of_ticket(self, ticket: Ticket, *, cleaned: bool) -> Iterator[str]:
        found = self.env.details(ticket)
        if found.result is None or found.result.status != found.ticket.current_status:
            yield f"{ticket.request_id} is {found.ticket.current_status}, its result {found.result}"
            return
        ways = [(one.from_status, one.to_status) for one in found.transitions]
        if not set(ways) <= WAYS or [way[0] for way in ways[1:]] != [way[1] for way in ways[:-1]]:
            yield f"{ticket.request_id} went {ways}"
        expected = (REAPER, "FAILED", result_message(A_DAY)) if cleaned else (None, "DONE", "done")
        result = (found.result.processor_id if cleaned else None, found.result.status, found.result.message)
        if result != expected:
            yield f"{ticket.request_id}: {result}, not {expected}"

    def _of_reports(self) -> Iterator[str]:
        objects = {key: json.loads(body) for key, body in self.bucket.objects.items()}
        rows = self._rows("SELECT snapshot_key, report, published_at FROM ticket_reaper_reports ORDER BY report_id")
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

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        return self.admin.execute(statement.encode()).fetchall()


CALLS = {"reap": {"postgres.take_lease", "postgres.reap", "s3.put_object", "postgres.mark_published"}}
CALLS["cycle"] = CALLS["reap"] | {"executor.carry_out", "postgres.finish", "postgres.write_receipt"}


@pytest.fixture(scope="module")
def crashes(shared_env: Environment) -> Iterator[TicketCrashes]:
    """One for the whole module."""
    with psycopg.connect(shared_env.url, autocommit=True) as admin:
        yield TicketCrashes(shared_env, admin)


@pytest.mark.parametrize("act", list(CALLS))
def test_every_port_is_among_the_points(crashes: TicketCrashes, act: str) -> None:
    """A recording that misses calls would pass, too."""
    assert CALLS[act] <= crashes.calls_of_clean_run(act)


@pytest.mark.parametrize("act", list(CALLS))
def test_a_crash_at_any_call_loses_nothing_and_does_nothing_twice(crashes: TicketCrashes, act: str) -> None:
    """TIX-2, TIX-3, TIX-6: all calls of this act, one after the other."""
    assert list(crashes.crash_everywhere(act)) == []


def test_a_planted_fault_is_found(crashes: TicketCrashes, monkeypatch: pytest.MonkeyPatch) -> None:
    """`latest` is written before the snapshot, and the process dies in between."""

    def dies(_store: ObjectStore, key: str, _body: bytes) -> None:
        if key != LATEST_KEY:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "put_json", dies)
        crashes.play("cycle", FaultInjector("cycle"))
    crashes.admin.execute("UPDATE ticket_reaper_reports SET published_at = now()")
    crashes.recover("cycle")
    assert any("objects" in one for one in crashes.violations("cycle"))
