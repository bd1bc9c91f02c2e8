"""From measured units and an assumed day to limits, cells and costs.

A limit compares what the day needs of a part with what the part bears, in the limit's own unit. All needs are
proportional to the runs, so the used share also gives the runs a day that the part bears. A cell is one deployment with
its own tenants; a tenant belongs to one cell as a whole.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from bench.scale.units import DAY_SECONDS, MONTH_DAYS, Day, Units
from dpp.lifecycle.config import CleanerSettings
from dpp.runs.jobs import reconcile, retain
from dpp.runs.jobs.batch import TIME_LIMIT_SECONDS
from dpp_cdk.settings.sizes import PROD, ApiSize, Size
from dpp_cdk.settings.timings import RUN_RETENTION
from dpp_cli.docs import costs
from dpp_cli.docs.costs import HOURS, Price

_TABLES = tomllib.loads(Path(__file__).with_name("limits.toml").read_text(encoding="utf-8"))
DATABASES, NODES, PARTS = _TABLES["databases"], _TABLES["nodes"], _TABLES["limits"]
FULL = 0.8  # a cell is planned to use this share of what it bears, at the peak
CODE, SIZE, DEPLOYMENT = "a number in our code", "a number of the size", "deployment"
FIXED = ("hard", "hard in this mode", CODE)
RETENTION = ("tombstones deleted", "runs made tombstones")

type Limit = SimpleNamespace
"""A row of limits.toml with what the part bears; `used` 1: saturated; `cells`: the deployments that it requires."""
type Setting = dict[str, float]
"""What one deployment has, by the name of the limit."""
LARGEST: Setting = {name: part["most"] for name, part in PARTS.items() if "most" in part}


def setting_of(size: Size) -> Setting:
    """What a deployment of this size has. Raises KeyError if limits.toml lacks a server."""
    gib = size.database.max_storage_gib
    return {
        "api_requests": size.api.rate_per_second,
        "functions_at_once": size.functions_at_once,
        "source_workers": size.max_workers,
        "connections": size.database.max_connections,
        "vcpus": DATABASES[size.database.instance_class][0],
        "storage_tib": gib / 1_024,
        "iops": 3_000 if gib < 400 else 12_000,  # included in the price of gp3
        "cache_gib": NODES[size.cache.node_type][0],
    }


class Model:
    """What one run uses, from its submit to the deletion of its tombstone, and what the day needs.

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
        """What the day needs of each part."""
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
    """How a day is divided among deployments, and what each of them needs.

    As many as the limits require that each deployment has for itself and that nobody can raise.
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
    """What grows with the runs: each line of docs/deploy.md, per run."""
    scale = day.runs * MONTH_DAYS / costs.RUNS[PROD.name]
    return [Cost(line.what, line.price, float(line.quantity(PROD)) * scale) for line in costs.BY_USE]


def fixed_costs(cells: Cells) -> list[Cost]:
    """What all cells cost, used or not. A standby or replica costs as much as its primary."""
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
