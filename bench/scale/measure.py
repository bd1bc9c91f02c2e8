"""Measures the units of the scale model on servers of its own, and writes units.json.

Every call runs in this process, one kind after another, so that the resources of each kind are known exactly: submits
through the handler of runs_submit, four polls of each run through that of runs_read, messages through that of
run_worker (with a no-op for its packs), a last poll of each run; then what jobs do later: inputs are purged, runs
become tombstones, tombstones are deleted. Postgres flushes to disk. Left out are API Gateway, Lambda's runtime, the
pack process and its work, and TLS. Logs are counted.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import redis

from bench.scale.model import write_units
from bench.support.aws import EventSource, stand_in
from bench.support.output import hardware, software
from bench.support.processes import cpu_seconds
from bench.support.runs import Requests, logs_to, path_of, worker_handler
from bench.support.servers import Place, Servers, add_credit, servers, use
from dpp.money.credits import all_tenants, create_tenant
from dpp.money.ledger import Ledger
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.runs.jobs import retain
from dpp.runs.jobs.batch import BatchReport
from dpp.runs.jobs.reconcile import ReconcileEffects, rebuild_if_lost, refund_orphans
from dpp.runs.jobs.retention import TOMBSTONES

_RUNS, _WARM_RUNS, _TENANTS, _POLLS = 2_000, 50, 1_000, 4
_ALL_RUNS = _RUNS + _WARM_RUNS + 1  # Requests submits one
_STATS_DELAY_SECONDS = 11  # an idle session of Postgres reports its counters after 10 s
_OWN_COMMANDS = frozenset({"info", "config|resetstat", "scan", "memory|usage", "ttl", "client|setinfo"})
_COUNTERS = """
SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = 'ours'),
  pg_snapshot_xmax(pg_current_snapshot())::text::bigint, (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint
"""
_SIZES = """
SELECT pg_total_relation_size('runs'), pg_total_relation_size('run_inputs'), pg_relation_size('runs_idempotency'),
  pg_relation_size('runs_pkey')
"""


def measure() -> None:
    """Measure everything, in about three minutes."""
    load = os.getloadavg()[0]
    with servers() as its, stand_in() as endpoint:
        place = Place(its.database("ours"), its.valkey().url, endpoint)
        use(place)
        meter = _Meter(its, place)
        redis_figures = _lives(meter)
        stored = meter.bytes_per_run()
        tombstone = _retention(meter)
        _checks(meter)
        write_units({
            "measured_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "machine": hardware(),
            "software": software(its.postgres.url()),
            "load_before": load,
            "load_after": os.getloadavg()[0],
            "runs": _RUNS,
            "calls": meter.calls,
            "bytes": stored | {"tombstone": tombstone},
            **redis_figures,
        })  # fmt: skip


class _Meter:
    """Makes calls and reads the servers' counters around them. `calls`: mean figures by kind of call."""

    def __init__(self, its: Servers, place: Place) -> None:
        self.place, self.source = place, EventSource(place.endpoint)
        self.calls: dict[str, dict[str, float]] = {}
        self._redis: Any = redis.Redis.from_url(place.redis_url, decode_responses=True)
        self._postgres, self._log = its.postgres, its.folder / "log"

    def measure(self, name: str, calls: Sequence[Callable[[], object]], each: int = 1) -> None:
        """Make the calls, each of which handles `each` items."""
        before, cpu, python_ms = self._counters(), self._cpu(), 0.0
        with logs_to(str(self._log)):
            for call in calls:
                began = time.process_time_ns()
                call()
                python_ms += (time.process_time_ns() - began) / 1e6
        after = self._cpu()  # at once: background work of idle servers belongs to no call
        time.sleep(_STATS_DELAY_SECONDS)
        after, before = after | self._counters(), before | cpu
        used = {"python_ms": python_ms, **{figure: after[figure] - before[figure] for figure in after}}
        self.calls[name] = {figure: value / len(calls) / each for figure, value in used.items()}

    def _cpu(self) -> dict[str, float]:
        valkey, postgres_ms = self._redis.info("cpu"), 1_000 * cpu_seconds([self._postgres.pid])
        valkey_us = 1e6 * (valkey["used_cpu_user"] + valkey["used_cpu_sys"])
        return {"postgres_ms": postgres_ms, "valkey_us": valkey_us}

    def _counters(self) -> dict[str, float]:
        # Asked through another database than the one whose commits are counted.
        commits, xids, wal_bytes = Place(self._postgres.url()).row(_COUNTERS)
        counts, commands = self.source.stats(), self._redis.info("commandstats")
        own = {f"cmdstat_{name}" for name in _OWN_COMMANDS}
        return {
            "commits": commits,
            "xids": xids,
            "wal_bytes": wal_bytes,
            "redis_commands": sum(one["calls"] for name, one in commands.items() if name not in own),
            "sqs_sends": counts["queued"] + counts["in_flight"] + counts["deleted"],
            "s3_puts": counts["puts"],
            "log_bytes": self._log.stat().st_size if self._log.exists() else 0,
        }

    def redis_bytes(self) -> int:
        return int(self._redis.info("memory")["used_memory"])

    def redis_keys(self) -> Sequence[dict[str, Any]]:
        """The kinds of keys of which each run left one."""
        sizes, days = defaultdict[str, list[int]](list), defaultdict[str, float](float)
        for key in self._redis.scan_iter(count=1_000):
            kind, hours = key.partition(":")[0], -(-self._redis.ttl(key) // 3_600)
            sizes[kind].append(self._redis.memory_usage(key, samples=0))
            days[kind] = max(days[kind], hours / 24)
        found = {kind: its for kind, its in sorted(sizes.items()) if len(its) >= _RUNS}
        means = {kind: sum(its) / len(its) for kind, its in found.items()}
        return [{"kind": kind, "bytes": mean, "ttl_days": days[kind]} for kind, mean in means.items()]

    def bytes_per_run(self) -> dict[str, float]:
        """Sizes without gaps: of the runs and their inputs with all indexes, and of two indexes."""
        self.place.execute("VACUUM FULL runs", "VACUUM FULL run_inputs", "VACUUM runs, run_inputs")
        names = ("run", "inputs", "living keys' index", "primary key")
        return {name: size / _ALL_RUNS for name, size in zip(names, self.place.row(_SIZES), strict=True)}


def _lives(meter: _Meter) -> dict[str, Any]:
    """Measure runs from the submit to the last poll. Returns what they leave in Redis."""
    with logs_to():
        requests, handle = Requests(meter.place.create_tenant().token), worker_handler()
        warm = [path_of(requests.submit()) for _ in range(_WARM_RUNS)]
        for _ in range(_WARM_RUNS + 1):
            handle(meter.source.next(None))
        for path in warm:
            requests.read(path)
    time.sleep(_STATS_DELAY_SECONDS)
    paths, before = list[str](), meter.redis_bytes()

    def work(event: dict[str, Any]) -> None:
        assert not handle(event)["failed"], event

    def last_poll(path: str) -> None:
        assert json.loads(requests.read(path))["status"] == "COMPLETED", path

    meter.measure("submit", [lambda: paths.append(path_of(requests.submit()))] * _RUNS)
    meter.measure("poll under way", [partial(requests.read, path) for path in paths * _POLLS])
    events = [meter.source.next(None) for _ in range(_RUNS)]
    meter.measure("work", [partial(work, event) for event in events])
    meter.measure("last poll", [partial(last_poll, path) for path in paths])
    grown, keys = meter.redis_bytes() - before, meter.redis_keys()
    return {"redis_keys": keys, "redis_overhead": grown / _RUNS / sum(key["bytes"] for key in keys)}


def _retention(meter: _Meter) -> float:
    """Measure what jobs do with the runs later. Returns the bytes of a tombstone."""
    url, now = meter.place.database_url, datetime.now(UTC)
    hours, month = now + timedelta(hours=2), now + timedelta(days=31)
    batch = {"before": month + timedelta(days=1), "limit": 500, **dict.fromkeys(("after_time", "after_id", "now"))}
    with closing(Database(url)) as database, closing(Database(url)) as scan:

        def expire() -> None:
            while retain.retain(database, scan, month).expired.ended:
                pass

        def delete() -> None:
            """Run the cleaner's own statement, without its rests."""
            deleted = 0
            while deleted < _ALL_RUNS:
                with database.connection() as connection, connection.transaction():
                    rows = connection.execute(TOMBSTONES.statements["delete_tombstones"], batch).fetchall()
                assert rows[0][1], "tombstones are left, and none was deleted"
                deleted += rows[0][1]

        meter.measure("purge", [lambda: retain.purge_inputs(database, hours)], _ALL_RUNS)
        meter.measure("expire", [expire], _ALL_RUNS)
        tombstone = meter.bytes_per_run()["run"]
        meter.measure("delete", [delete], _ALL_RUNS)
    return tombstone


def _checks(meter: _Meter) -> None:
    """Measure reconcile's two checks of a tenant that find nothing to do."""
    ledger, report = Ledger.connect(meter.place.redis_url), BatchReport()
    with closing(Database(meter.place.database_url)) as database, closing(ledger.client):
        with database.connection() as connection, logs_to():
            for tenant_id in (f"t_idle_{number:05}" for number in range(_TENANTS)):
                create_tenant(connection, tenant_id, "Idle", 60)
                add_credit(connection, ledger, tenant_id, 10**6)
            tenants = list(all_tenants(connection))
        effects = ReconcileEffects(database, ledger, ObjectStore("results"), Queue(meter.place.queue_url))
        time.sleep(_STATS_DELAY_SECONDS)
        for name, check in (("balance check", rebuild_if_lost), ("orphan check", refund_orphans)):
            meter.measure(name, [partial(check, effects, one, report) for one in tenants])
    assert report.seen == report.failed == 0, report
