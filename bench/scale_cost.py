"""The cost of a day's runs by part, with the prices of `dpp_cli.docs.costs`, and the servers that a cell needs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from bench import scale_aws as aws
from bench.scale_cells import Cells
from bench.scale_day import MONTH_DAYS, Day, Run, Units
from dpp_cdk.settings.sizes import PROD, ApiSize, Size
from dpp_cli.docs import costs
from dpp_cli.docs.costs import HOURS, Line, Price

_BURST = 2
"""Of the gateway, times its rate; as prod has it."""
_OF_SERVERS = ("RDS PostgreSQL", "RDS Proxy", "ElastiCache")
_FUNCTIONS_BESIDES = 200


@dataclass(frozen=True, slots=True)
class Cost:
    """One line of the bill, in US dollars a month."""

    what: str
    price: Price
    units_a_month: Decimal
    usd_a_month: Decimal

    @property
    def usd_a_day(self) -> Decimal:
        """A month has 730 hours."""
        return self.usd_a_month / Decimal(MONTH_DAYS)


def _cost(what: str, price: Price, units_a_month: Decimal | int | float) -> Cost:
    quantity = Decimal(str(units_a_month))
    return Cost(what, price, quantity, price.usd * quantity)


def by_use(day: Day) -> list[Cost]:
    """What grows with the runs, whoever carries them: each line of docs/deploy.md, by the run."""
    runs_a_month = Decimal(str(day.runs)) * Decimal(str(MONTH_DAYS))
    assumed = costs.RUNS[PROD.name]
    return [
        _cost(line.what, line.price, Decimal(line.quantity(PROD)) / assumed * runs_a_month)
        for line in costs.BY_USE
    ]


def size_of(cells: Cells) -> Size:
    """A cell as a size, which refuses numbers that do not fit each other."""
    rate = cells.requests_per_second
    return replace(
        PROD,
        database=replace(
            PROD.database,
            instance_class=cells.database.name,
            max_connections=cells.database.connections,
            storage_gib=cells.storage_gib,
            max_storage_gib=cells.storage_gib,
        ),
        cache=replace(PROD.cache, node_type=cells.node.name),
        api=ApiSize(rate, _BURST * rate, round(cells.day.runs * cells.day.requests_a_run * 2)),
        max_workers=cells.workers,
        functions_at_once=2 * cells.workers + rate // 10 + _FUNCTIONS_BESIDES,
    )


def standing(cells: Cells) -> list[Cost]:
    """What stands in all cells, used or not."""
    size = size_of(cells)
    own = [
        Line(
            f"RDS PostgreSQL db.{cells.database.name}, instance and standby",
            cells.database.price,
            lambda _: 2 * HOURS,
        ),
        Line(
            f"RDS Proxy, {cells.database.vcpus} vCPU",
            next(line.price for line in costs.STANDING if line.what.startswith("RDS Proxy")),
            lambda _: cells.database.vcpus * HOURS,
        ),
        Line(
            f"ElastiCache Valkey {cells.node.name}, primary and replica",
            cells.node.price,
            lambda size: size.cache.nodes * HOURS,
        ),
    ]
    others = [line for line in costs.STANDING if not line.what.startswith(_OF_SERVERS)]
    return [
        _cost(line.what, line.price, Decimal(line.quantity(size)) * cells.count) for line in (*own, *others)
    ]


def grouped(lines: list[Cost], least_usd: int = 1_000) -> Iterator[Cost | tuple[str, Decimal]]:
    """The lines that count, and the sum of the others."""
    yield from (line for line in lines if line.usd_a_month >= least_usd)
    rest = [line for line in lines if line.usd_a_month < least_usd]
    if rest:
        yield f"{len(rest)} smaller line{'s' * (len(rest) > 1)}", total(rest)


def total(lines: list[Cost]) -> Decimal:
    """US dollars a month."""
    return sum((line.usd_a_month for line in lines), Decimal())


@dataclass(frozen=True, slots=True)
class Storage:
    """What Postgres's storage costs a month, without instances."""

    rds_usd: Decimal
    aurora_usd: Decimal
    aurora_ios_usd: Decimal


def storage(units: Units, day: Day) -> Storage:
    """On RDS, which keeps a second copy for the standby, and on Aurora, which asks for each write and read.

    Aurora writes no pages, only the log: a commit is one I/O at least, and one more for each 4 KB.
    """
    run = Run.of(units, day)
    gigabytes = Decimal(str(day.runs * run.row_byte_days / aws.GIB))
    logged = (run.wal_bytes - day.random_pages * day.page_bytes) / aws.AURORA_IO_BYTES
    ios = Decimal(str((run.xids + logged + day.random_pages) * day.runs * MONTH_DAYS / 1e6))
    gp3 = next(line.price for line in costs.STANDING if line.what.startswith("RDS storage"))
    return Storage(
        2 * gigabytes * gp3.usd, gigabytes * aws.AURORA_GB_MONTH.usd, ios * aws.AURORA_MILLION_IOS.usd
    )
