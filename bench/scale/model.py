"""From measured units (units.json) and an assumed day to limits, cells and costs.

A limit compares what the day needs of a part with what the part bears, in the limit's own unit. All needs are
proportional to the runs, so the used share also gives the runs a day that the part bears. A cell is one deployment with
its own tenants; a tenant belongs to one cell as a whole.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from dpp.lifecycle.config import CleanerSettings
from dpp.lifecycle.retention.periods import Retention
from dpp.runs.jobs import reconcile, retain
from dpp.runs.jobs.batch import BATCH_LIMIT, TIME_LIMIT_SECONDS
from dpp_cdk.settings.sizes import PROD, ApiSize, Size
from dpp_cdk.settings.timings import RUN_RETENTION
from dpp_cli.docs import costs
from dpp_cli.docs.costs import HOURS, Price

_TABLES = tomllib.loads(Path(__file__).with_name("limits.toml").read_text(encoding="utf-8"))
DATABASES, NODES, PARTS = _TABLES["databases"], _TABLES["nodes"], _TABLES["limits"]
PATH = Path(__file__).with_name("units.json")
DAY_SECONDS, MONTH_DAYS = 86_400, costs.HOURS / 24
AT_REST = 1.5  # measurements at a higher load average are not valid
REFUNDS_PER_MINUTE = BATCH_LIMIT
FREEZE_XIDS = 200_000_000  # transactions until a whole table is vacuumed: Postgres's default
MAX_RATE_PER_MINUTE = 1_000_000  # the highest rate limit of a tenant that the table's check accepts
FULL = 0.8  # a cell is planned to use this share of what it bears, at the peak
CODE, SIZE, DEPLOYMENT = "a number in our code", "a number of the size", "deployment"
FIXED = ("hard", "hard in this mode", CODE)
RETENTION = ("tombstones deleted", "runs made tombstones")

type Units = dict[str, Any]
"""`calls`: mean figures of one call; `xids` are transactions that write. `bytes`: stored in Postgres per run, with
indexes, without gaps; and its entries in two indexes. `redis_overhead`: growth of Redis's memory per byte of keys.
"""


def read_units(path: Path = PATH) -> Units:
    units: Units = json.loads(path.read_text(encoding="utf-8"))
    return units


def write_units(units: Units, path: Path = PATH) -> None:
    """Write with four significant digits."""
    rounded = json.loads(json.dumps(units), parse_float=lambda digits: float(f"{float(digits):.4g}"))
    path.write_text(json.dumps(rounded, indent=2) + "\n", encoding="utf-8")


class Day(NamedTuple):
    """Assumptions. Those that docs/deploy.md makes as well come from `dpp_cli.docs.costs`."""

    runs: float = 1e8
    peak_factor: float = 3.0  # peak rate over mean rate
    polls: int = costs.REQUESTS_A_RUN - 1
    work_seconds: float = costs.WORK_SECONDS
    request_ms: float = float(costs.REQUEST_SECONDS * 1_000)
    envelope_kb: float = costs.ENVELOPE_KB
    log_kb: float = costs.LOG_KB
    runs_per_tenant: float = 10_000
    live_days: float = 30
    tombstone_days: float = Retention().tombstones_days
    inputs_hours: float = 1
    dead_rows: float = 0.2  # between two runs of autovacuum: its scale factor
    random_pages: int = 4  # of 8 KiB, written per run: three indexes, and the row when it expires
    round_trip_ms: float = 1.0  # from a function to the cache or the database in another zone
    commit_ms: float = 2.0  # until the standby has the commit

    @property
    def mean(self) -> float:
        """Runs a second."""
        return self.runs / DAY_SECONDS

    @property
    def peak(self) -> float:
        """Runs a second at the peak."""
        return self.mean * self.peak_factor

    @property
    def requests_per_run(self) -> int:
        """The submit and the polls."""
        return 1 + self.polls


type Limit = SimpleNamespace
"""A row of limits.toml with what the part bears; `used` 1: saturated; `cells`: the deployments that it requires."""
type Setting = dict[str, float]
"""Capacity of one deployment, by the name of the limit."""
LARGEST: Setting = {name: part["most"] for name, part in PARTS.items() if "most" in part}


def setting_of(size: Size) -> Setting:
    """The capacity of a deployment of this size. Raises KeyError if limits.toml lacks a server."""
    names = {"size": size, "DATABASES": DATABASES, "NODES": NODES}
    return {name: evaluated(part["of_size"], names) for name, part in PARTS.items() if "of_size" in part}


class Model:
    """Use of resources by one run, from its submit to the deletion of its tombstone, and by the day.

    `*_byte_days` are bytes times the days for which they are stored.
    """

    def __init__(self, units: Units, day: Day) -> None:
        self.units, self.day, calls = units, day, units["calls"]
        requests = [calls["submit"], *[calls["poll under way"]] * (day.polls - 1), calls["last poll"]]
        every = [*requests, *(calls[name] for name in ("work", "purge", "expire", "delete"))]
        self.used = {figure: sum(call[figure] for call in every) for figure in calls["work"]}
        self.requests_postgres_ms = sum(call["postgres_ms"] for call in requests)
        keys = sum(key["bytes"] * key["ttl_days"] for key in units["redis_keys"])
        self.redis_byte_days = keys * units["redis_overhead"]
        size, days = units["bytes"], day.live_days + day.tombstone_days
        rows = size["run"] * day.live_days + size["tombstone"] * day.tombstone_days
        self.row_byte_days = (rows + size["inputs"] * day.inputs_hours / 24) * (1 + day.dead_rows)
        self.random_index_byte_days = size["living keys' index"] * day.live_days + size["primary key"] * days

    def names(self) -> dict[str, Any]:
        """The names in the formulas of limits.toml. In capitals: constants of our code."""
        calls, day = self.units["calls"], self.day
        ms = {name: call["python_ms"] + call["postgres_ms"] for name, call in calls.items()}
        checks = "balance check", "orphan check"
        trips = {name: call["redis_commands"] + call["commits"] for name, call in calls.items()}
        return {
            **day._asdict(),
            **self.used,
            **{name: getattr(day, name) for name in ("peak", "requests_per_run")},
            **{name: getattr(self, name) for name in ("row_byte_days", "redis_byte_days")},
            "tenants": day.runs / day.runs_per_tenant,
            "expire_ms": ms["expire"],
            "purge_ms": ms["purge"],
            "check_ms": max(ms[one] + trips[one] * day.round_trip_ms for one in checks),
            "ticks": DAY_SECONDS / RUN_RETENTION.every_seconds,
            "JOB_MS": TIME_LIMIT_SECONDS * 1_000,
            "SCAN_MS": reconcile.SCAN_SECONDS * 1_000,
            "EXPIRE_LIMIT": retain._EXPIRE_LIMIT,
            "PURGE_BATCH": retain._PURGE_BATCH,
            "MAX_DELETES": CleanerSettings.model_fields["max_deletes"].default,
        }

    def needs(self) -> dict[str, float]:
        return {name: evaluated(part["needs"], self.names()) for name, part in PARTS.items()}

    def limits(self, has: Setting = LARGEST) -> list[Limit]:
        """Every limit; the one that saturates first comes first."""
        found = []
        for name, needs in self.needs().items():
            part = {"limit_of": DEPLOYMENT, "share": 1, **PARTS[name]}
            part["kind"] = SIZE if name in has and has is not LARGEST else part["kind"]
            bears = evaluated(part["bears"], self.names()) if "bears" in part else (LARGEST | has)[name]
            part |= {"needs": needs, "bears": bears * part["share"]}
            used = needs / part["bears"]
            cells = ceil(used / FULL) if part["limit_of"] == DEPLOYMENT else ""
            found.append(SimpleNamespace(**part, used=used, runs_per_day=self.day.runs / used, cells=cells))
        return sorted(found, key=lambda limit: -limit.used)


def evaluated(formula: str, names: Mapping[str, Any]) -> Any:
    """The value of a formula of this folder's tables."""
    return eval(formula, dict(names))  # noqa: S307 - committed files, not input


class Cells:
    """A day divided among deployments, and the servers of each.

    As many as the limits require that each deployment has for itself and that cannot be raised.
    """

    def __init__(self, label: str, whole: Model, without: Sequence[str] = ()) -> None:
        found = (one for one in whole.limits() if one.limit_of == DEPLOYMENT and one.kind in FIXED)
        self.label, self.bound_by = label, next(one for one in found if one.part not in without)
        self.count = int(self.bound_by.cells)
        self.day = whole.day._replace(runs=whole.day.runs / self.count)
        self.model = Model(whole.units, self.day)
        needs, share = self.model.needs(), {name: PARTS[name]["share"] for name in ("vcpus", "cache_gib")}
        self.database = next(one for one in DATABASES if DATABASES[one][0] * share["vcpus"] >= needs["vcpus"])
        self.vcpus, self.memory_gib, self.connections, self.database_usd = DATABASES[self.database]
        self.node = next(one for one in NODES if NODES[one][0] * share["cache_gib"] >= needs["cache_gib"])
        self.storage_gib = ceil(needs["storage_tib"] * 1_024 / FULL / 100) * 100
        self.workers, self.rate = (ceil(needs[name] / FULL) for name in ("source_workers", "api_requests"))
        self.functions = (self.workers + ceil(self.rate * self.day.request_ms / 1_000)) * self.count

    @property
    def size(self) -> Size:
        """One of them. Raises ValueError if its numbers do not fit each other."""
        server = replace(PROD.database, instance_class=self.database, max_connections=self.connections)
        return replace(
            PROD,
            database=replace(server, storage_gib=self.storage_gib, max_storage_gib=self.storage_gib),
            cache=replace(PROD.cache, node_type=self.node),
            api=ApiSize(self.rate, 2 * self.rate, round(self.day.runs * self.day.requests_per_run * 2)),
            max_workers=self.workers,
            functions_at_once=2 * self.workers + self.rate // 10 + 200,
        )


def both_ways(model: Model) -> tuple[Cells, Cells]:
    """With the code as it is, and with its two numbers of retention raised."""
    return Cells("the code as it is", model), Cells("the two numbers of retention raised", model, RETENTION)


class Cost(NamedTuple):
    """One line of the monthly bill."""

    what: str
    price: Price
    quantity: float

    @property
    def usd(self) -> float:
        return float(self.price.usd) * self.quantity


def total(lines: Sequence[Cost]) -> float:
    """US dollars a month."""
    return sum(line.usd for line in lines)


def usage_costs(day: Day) -> list[Cost]:
    """Costs that grow with the runs: each line of docs/deploy.md, per run."""
    scale = day.runs * MONTH_DAYS / costs.RUNS[PROD.name]
    return [Cost(line.what, line.price, float(line.quantity(PROD)) * scale) for line in costs.BY_USE]


def fixed_costs(cells: Cells) -> list[Cost]:
    """Costs of all cells, used or not. A standby or replica costs as much as its primary."""
    hours, size, prices = HOURS * cells.count, cells.size, (cells.database_usd, NODES[cells.node][1])
    database, node = (Price(Decimal(str(usd)), "hour", confirmed=False) for usd in prices)
    replaced = ("RDS PostgreSQL", "RDS Proxy", "ElastiCache")
    others = [line for line in costs.FIXED if not line.what.startswith(replaced)]
    return [
        Cost(f"RDS PostgreSQL db.{cells.database}, instance and standby", database, 2 * hours),
        Cost(f"RDS Proxy, {cells.vcpus} vCPU", price_of("RDS Proxy"), cells.vcpus * hours),
        Cost(f"ElastiCache Valkey {cells.node}, primary and replica", node, 2 * hours),
        *(Cost(line.what, line.price, float(line.quantity(size)) * cells.count) for line in others),
    ]


def price_of(what: str) -> Price:
    """The price in docs/deploy.md of the line that begins so."""
    return next(line.price for line in costs.FIXED if line.what.startswith(what))
