"""How a day is shared out among cells, what each of them needs, and what one tenant can do at most; pure.

A cell is one deployment with tenants of its own. A tenant is in one cell as a whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from bench import scale_aws as aws
from bench.scale_day import Day, Run, Units
from bench.scale_model import (
    BUSY_CACHE,
    BUSY_DATABASE,
    FULL,
    FULL_CACHE,
    LARGEST,
    Kind,
    Limit,
    Scope,
    Setting,
    limits,
)

MAX_RATE_PER_MINUTE = 1_000_000
"""The most that a tenant may be given, by the table's check."""


@dataclass(frozen=True, slots=True)
class Cells:
    """How a day is shared out among deployments, and what each of them needs."""

    says: str
    bound_by: Limit
    count: int
    day: Day
    """Of one of them."""
    database: aws.DatabaseClass
    node: aws.CacheNode
    storage_gib: int
    workers: int
    requests_per_second: int

    @property
    def setting(self) -> Setting:
        """What one of them has."""
        return Setting(
            name=f"one of {self.count} cells",
            api_per_second=self.requests_per_second,
            functions_at_once=self.workers + ceil(self.requests_per_second * self.day.request_seconds),
            workers_at_once=self.workers,
            vcpus=self.database.vcpus,
            storage_bytes=self.storage_gib * aws.GIB,
            iops=aws.IOPS_OF_GP3,
            connections=self.database.connections,
            cache_bytes=self.node.memory_gib * aws.GIB,
            shipped=True,
        )


RETENTION = ("tombstones deleted", "runs made tombstones")
"""The two numbers of retention, each of which is one line."""


def shared_out(says: str, units: Units, day: Day, *, without: Sequence[str] = ()) -> Cells:
    """Cells for the day, as many as the limits ask for that a deployment has for itself and nobody can raise."""
    found = [
        limit
        for limit in limits(units, day, LARGEST)
        if limit.scope is Scope.CELL
        and limit.kind in (Kind.HARD, Kind.MODE, Kind.CODE)
        and limit.part not in without
    ]
    count = found[0].cells(day.runs)
    part = day.of(day.runs / count)
    run = Run.of(units, part)
    busy = part.peak_per_second * run.postgres_ms / 1_000
    held = part.runs * run.redis_byte_days / aws.GIB
    return Cells(
        says=says,
        bound_by=found[0],
        count=count,
        day=part,
        database=next(one for one in aws.DATABASES if one.vcpus * BUSY_DATABASE >= busy),
        node=next(one for one in aws.NODES if one.memory_gib * FULL_CACHE >= held),
        storage_gib=ceil(part.runs * run.row_byte_days / aws.GIB / FULL / 100) * 100,
        workers=ceil(part.peak_per_second * part.work_seconds / FULL),
        requests_per_second=ceil(part.peak_per_second * part.requests_a_run / FULL),
    )


def both_ways(units: Units, day: Day) -> tuple[Cells, Cells]:
    """By the code as it is, and with the two numbers of retention raised."""
    return (
        shared_out("the code as it is", units, day),
        shared_out("the two numbers of retention raised", units, day, without=RETENTION),
    )


def hot_tenant(units: Units, day: Day) -> list[tuple[str, float, str]]:
    """What one tenant can do at most, in runs a second: by what, how many, where it stands."""
    run = Run.of(units, day)
    by_rate = MAX_RATE_PER_MINUTE / 60 / day.requests_a_run
    return [
        ("60 requests a minute, which a tenant has if nothing is said", 1 / day.requests_a_run, "`tenants`"),
        ("1,000,000 requests a minute, the most that it may be given", by_rate, "`tenants`"),
        ("the event source, with nobody else in the cell", aws.SOURCE_AT_ONCE / day.work_seconds, "AWS"),
        (
            "one core of Valkey at 80 %, with all of a run's scripts",
            BUSY_CACHE * 1e6 / run.valkey_us,
            "measured",
        ),
        ("S3, before it splits the tenant's prefix", aws.PUTS_PER_SECOND, "AWS"),
    ]
