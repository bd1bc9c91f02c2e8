"""Writes the monthly cost of a deployment into docs/deploy.md: `python -m dpp_cli.docs.costs`.

Nodes, zones and gigabytes come from `cdk/dpp_cdk/settings/sizes.py`; what depends on use is assumed here. Prices are
the list prices of us-east-1 in US dollars, without free tiers, discounts and taxes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING

from dpp.lifecycle.retention.periods import Retention
from dpp_cli.docs.marked import rewritten
from dpp_cli.paths import ROOT, importable

if TYPE_CHECKING:
    from dpp_cdk.settings.sizes import Size

PATH = ROOT / "docs" / "deploy.md"
END = "<!-- end of the costs -->"

HOURS = 730
"""Hours of a month, as in AWS's pricing calculator."""
INTERFACE_ENDPOINTS = 4
ALARMS = {"dev": 93, "prod": 108}
METRIC_SERIES = 129
RUNS = {"dev": 1_000, "prod": 1_000_000}

REQUESTS_A_RUN = 6
"""One submit, five polls."""
REQUEST_SECONDS = Decimal("0.05")
WORK_SECONDS = 2
ENVELOPE_KB, LOG_KB = 20, 8
_FIRINGS = 7 * HOURS * 60  # five jobs, one of which runs twice a minute, and the outbox's publisher
_REQUEST_GB_SECONDS = Decimal("0.5") * REQUEST_SECONDS
_WORK_GB_SECONDS = Decimal(1769) / 1024 * WORK_SECONDS
_FIRING_GB_SECONDS = Decimal("0.5") * Decimal("0.2")
_POLLS = 4 * 5 * HOURS * 3600 // 20  # four event sources, five pollers each, 20 s a poll
_TICKS = 2 * 3 * HOURS * 60  # sent, received, deleted, once a minute: the reaper's and the publisher's
_REPORT_WRITES = 2 * HOURS * 60  # a snapshot and `latest` per run of the reaper
_KB = Decimal("0.000001")  # in GB
_LOG_DAYS = Retention().logs_days
_LOG_TAKEN_IN, _LOG_KEPT_A_MONTH = Decimal("0.50"), Decimal("0.03")

ASSUMPTIONS = f"""Per month: {RUNS["dev"]:,} runs in dev, {RUNS["prod"]:,} in prod. A run: {REQUESTS_A_RUN} requests \
of {REQUEST_SECONDS * 1_000:.0f} ms, {WORK_SECONDS} s of work, an envelope of {ENVELOPE_KB} KB that is kept 30 days \
and fetched once, {LOG_KB} KB of logs, no model. Jobs: {_FIRINGS:,} ticks of 200 ms with 2 KB of logs each, a report \
of the ticket reaper each minute. {METRIC_SERIES} metric series. {HOURS} hours."""

# Additional cost of workspaces.
WORKSPACE_ENDPOINTS = 5
WORKSPACE_ALARMS = {"dev": 16, "prod": 19}
WORKSPACE_SERIES = 60
WORKSPACES = {"dev": 2, "prod": 100}

_RUN_HOURS = 160  # a month of work
_HOME_GB, _ARCHIVE_GB = 5, 2
_MOVES = 2  # archives and restores per month
_WORKSPACE_FIRINGS = 4 * HOURS * 60  # a tick and a page of the fleet, twice a minute
_LOOK_GB_SECONDS = Decimal("0.5") * Decimal("0.5")
_MOVE_GB_SECONDS = Decimal(1769) / 1024 * 300  # a home archived, read back and restored: assumed, not measured
_WORKSPACE_POLLS = 2 * 5 * HOURS * 3600 // 20  # two event sources more
_INSIGHTS_SERIES = 17  # of each service and each family of tasks, by the hours that they run

WORKSPACE_ASSUMPTIONS = f"""Per month, with {WORKSPACES["dev"]} workspaces in dev and {WORKSPACES["prod"]} in prod. \
Each: one CPU and 2 GB that run {_RUN_HOURS} hours, a home of {_HOME_GB} GB on its volume all month, an archive of \
{_ARCHIVE_GB} GB, archived and restored {_MOVES} times. {WORKSPACE_SERIES} platform metric series, and of Container \
Insights {_INSIGHTS_SERIES} a workspace while it runs."""

# Additional cost of the event flow's roles.
LIFECYCLE_ALARMS = {"dev": 27, "prod": 29}
LIFECYCLE_SERIES = 50
_ROLE_FIRINGS = 5 * HOURS * 60  # four roles, one of which runs twice a minute
_ASKED = 2 * HOURS * 60  # both sources, each minute
_ASKED_GB_SECONDS = Decimal("0.5") * Decimal("0.5")

LIFECYCLE_ASSUMPTIONS = f"""Per month, without the runs of the tasks, each at the price of a run: \
{_ROLE_FIRINGS:,} ticks of 200 ms and {_ASKED:,} requests to GitHub and Jira of 500 ms, with 2 KB of logs each. \
{LIFECYCLE_SERIES} metric series."""


@dataclass(frozen=True)
class Price:
    """A list price. `confirmed`: found in a source that docs/deploy.md names."""

    usd: Decimal
    per: str
    confirmed: bool = True


@dataclass(frozen=True)
class Line:
    """One line of the bill: an item and its number of units."""

    what: str
    price: Price
    quantity: Callable[["Size"], Decimal | int]

    def usd(self, size: "Size") -> Decimal:
        """Compute the monthly cost in cents. Raises KeyError if a part of the size has no known price."""
        return (self.price.usd * self.quantity(size)).quantize(Decimal("0.01"), ROUND_HALF_UP)


def _priced(usd: str, per: str, *, confirmed: bool = True) -> Price:
    return Price(Decimal(usd), per, confirmed)


_LOGS = Price((_LOG_TAKEN_IN + _LOG_KEPT_A_MONTH * _LOG_DAYS / 30).quantize(Decimal("0.001")), "GB")
"""Price of logs: ingested once, kept for the retention period."""

_GB_SECOND = _priced("0.0000133334", "GB-second")
_INVOCATION = _priced("0.0000002", "request")
_SQS_REQUEST = _priced("0.0000004", "request", confirmed=False)
_ALARM = _priced("0.10", "alarm")
_SERIES = _priced("0.30", "series")
_ENDPOINT = _priced("0.01", "hour and zone")
_SECRET = _priced("0.40", "secret")
_S3_WRITE = _priced("0.000005", "request", confirmed=False)
_S3_STORED = _priced("0.023", "GB", confirmed=False)

_INSTANCES = {"t4g.micro": _priced("0.016", "hour"), "m7g.large": _priced("0.168", "hour", confirmed=False)}
_NODES = {"cache.t4g.micro": _priced("0.0128", "hour"), "cache.m7g.large": _priced("0.1264", "hour", confirmed=False)}


def _instance(name: str) -> Line:
    """A standby costs what the instance costs."""
    return Line(
        f"RDS PostgreSQL db.{name}, instance and standby",
        _INSTANCES[name],
        lambda size: (HOURS * (1 + size.database.multi_az)) if size.database.instance_class == name else 0,
    )


def _node(name: str) -> Line:
    return Line(
        f"ElastiCache Valkey {name}",
        _NODES[name],
        lambda size: HOURS * size.cache.nodes if size.cache.node_type == name else 0,
    )


def _runs(size: "Size") -> int:
    return RUNS[size.name]


FIXED: Sequence[Line] = (
    *(_instance(name) for name in _INSTANCES),
    Line(
        "RDS storage gp3, with the standby's",
        _priced("0.115", "GB"),
        lambda size: size.database.storage_gib * (1 + size.database.multi_az),
    ),
    Line("RDS Proxy, two vCPU", _priced("0.015", "vCPU hour"), lambda size: 2 * HOURS if size.database.proxy else 0),
    *(_node(name) for name in _NODES),
    Line(
        "Interface endpoints (SQS, Secrets Manager, STS, Lambda)",
        _ENDPOINT,
        lambda size: INTERFACE_ENDPOINTS * size.endpoint_zones * HOURS,
    ),
    Line("Secrets", _SECRET, lambda _: 2),
    Line("CloudWatch alarms", _ALARM, lambda size: ALARMS[size.name]),
    Line("CloudWatch metrics", _SERIES, lambda _: METRIC_SERIES),
    Line("CloudWatch dashboard", _priced("3.00", "dashboard"), lambda _: 1),
    Line("Jobs: Lambda arm64", _GB_SECOND, lambda _: _FIRINGS * _FIRING_GB_SECONDS),
    Line("Jobs: Lambda requests", _INVOCATION, lambda _: _FIRINGS),
    Line("Jobs: logs", _LOGS, lambda _: _FIRINGS * 2 * _KB),
    Line("Jobs: S3 writes of reports", _S3_WRITE, lambda _: _REPORT_WRITES),
    Line("SQS, empty receives", _SQS_REQUEST, lambda _: _POLLS + _TICKS),
)
"""Fixed costs, which do not depend on use."""

BY_USE: Sequence[Line] = (
    Line("API Gateway REST", _priced("0.0000035", "request"), lambda size: _runs(size) * REQUESTS_A_RUN),
    Line(
        "Lambda arm64", _GB_SECOND, lambda size: _runs(size) * (REQUESTS_A_RUN * _REQUEST_GB_SECONDS + _WORK_GB_SECONDS)
    ),
    Line("Lambda requests", _INVOCATION, lambda size: _runs(size) * (REQUESTS_A_RUN + 1)),
    Line("SQS", _SQS_REQUEST, lambda size: _runs(size) * 3),
    Line("S3 storage", _S3_STORED, lambda size: _runs(size) * ENVELOPE_KB * _KB),
    Line("S3 writes", _S3_WRITE, _runs),
    Line("S3 reads", _priced("0.0000004", "request", confirmed=False), _runs),
    Line(f"Logs, taken in and kept {_LOG_DAYS} days", _LOGS, lambda size: _runs(size) * LOG_KB * _KB),
    Line("Endpoint traffic", _priced("0.01", "GB"), lambda size: _runs(size) * 10 * _KB),
    Line("Traffic to the internet", _priced("0.09", "GB", confirmed=False), lambda size: _runs(size) * 30 * _KB),
)
"""Costs per run."""


def _workspaces(size: "Size") -> int:
    return WORKSPACES[size.name]


OF_WORKSPACES: Sequence[Line] = (
    Line(
        "Interface endpoints (ECS, EFS, ECR twice, logs)",
        _ENDPOINT,
        lambda size: WORKSPACE_ENDPOINTS * size.endpoint_zones * HOURS,
    ),
    Line("CloudWatch alarms", _ALARM, lambda size: WORKSPACE_ALARMS[size.name]),
    Line("CloudWatch metrics", _SERIES, lambda _: WORKSPACE_SERIES),
    Line("Scans: Lambda arm64", _GB_SECOND, lambda _: _WORKSPACE_FIRINGS * _LOOK_GB_SECONDS),
    Line("Scans: logs", _LOGS, lambda _: _WORKSPACE_FIRINGS * 2 * _KB),
    Line("SQS, receives and sends", _SQS_REQUEST, lambda _: _WORKSPACE_POLLS + 3 * _WORKSPACE_FIRINGS),
    Line("Fargate, Linux on arm64: CPU", _priced("0.03238", "vCPU hour"), lambda size: _workspaces(size) * _RUN_HOURS),
    Line(
        "Fargate, Linux on arm64: memory",
        _priced("0.00356", "GB hour"),
        lambda size: _workspaces(size) * _RUN_HOURS * 2,
    ),
    Line(
        "Container Insights",
        _priced("0.30", "series", confirmed=False),
        lambda size: _workspaces(size) * _INSIGHTS_SERIES * Decimal(_RUN_HOURS) / HOURS,
    ),
    Line("EFS storage", _priced("0.30", "GB"), lambda size: _workspaces(size) * _HOME_GB),
    Line("EFS, read to archive", _priced("0.03", "GB"), lambda size: _workspaces(size) * _HOME_GB * _MOVES),
    Line("EFS, written to restore", _priced("0.06", "GB"), lambda size: _workspaces(size) * _HOME_GB * _MOVES),
    Line("S3 storage of archives", _S3_STORED, lambda size: _workspaces(size) * _ARCHIVE_GB),
    Line("Homes: Lambda arm64", _GB_SECOND, lambda size: _workspaces(size) * _MOVES * _MOVE_GB_SECONDS),
)
"""Additional costs of workspaces."""

OF_LIFECYCLE: Sequence[Line] = (
    Line("Secret", _SECRET, lambda _: 1),
    Line("CloudWatch alarms", _ALARM, lambda size: LIFECYCLE_ALARMS[size.name]),
    Line("CloudWatch metrics", _SERIES, lambda _: LIFECYCLE_SERIES),
    Line(
        "Roles: Lambda arm64", _GB_SECOND, lambda _: _ROLE_FIRINGS * _FIRING_GB_SECONDS + 2 * _ASKED * _ASKED_GB_SECONDS
    ),
    Line("Roles: Lambda requests", _INVOCATION, lambda _: _ROLE_FIRINGS + _ASKED),
    Line("Roles: logs", _LOGS, lambda _: (_ROLE_FIRINGS + _ASKED) * 2 * _KB),
    Line("SQS, receives and sends", _SQS_REQUEST, lambda _: 5 * HOURS * 3600 // 20 + 3 * HOURS * 60),
)
"""Additional costs of the event flow. A role is also paid for while it waits for the outside function."""


@dataclass(frozen=True)
class Bill:
    """A table of docs/deploy.md: its assumptions, and its parts by the name of their sums. `total`: the last sum."""

    name: str
    assumptions: str
    parts: Mapping[str, Sequence[Line]]
    total: str | None = None

    @property
    def begin(self) -> str:
        """The mark before the table."""
        return f"<!-- {self.name}: python -m dpp_cli.docs.costs -->"

    def render(self) -> str:
        """Render assumptions and table."""
        sizes = _sizes()
        rows = [self.assumptions, "", *_head(sizes)]
        for name, lines in self.parts.items():
            rows += [*(_row(line, sizes) for line in lines), _sum(name, lines, sizes)]
        if self.total is not None:
            rows.append(_sum(self.total, [line for lines in self.parts.values() for line in lines], sizes))
        return "\n".join(rows)


PLATFORM = Bill("costs", ASSUMPTIONS, {"fixed": FIXED, "per use": BY_USE}, total="a month")
WORKSPACES_BILL = Bill("costs of workspaces", WORKSPACE_ASSUMPTIONS, {"a month, in addition": OF_WORKSPACES})
LIFECYCLE_BILL = Bill("costs of the flow", LIFECYCLE_ASSUMPTIONS, {"a month, in addition": OF_LIFECYCLE})


def total(lines: Sequence[Line], size: "Size") -> Decimal:
    """Sum the lines as shown, each rounded to the cent."""
    return sum((line.usd(size) for line in lines), Decimal())


def written_into(page: str) -> str:
    """Replace the page's tables with current ones. Raises ValueError without the marks."""
    for bill in (PLATFORM, WORKSPACES_BILL, LIFECYCLE_BILL):
        page = rewritten(page, bill.begin, bill.render(), END, PATH)
    return page


def _head(sizes: Sequence["Size"]) -> list[str]:
    names = " | ".join(f"{size.name}: units | {size.name}: USD" for size in sizes)
    return [f"| | unit price, USD | {names} |", "|---|---|" + "--:|--:|" * len(sizes)]


def _row(line: Line, sizes: Sequence["Size"]) -> str:
    mark = "" if line.price.confirmed else "†"
    cells = [f"{line.quantity(size):,.0f} | {line.usd(size):,.2f}" for size in sizes]
    return f"| {line.what} | {line.price.usd:f}{mark} / {line.price.per} | {' | '.join(cells)} |"


def _sum(what: str, lines: Sequence[Line], sizes: Sequence["Size"]) -> str:
    cells = [f"| **{total(lines, size):,.2f}**" for size in sizes]
    return f"| **{what}** | | {' | '.join(cells)} |"


def _sizes() -> Sequence["Size"]:
    """Import from `cdk/`, which is in the checkout but not in this package."""
    importable(ROOT / "cdk")
    from dpp_cdk.settings.sizes import SIZES  # noqa: PLC0415

    return tuple(SIZES.values())


if __name__ == "__main__":
    PATH.write_text(written_into(PATH.read_text(encoding="utf-8")), encoding="utf-8")
