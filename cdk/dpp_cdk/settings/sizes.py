"""The two sizes (`-c size=dev|prod`), as data, and the checks of their numbers.

`dev` costs little and can be torn down completely; `prod` survives the loss of a zone, keeps its data and rolls back
failed releases.
"""

import math
from dataclasses import dataclass

_CONNECTIONS_PER_WORKER = 2  # the run's, and the heartbeat's
_CONNECTIONS_PER_REQUEST = 1
_CONNECTIONS_PER_CONSUMER = 1  # of events, and of the publisher's wake queue
_CONNECTIONS_PER_CONTROL = 1  # of workspaces, and of their storage
_CONNECTIONS_OF_JOBS = 12  # six jobs, one invocation each, with a second connection for their scans
_CONNECTIONS_OF_ROLES = 7  # one sentinel; king, general and envoy twice: scheduled, and woken
_CONNECTIONS_RESERVED = 10  # for the superuser, the migration and an operator
_FUNCTIONS_PER_WORKER = 2  # the worker, and the pack_outside that it waits for
_FUNCTIONS_OF_JOBS = 6
_FUNCTIONS_OF_ROLES = 10  # as their connections, and lifecycle_outside for the sentinel and both envoys
_SECONDS_PER_REQUEST = 0.1  # twice the average, with room for a cold start or two
_MIN_CONCURRENCY, _MAX_CONCURRENCY = 2, 1000  # the limits of an event source mapping

MAX_PUBLISHERS = _MIN_CONCURRENCY
"""The maximum concurrency of the outbox's publisher in any size: one invocation publishes all events."""


@dataclass(frozen=True)
class DatabaseSize:
    """RDS. `max_connections`: the class's default, `memory / 9531392`, rounded down."""

    instance_class: str
    max_connections: int
    storage_gib: int
    max_storage_gib: int
    multi_az: bool
    backup_days: int
    proxy: bool


@dataclass(frozen=True)
class CacheSize:
    """ElastiCache. `replicas`: without the primary; with at least one, failover is automatic."""

    node_type: str
    replicas: int
    snapshot_days: int

    @property
    def nodes(self) -> int:
        """The primary and its replicas."""
        return 1 + self.replicas

    @property
    def fails_over(self) -> bool:
        """True if a lost node is replaced by its replica."""
        return self.replicas > 0


@dataclass(frozen=True)
class ApiSize:
    """The gateway's limits: requests per second, the burst above that, and requests per day."""

    rate_per_second: int
    burst: int
    requests_per_day: int


@dataclass(frozen=True)
class Size:
    """One size.

    The maximum concurrency of each queue's function: `max_workers` (runs), `max_consumers` (events of authentication
    errors), `max_control` (observations of workspaces), `max_storage` (long work of workspaces).

    `functions_at_once`: the account's quota "Concurrent executions". Workers, the packs that they wait for, publishers,
    consumers, jobs, roles and requests must fit into it: a throttled invocation is a client's 500, or a receive that
    counts towards the dead letters. `reserves_concurrency`: False for accounts with a small quota, which cannot reserve
    any of it; a new account has ten, and more on request (docs/deploy.md).
    """

    name: str
    keeps_data: bool
    availability_zones: int
    endpoint_zones: int
    database: DatabaseSize
    cache: CacheSize
    api: ApiSize
    max_workers: int
    max_consumers: int
    max_control: int
    max_storage: int
    functions_at_once: int
    reserves_concurrency: bool
    gradual: bool

    def __post_init__(self) -> None:
        for busy in (self.max_workers, self.max_consumers, self.max_control, self.max_storage):
            if not _MIN_CONCURRENCY <= busy <= _MAX_CONCURRENCY:
                raise ValueError(
                    f"size {self.name}: an event source allows a concurrency of {_MIN_CONCURRENCY} to"
                    f" {_MAX_CONCURRENCY}, not {busy}"
                )
        if self.availability_zones < 2:
            raise ValueError(f"size {self.name}: RDS needs subnets in two zones")
        if self.keeps_data and not (self.database.backup_days and self.database.multi_az):
            raise ValueError(f"size {self.name}: keeps_data needs backups and a standby")
        if self.cache.replicas >= self.availability_zones:
            raise ValueError(f"size {self.name}: each node of the cache needs a zone of its own")
        self._fit_connections()
        self._fit_functions()

    def _fit_connections(self) -> None:
        needed = (
            self.max_workers * _CONNECTIONS_PER_WORKER
            + (self.max_consumers + MAX_PUBLISHERS) * _CONNECTIONS_PER_CONSUMER
            + (self.max_control + self.max_storage) * _CONNECTIONS_PER_CONTROL
            + self.api.burst * _CONNECTIONS_PER_REQUEST
            + _CONNECTIONS_OF_JOBS
            + _CONNECTIONS_OF_ROLES
            + _CONNECTIONS_RESERVED
        )
        # A proxy shares connections between statements, so that one serves about ten clients.
        available = self.database.max_connections * (10 if self.database.proxy else 1)
        if needed > available:
            raise ValueError(f"size {self.name}: needs up to {needed} connections, {available} are available")

    def _fit_functions(self) -> None:
        needed = (
            self.max_workers * _FUNCTIONS_PER_WORKER
            + self.max_consumers
            + MAX_PUBLISHERS
            + self.max_control
            + self.max_storage
            + _FUNCTIONS_OF_JOBS
            + _FUNCTIONS_OF_ROLES
            + math.ceil(self.api.rate_per_second * _SECONDS_PER_REQUEST)
        )
        if needed > self.functions_at_once:
            raise ValueError(
                f"size {self.name}: needs up to {needed} concurrent functions, {self.functions_at_once} are allowed"
            )


DEV = Size(
    name="dev",
    keeps_data=False,
    availability_zones=2,
    endpoint_zones=1,
    database=DatabaseSize(
        instance_class="t4g.micro",
        max_connections=112,
        storage_gib=20,
        max_storage_gib=50,
        multi_az=False,
        backup_days=1,
        proxy=False,
    ),
    cache=CacheSize(node_type="cache.t4g.micro", replicas=0, snapshot_days=0),
    api=ApiSize(rate_per_second=10, burst=40, requests_per_day=100_000),
    max_workers=_MIN_CONCURRENCY,
    max_consumers=_MIN_CONCURRENCY,
    max_control=_MIN_CONCURRENCY,
    max_storage=_MIN_CONCURRENCY,
    functions_at_once=29,  # a new account has ten, and more on request (docs/deploy.md)
    reserves_concurrency=False,
    gradual=False,
)
PROD = Size(
    name="prod",
    keeps_data=True,
    availability_zones=2,
    endpoint_zones=2,
    database=DatabaseSize(
        instance_class="m7g.large",
        max_connections=900,
        storage_gib=100,
        max_storage_gib=1000,
        multi_az=True,
        backup_days=14,
        proxy=True,
    ),
    cache=CacheSize(node_type="cache.m7g.large", replicas=1, snapshot_days=7),
    api=ApiSize(rate_per_second=500, burst=1000, requests_per_day=20_000_000),
    max_workers=100,
    max_consumers=20,
    max_control=20,
    max_storage=20,
    functions_at_once=1000,
    reserves_concurrency=True,
    gradual=True,
)
SIZES = {size.name: size for size in (DEV, PROD)}
