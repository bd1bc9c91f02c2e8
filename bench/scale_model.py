"""From the units and an assumed day to what each part is asked for, what it bears, and what saturates first; pure.

Each limit is held against what the day asks of it in the limit's own unit. Everything grows with the runs, so the share
that is used also says how many runs a day the part bears.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import ceil

from bench import scale_aws as aws
from bench.scale_day import DAY_SECONDS, Day, Run, Units
from dpp.lifecycle.config import CleanerSettings
from dpp.runs.jobs import retain
from dpp.runs.jobs.batch import TIME_LIMIT_SECONDS
from dpp.runs.jobs.reconcile import SCAN_SECONDS
from dpp_cdk.settings.sizes import PROD, Size
from dpp_cdk.settings.timings import RUN_RETENTION

FULL = 0.8
"""How full a cell is planned to be, of what it bears at the busiest moment of its day."""
BUSY_DATABASE = 0.5
BUSY_CACHE = 0.8
FULL_CACHE = 0.75
"""The alarms cache-cpu and cache-memory go off there."""
VACUUM_DAYS = 7
"""Assumed: how long a vacuum of the whole table may take, before transaction ids run out."""
CLIENTS_A_CONNECTION = 10
"""Of RDS Proxy, as `cdk/dpp_cdk/settings/sizes.py` has it."""
_RETAIN = "layers/dpp/python/dpp/runs/jobs/retain.py"
_RECONCILE = "layers/dpp/python/dpp/runs/jobs/reconcile.py"
_CHAMBERLAIN = "layers/dpp/python/dpp/lifecycle/config.py"


class Kind(StrEnum):
    """What can be done about a limit."""

    RAISABLE = "default, AWS raises it"
    GROWS = "grows by itself, in up to an hour"
    HARD = "hard"
    MODE = "hard in this mode"
    CODE = "a number in our code"
    SIZE = "a number of the size"


class Scope(StrEnum):
    """Whose limit it is."""

    ACCOUNT = "account and region"
    CELL = "deployment"


@dataclass(frozen=True, slots=True)
class Limit:
    """What a part is asked for and what it bears, in its own unit."""

    part: str
    unit: str
    needs: float
    bears: float
    kind: Kind
    source: str
    runs: float
    """A day, for which it needs so much."""
    scope: Scope = Scope.CELL

    @property
    def used(self) -> float:
        """1 is all of it."""
        return self.needs / self.bears

    @property
    def runs_a_day(self) -> float:
        """What it bears."""
        return self.runs / self.used

    def cells(self, runs: float) -> int:
        """So many for a day's runs, none fuller than `FULL`."""
        return ceil(runs / (self.runs_a_day * FULL))


@dataclass(frozen=True, slots=True)
class Setting:
    """What one deployment has. `shipped`: as `sizes.py` says; else as large as AWS lets one have it."""

    name: str
    api_per_second: float
    functions_at_once: float
    workers_at_once: float
    vcpus: float
    storage_bytes: float
    iops: float
    connections: float
    cache_bytes: float
    shipped: bool = False

    def kind(self, otherwise: Kind) -> Kind:
        """A number of the size, or what AWS says of it."""
        return Kind.SIZE if self.shipped else otherwise


LARGEST = Setting(
    name="the largest servers, AWS's default quotas",
    api_per_second=aws.API_PER_SECOND,
    functions_at_once=aws.FUNCTIONS_AT_ONCE,
    workers_at_once=aws.SOURCE_AT_ONCE,
    vcpus=aws.DATABASES[-1].vcpus,
    storage_bytes=aws.DATABASE_BYTES,
    iops=aws.DATABASE_IOPS,
    connections=aws.DATABASES[-1].connections,
    cache_bytes=aws.NODES[-1].memory_gib * aws.GIB,
)


def shipped(size: Size = PROD) -> Setting:
    """A size as it is deployed."""
    database = next(one for one in aws.DATABASES if one.name == size.database.instance_class)
    node = next(one for one in aws.NODES if one.name == size.cache.node_type)
    small = size.database.max_storage_gib < aws.SMALL_GIB
    return Setting(
        name=f"{size.name} as shipped",
        api_per_second=size.api.rate_per_second,
        functions_at_once=size.functions_at_once,
        workers_at_once=size.max_workers,
        vcpus=database.vcpus,
        storage_bytes=size.database.max_storage_gib * aws.GIB,
        iops=aws.IOPS_OF_SMALL_GP3 if small else aws.IOPS_OF_GP3,
        connections=size.database.max_connections,
        cache_bytes=node.memory_gib * aws.GIB,
        shipped=True,
    )


def limits(units: Units, day: Day, setting: Setting) -> list[Limit]:
    """Every limit, the one that saturates first before the others."""
    run = Run.of(units, day)
    found = [
        *_of_requests(day, setting),
        *_of_postgres(run, day, setting),
        *_of_valkey(run, day, setting),
        *_of_jobs(units, day),
    ]
    return sorted(found, key=lambda limit: -limit.used)


def _of_requests(day: Day, setting: Setting) -> list[Limit]:
    peak, limit = day.peak_per_second, partial(Limit, runs=day.runs)
    workers, requests = peak * day.work_seconds, peak * day.requests_a_run
    functions = requests * day.request_seconds
    clients = setting.connections * CLIENTS_A_CONNECTION
    by_aws, mode, hard = (setting.kind(kind) for kind in (Kind.RAISABLE, Kind.MODE, Kind.HARD))
    account = partial(limit, scope=Scope.ACCOUNT)
    source, bucket = "event source of the run queue", "S3, a bucket that isn't split yet"
    proxy = "connections to Postgres, by RDS Proxy"
    at_once, allowed = workers + functions, setting.functions_at_once
    return [
        account("API Gateway", "requests/s", requests, setting.api_per_second, by_aws, aws.API_PAGE),
        account("Lambda concurrency", "functions at once", at_once, allowed, by_aws, aws.FUNCTIONS_PAGE),
        limit(source, "workers at once", workers, setting.workers_at_once, mode, aws.SOURCE_PAGE),
        limit("SQS in flight", "messages", workers, aws.QUEUE_TAKEN, Kind.RAISABLE, aws.QUEUE_PAGE),
        limit(bucket, "PUT/s", peak, aws.PUTS_PER_SECOND, Kind.GROWS, aws.PUTS_PAGE),
        limit(proxy, "clients", 2 * workers + functions, clients, hard, aws.CONNECTIONS_PAGE),
    ]


def _of_postgres(run: Run, day: Day, setting: Setting) -> list[Limit]:
    peak, hard, limit = day.peak_per_second, setting.kind(Kind.HARD), partial(Limit, runs=day.runs)
    busy, room = peak * run.postgres_ms / 1_000, setting.vcpus * BUSY_DATABASE
    stands, holds = day.runs * run.row_byte_days / aws.TIB, setting.storage_bytes / aws.TIB
    ids, ids_left = day.runs * run.xids / 1e6, aws.XIDS / VACUUM_DAYS / 1e6
    operations, wal = peak * (run.random_iops + run.xids), peak * run.wal_bytes / 1e6
    wal_room = aws.WAL_BYTES_PER_SECOND * BUSY_DATABASE / 1e6
    return [
        limit("Postgres's processor", "vCPU busy", busy, room, hard, aws.CLASSES_PAGE),
        limit("Postgres's storage", "TiB", stands, holds, hard, aws.DATABASE_PAGE),
        limit("Postgres's transaction ids", "million a day", ids, ids_left, Kind.HARD, aws.XIDS_PAGE),
        limit("Postgres's storage operations", "IOPS", operations, setting.iops, hard, aws.DATABASE_PAGE),
        limit("Postgres's write-ahead log", "MB/s", wal, wal_room, Kind.HARD, aws.CLASSES_PAGE),
    ]


def _of_valkey(run: Run, day: Day, setting: Setting) -> list[Limit]:
    """The stack makes one shard: one node that holds all, one core that runs every script."""
    hard, limit = setting.kind(Kind.HARD), partial(Limit, runs=day.runs)
    stands, holds = day.runs * run.redis_byte_days / aws.GIB, setting.cache_bytes * FULL_CACHE / aws.GIB
    busy = day.peak_per_second * run.valkey_us / 1e6
    return [
        limit("Valkey's memory", "GiB", stands, holds, hard, aws.NODES_PAGE),
        limit("Valkey's one core", "cores busy", busy, BUSY_CACHE, Kind.HARD, "docs/runbook.md#cache-cpu"),
    ]


def _of_jobs(units: Units, day: Day) -> list[Limit]:
    """What the platform's own jobs get through, whatever the servers are."""
    firings = DAY_SECONDS / RUN_RETENTION.every_seconds
    expire_ms = units.expire.python_ms + units.expire.postgres_ms + day.round_trip_ms + day.commit_ms
    expired = min(retain._EXPIRE_LIMIT, TIME_LIMIT_SECONDS * 1_000 / expire_ms)
    batch_ms = (units.purge.python_ms + units.purge.postgres_ms) * retain._PURGE_BATCH
    purged = TIME_LIMIT_SECONDS * 1_000 / (batch_ms + day.round_trip_ms + day.commit_ms) * retain._PURGE_BATCH
    looks = [
        one.python_ms + one.postgres_ms + (one.redis_commands + one.commits) * day.round_trip_ms
        for one in (units.look_for_lost, units.look_for_orphans)
    ]
    tenants, firing_ms = "reconcile's look at every tenant within a minute", SCAN_SECONDS * 1_000
    limit = partial(Limit, kind=Kind.CODE, runs=day.runs)
    return [
        limit("runs made tombstones", "runs a day", day.runs, expired * firings, source=_RETAIN),
        limit("inputs purged", "inputs a day", day.runs, purged * firings, source=_RETAIN),
        limit("tombstones deleted", "rows a night", day.runs, _deletes(), source=_CHAMBERLAIN),
        limit(tenants, "tenants", day.tenants, firing_ms / max(looks), source=_RECONCILE),
    ]


def _deletes() -> int:
    default: int = CleanerSettings.model_fields["max_deletes"].default
    return default
