"""The two sizes (`-c size=dev|prod`), as data, and the relations between their numbers.

`dev` costs little and can be torn down wholly; `prod` survives the loss of a zone, keeps its data and rolls back.
"""

import math
from dataclasses import dataclass

_CONNECTIONS_PER_WORKER = 2  # the run's, and the heartbeat's
_CONNECTIONS_PER_REQUEST = 1
_CONNECTIONS_PER_CONSUMER = 1  # of events, and of what wakes their publisher
_CONNECTIONS_PER_CONTROL = 1  # of workspaces, and of their storage
_CONNECTIONS_OF_JOBS = 12  # six jobs, one of each at a time, with a second connection for their scans
_CONNECTIONS_OF_ROLES = (
    7  # the sentinel, and two of the king, general and envoy each: by the clock, and woken
)
_CONNECTIONS_RESERVED = 10  # for the superuser, the migration and an operator
_FUNCTIONS_PER_WORKER = 2  # the worker, and the pack outside that it waits for
_FUNCTIONS_OF_JOBS = 6
_FUNCTIONS_OF_ROLES = 10  # as their connections, and the way outside for the sentinel and both envoys
_SECONDS_PER_REQUEST = 0.1  # twice what one takes on average, so that a cold start or two fit in
_LEAST_OF_A_QUEUE, _MOST_OF_A_QUEUE = 2, 1000  # how many functions an event source keeps busy

MAX_PUBLISHERS = _LEAST_OF_A_QUEUE
"""Of the outbox, in any size: one that is woken publishes for all."""


@dataclass(frozen=True)
class DatabaseSize:
    """RDS. `max_connections`: what the class gives by its default formula, `memory / 9531392`, rounded down."""

    instance_class: str
    max_connections: int
    storage_gib: int
    max_storage_gib: int
    multi_az: bool
    backup_days: int
    proxy: bool


@dataclass(frozen=True)
class CacheSize:
    """ElastiCache. `replicas` beyond the primary; with one or more a failover is automatic."""

    node_type: str
    replicas: int
    snapshot_days: int

    @property
    def nodes(self) -> int:
        """The primary and its replicas."""
        return 1 + self.replicas

    @property
    def fails_over(self) -> bool:
        """True when a node that is lost is replaced by its replica."""
        return self.replicas > 0


@dataclass(frozen=True)
class ApiSize:
    """What the gateway lets through: requests a second, and how many at once above that."""

    rate_per_second: int
    burst: int
    requests_per_day: int


@dataclass(frozen=True)
class Size:
    """One size.

    `max_workers`: of runs. `max_consumers`: of the events of authentication errors. `max_control`, `max_storage`: of
    the looks at workspaces, and of what takes long there.
    `functions_at_once`: the account's quota ("Concurrent executions"), of which workers, the packs that they wait for,
    publishers, consumers, jobs, roles and requests must find their share: what is refused is a client's 500, or a
    receive that counts towards the dead letters. `reserves_concurrency`: an account that may
    run few functions at once can reserve none of them; a new one may run ten, and asks for more (docs/deploy.md).
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
            if not _LEAST_OF_A_QUEUE <= busy <= _MOST_OF_A_QUEUE:
                raise ValueError(
                    f"an event source keeps {_LEAST_OF_A_QUEUE} to {_MOST_OF_A_QUEUE} functions busy:"
                    f" {busy} ({self.name})"
                )
        if self.availability_zones < 2:
            raise ValueError(f"RDS asks for subnets in two zones: {self.name}")
        if self.keeps_data and not (self.database.backup_days and self.database.multi_az):
            raise ValueError(f"what keeps data has backups and a standby: {self.name}")
        if self.cache.replicas >= self.availability_zones:
            raise ValueError(f"each node of the cache stands in a zone of its own: {self.name}")
        self._fit_connections()
        self._fit_functions()

    def _fit_connections(self) -> None:
        wanted = (
            self.max_workers * _CONNECTIONS_PER_WORKER
            + (self.max_consumers + MAX_PUBLISHERS) * _CONNECTIONS_PER_CONSUMER
            + (self.max_control + self.max_storage) * _CONNECTIONS_PER_CONTROL
            + self.api.burst * _CONNECTIONS_PER_REQUEST
            + _CONNECTIONS_OF_JOBS
            + _CONNECTIONS_OF_ROLES
            + _CONNECTIONS_RESERVED
        )
        # A proxy shares connections between statements, so that ten clients do with one.
        given = self.database.max_connections * (10 if self.database.proxy else 1)
        if wanted > given:
            raise ValueError(f"{self.name}: {wanted} connections wanted at the worst, {given} given")

    def _fit_functions(self) -> None:
        wanted = (
            self.max_workers * _FUNCTIONS_PER_WORKER
            + self.max_consumers
            + MAX_PUBLISHERS
            + self.max_control
            + self.max_storage
            + _FUNCTIONS_OF_JOBS
            + _FUNCTIONS_OF_ROLES
            + math.ceil(self.api.rate_per_second * _SECONDS_PER_REQUEST)
        )
        if wanted > self.functions_at_once:
            raise ValueError(
                f"{self.name}: {wanted} functions at once at the worst, {self.functions_at_once} allowed"
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
    max_workers=_LEAST_OF_A_QUEUE,
    max_consumers=_LEAST_OF_A_QUEUE,
    max_control=_LEAST_OF_A_QUEUE,
    max_storage=_LEAST_OF_A_QUEUE,
    functions_at_once=29,  # a new account has ten, and asks for more (docs/deploy.md)
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
