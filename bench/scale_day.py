"""What a run was measured to take, and the day that is assumed; pure. What bench/scale_model.py reckons with."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from dpp.lifecycle.retention.periods import Retention
from dpp_cli.docs import costs

PATH = Path(__file__).with_name("scale_units.json")
DAY_SECONDS = 86_400
MONTH_DAYS = costs.HOURS / 24
"""As AWS's own calculator has a month."""
AT_REST = 1.5
"""A load above it spoils what is measured."""


@dataclass(frozen=True, slots=True)
class Phase:
    """What one call takes, on average. `xids`: transaction ids, one for each statement that writes."""

    python_ms: float
    postgres_ms: float
    valkey_us: float
    commits: float
    xids: float
    wal_bytes: float
    redis_commands: float
    sqs_sends: float
    s3_puts: float
    log_bytes: float


@dataclass(frozen=True, slots=True)
class Rows:
    """Bytes a run in Postgres, with indexes. `packed`: written anew and without a gap. `grown`: as the run left it,
    after VACUUM.
    """

    run_packed: float
    run_grown: float
    inputs_packed: float
    inputs_grown: float
    tombstone_packed: float
    living_key_index: float
    """Of the run's: its entry in the index of living idempotency keys."""
    primary_key_index: float


@dataclass(frozen=True, slots=True)
class RedisKey:
    """One kind of key that a run leaves."""

    kind: str
    bytes: float
    """With its name, a run."""
    ttl_seconds: int


@dataclass(frozen=True, slots=True)
class Units:
    """What was measured. `polls` are those of a run under way, `answers` that of one that has ended."""

    measured_at: str
    machine: str
    software: str
    load_before: float
    load_after: float
    runs: int
    post: Phase
    poll: Phase
    work: Phase
    answer: Phase
    purge: Phase
    expire: Phase
    delete: Phase
    rows: Rows
    redis_keys: Sequence[RedisKey]
    redis_overhead: float
    """Memory that Redis says it uses more, over the sum of what it says of each key."""
    look_for_lost: Phase
    look_for_orphans: Phase
    """Of a tenant, by reconcile, each minute."""

    @classmethod
    def read(cls, path: Path = PATH) -> Self:
        """As they were written."""
        return cls.of(json.loads(path.read_text(encoding="utf-8")))

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """From JSON's own types."""
        phases = [name for name, kind in cls.__annotations__.items() if kind is Phase]
        return cls(
            **{
                **found,
                **{name: Phase(**found[name]) for name in phases},
                "rows": Rows(**found["rows"]),
                "redis_keys": tuple(RedisKey(**key) for key in found["redis_keys"]),
            }
        )

    def write(self, path: Path = PATH) -> None:
        """For those who read them here."""
        path.write_text(json.dumps(_rounded(asdict(self)), indent=2) + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    """No figure has more than four digits that mean something."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class Day:
    """A day as it is assumed. What docs/deploy.md assumes, too, is taken from `dpp_cli.docs.costs` where it can be."""

    runs: float = 1e8
    peak_factor: float = 3.0
    """The busiest moment, over the mean."""
    polls: int = costs.REQUESTS_A_RUN - 1
    work_seconds: float = costs.WORK_SECONDS
    request_seconds: float = float(costs.REQUEST_SECONDS)
    envelope_bytes: float = costs.ENVELOPE_KB * 1_000
    log_bytes: float = costs.LOG_KB * 1_000
    runs_a_tenant: float = 10_000
    live_days: float = 30
    tombstone_days: float = Retention().tombstones_days
    inputs_hours: float = 1
    bloat: float = 1.2
    """Room that dead rows take between two runs of autovacuum, whose scale factor is 0.2."""
    random_pages: int = 4
    """Pages a run that lie anywhere in an index or table: three entries by random id, and the row once it expires."""
    page_bytes: int = 8_192
    round_trip_ms: float = 1.0
    """From a function to the cache or the database, in another zone."""
    commit_ms: float = 2.0
    """Until the standby has a commit, too."""

    @property
    def mean_per_second(self) -> float:
        """Runs."""
        return self.runs / DAY_SECONDS

    @property
    def peak_per_second(self) -> float:
        """Runs, at the busiest moment."""
        return self.mean_per_second * self.peak_factor

    @property
    def requests_a_run(self) -> int:
        """One submit and the polls."""
        return 1 + self.polls

    @property
    def tenants(self) -> float:
        """How many there are."""
        return self.runs / self.runs_a_tenant

    def of(self, runs: float) -> "Day":
        """The same with so many runs."""
        return replace(self, runs=runs)


@dataclass(frozen=True, slots=True)
class Run:
    """What one run takes from its submit to the deletion of its tombstone, by the units and the day."""

    postgres_ms: float
    postgres_ms_of_requests: float
    postgres_ms_of_work: float
    valkey_us: float
    python_ms: float
    commits: float
    xids: float
    wal_bytes: float
    random_iops: float
    redis_commands: float
    redis_byte_days: float
    row_byte_days: float
    hot_index_bytes: float
    log_bytes: float

    @classmethod
    def of(cls, units: Units, day: Day) -> Self:
        """Add it all up. `*_byte_days`: what stands for each run a day."""
        polls = day.polls - 1
        requests = (units.post, *([units.poll] * polls), units.answer)
        later = (units.purge, units.expire, units.delete)
        phases = (*requests, units.work, *later)

        def total(name: str, among: Sequence[Phase] = phases) -> float:
            return float(sum(getattr(phase, name) for phase in among))

        rows = units.rows
        live = rows.run_packed * day.live_days + rows.tombstone_packed * day.tombstone_days
        inputs = rows.inputs_packed * (day.inputs_hours / 24)
        keys = sum(key.bytes * key.ttl_seconds for key in units.redis_keys) / DAY_SECONDS
        return cls(
            postgres_ms=total("postgres_ms"),
            postgres_ms_of_requests=total("postgres_ms", requests),
            postgres_ms_of_work=total("postgres_ms", (units.work,)),
            valkey_us=total("valkey_us"),
            python_ms=total("python_ms", (*requests, units.work)),
            commits=total("commits"),
            xids=total("xids"),
            wal_bytes=total("wal_bytes") + day.random_pages * day.page_bytes,
            random_iops=2.0 * day.random_pages,
            redis_commands=total("redis_commands"),
            redis_byte_days=keys * units.redis_overhead,
            row_byte_days=(live + inputs) * day.bloat,
            hot_index_bytes=rows.living_key_index * day.live_days
            + rows.primary_key_index * (day.live_days + day.tombstone_days),
            log_bytes=total("log_bytes", (*requests, units.work)),
        )
