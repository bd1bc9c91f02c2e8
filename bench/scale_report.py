"""The figures of docs/scale.md as text: its generated blocks, each between its marks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from bench import scale_aws as aws
from bench import scale_cost as cost
from bench import scale_sim as sim
from bench.scale_cells import Cells, both_ways, hot_tenant
from bench.scale_day import AT_REST, DAY_SECONDS, MONTH_DAYS, Day, Phase, Run, Units
from bench.scale_model import (
    BUSY_CACHE,
    BUSY_DATABASE,
    FULL,
    FULL_CACHE,
    LARGEST,
    VACUUM_DAYS,
    Kind,
    Limit,
    Scope,
    limits,
    shipped,
)
from dpp.runs.jobs.batch import BATCH_LIMIT
from dpp_cli.docs import marked
from dpp_cli.paths import ROOT

PATH = ROOT / "docs" / "scale.md"
_PROD_RUNS = 1e6
_BIG = 100


@dataclass(frozen=True)
class Scenario:
    """A simulated day."""

    says: str
    cell: sim.Cell
    day: Day


class Report:
    """All blocks, from the units and the day."""

    def __init__(self, units: Units, day: Day | None = None) -> None:
        self.units, self.day = units, day or Day()
        self.run = Run.of(units, self.day)
        self.largest = limits(units, self.day, LARGEST)
        self.of_prod = limits(units, self.day, shipped())
        self.as_it_is, self.raised = both_ways(units, self.day)

    @cached_property
    def blocks(self) -> Mapping[str, str]:
        """By the name in the marks, in the order of the page."""
        return {
            "answer": self.answer(),
            "units": _joined(self.units_table()),
            "kept": _joined(self.kept_table()),
            "demand": _joined(self.demand_table()),
            "limits": _joined(_limits_table(self.largest, self.day)),
            "prod": _joined(self.prod_table()),
            "cells": _joined(self.cells_table()),
            "hot tenant": _joined(self.hot_tenant_table()),
            "cost": _joined(self.cost_table()),
            "simulation": _joined(self.simulation_table()),
            "agreement": _joined(self.agreement_table()),
            "assumed": self.assumed(),
        }

    def answer(self) -> str:
        """The page's first sentences."""
        day, cells = self.day, self.raised
        hard = [limit for limit in self.largest if limit.kind in (Kind.HARD, Kind.MODE)]
        code = [limit for limit in self.largest if limit.kind is Kind.CODE]
        month = self._month(cells)
        use = float(cost.total(cost.by_use(day)))
        lambdas = float(cost.total([one for one in cost.by_use(day) if one.what.startswith("Lambda")]))
        return f"""{_power(day.runs)} runs a day are {day.mean_per_second:,.0f} a second, \
{day.peak_per_second:,.0f} at the busiest moment, and with their polls \
{day.peak_per_second * day.requests_a_run:,.0f} requests a second.

- **One deployment does not bear them.** As shipped, `prod` bears {_runs(self.of_prod[0].runs_a_day)} runs a day; \
{_first(self.of_prod[0])} is full first.
- **With the largest servers** and AWS's quotas raised, these saturate first: {_first(hard[0])} at \
{_runs(hard[0].runs_a_day)} runs a day, \
{_first(hard[1])} at {_runs(hard[1].runs_a_day)}, {_first(hard[2])} at {_runs(hard[2].runs_a_day)}. Before them \
stand two numbers in our own code, which refuse no run but let tables grow: {code[0].part} \
({_runs(code[0].runs_a_day)} a day) and {code[1].part} ({_runs(code[1].runs_a_day)}).
- **So it takes cells**, which are deployments with their own tenants: {self.as_it_is.count} by the code as it is, \
{cells.count} once those two numbers are raised.
- **It costs** about {month / MONTH_DAYS:,.0f} USD a day, {month:,.0f} a month: {use / month:.0%} grow with the runs, \
{lambdas / month:.0%} are Lambda. A run costs {month / (day.runs * MONTH_DAYS) * 1e6:,.0f} micro-dollars."""

    def _month(self, cells: Cells) -> float:
        return float(cost.total(cost.by_use(self.day)) + cost.total(cost.standing(cells)))

    def units_table(self) -> Iterator[str]:
        """Measured, by call."""
        units = self.units
        yield f"{units.runs:,} runs, {units.measured_at}; {units.machine};"
        yield f"{units.software}."
        rest = "at rest" if units.load_before <= AT_REST else "**not at rest**"
        yield f"Load {units.load_before:.1f} before, {rest}, and {units.load_after:.1f} after, with the bench's own."
        yield ""
        yield (
            "| one | Python, ms | Postgres, ms | Valkey, µs | transactions | of which write | log of Postgres, bytes"
            " | commands of Redis | lines of log, bytes |"
        )
        yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
        for says, phase in (
            ("submit, with its message", units.post),
            ("poll under way", units.poll),
            ("work, with its object", units.work),
            ("poll of what has ended", units.answer),
            ("inputs purged", units.purge),
            ("run made a tombstone", units.expire),
            ("tombstone deleted", units.delete),
            ("reconcile's look for a lost balance, a tenant", units.look_for_lost),
            ("its look for orphans, a tenant", units.look_for_orphans),
        ):
            yield _phase(says, phase)

    def kept_table(self) -> Iterator[str]:
        """What stays, where, for how long."""
        day, rows = self.day, self.units.rows
        yield "| kept of a run | bytes | for |"
        yield "|---|--:|---|"
        yield f"| its row, with indexes | {rows.run_packed:,.0f} | {day.live_days:.0f} days |"
        yield f"| its inputs | {rows.inputs_packed:,.0f} | an hour after its end |"
        yield f"| its tombstone | {rows.tombstone_packed:,.0f} | {day.tombstone_days:.0f} days more |"
        for key in self.units.redis_keys:
            yield f"| in Redis, `{key.kind}:…` | {key.bytes:,.0f} | {key.ttl_seconds / DAY_SECONDS:.0f} days |"
        yield (
            f"\nSo each run a day keeps {self.run.row_byte_days / 1e3:,.0f} KB in Postgres, of which"
            f" {1 - 1 / day.bloat:.0%} is assumed to be dead rows, and"
        )
        yield f"{self.run.redis_byte_days / 1e3:,.1f} KB in Redis."

    def demand_table(self) -> Iterator[str]:
        """What the day asks for."""
        day, run = self.day, self.run
        mean, factor = day.mean_per_second, day.peak_factor
        yield "| asked for | mean | at the peak |"
        yield "|---|--:|--:|"
        rows: Sequence[tuple[str, float]] = (
            ("runs a second", mean),
            ("requests a second", mean * day.requests_a_run),
            ("workers busy", mean * day.work_seconds),
            ("request functions busy", mean * day.requests_a_run * day.request_seconds),
            ("messages sent a second", mean * self.units.post.sqs_sends),
            ("objects written a second", mean * self.units.work.s3_puts),
            ("cores of Postgres busy", mean * run.postgres_ms / 1_000),
            ("transactions a second that write", mean * run.xids),
            ("log of Postgres, MB a second", mean * run.wal_bytes / 1e6),
            ("cores of Valkey busy", mean * run.valkey_us / 1e6),
            ("commands of Redis a second", mean * run.redis_commands),
            ("logs, MB a second", mean * day.log_bytes / 1e6),
        )
        for says, value in rows:
            yield f"| {says} | {_number(value)} | {_number(value * factor)} |"
        kept = day.runs * day.live_days * day.envelope_bytes / 1e12
        yield ""
        yield (
            f"And there stand {day.runs * run.row_byte_days / aws.TIB:,.0f} TiB in Postgres, {kept:,.0f} TB in S3 and"
            f" {day.runs * run.redis_byte_days / aws.GIB:,.0f} GiB in Redis."
        )

    def prod_table(self) -> Iterator[str]:
        """Prod as shipped."""
        yield "| first to last | of it | runs a day | what can be done |"
        yield "|---|--:|--:|---|"
        for limit in self.of_prod[:8]:
            yield f"| {limit.part} | {_number(limit.bears)} {limit.unit} | {_runs(limit.runs_a_day)} | {limit.kind} |"

    def cells_table(self) -> Iterator[str]:
        """Two ways to share the day out."""
        ways = (self.as_it_is, self.raised)
        yield f"| | {' | '.join(one.says for one in ways)} |"
        yield "|---|--:|--:|"
        for says, told in (
            ("bound by", lambda one: one.bound_by.part),
            ("cells", lambda one: f"{one.count}"),
            ("runs a day in each", lambda one: f"{one.day.runs:,.0f}"),
            ("runs a second in each, at the peak", lambda one: f"{one.day.peak_per_second:,.0f}"),
            ("tenants in each", lambda one: f"{one.day.tenants:,.0f}"),
            ("database, and a standby", lambda one: f"db.{one.database.name}"),
            ("its storage, gp3", lambda one: f"{one.storage_gib:,} GiB"),
            ("cache, and a replica", lambda one: one.node.name),
            (
                "indexes by random id, beside its memory",
                lambda one: (
                    f"{one.day.runs * self.run.hot_index_bytes / aws.GIB:,.0f} GiB, {one.database.memory_gib} GiB"
                ),
            ),
            (
                "days until a vacuum is forced, by transaction ids",
                lambda one: f"{aws.FREEZE_XIDS / (one.day.runs * self.run.xids):.1f}",
            ),
            (
                f"hours to refund an hour's runs that nobody worked on, {BATCH_LIMIT} a minute",
                lambda one: f"{one.day.peak_per_second * 60 / BATCH_LIMIT:.1f}",
            ),
            ("`max_workers`", lambda one: f"{one.workers:,}"),
            ("requests a second let through", lambda one: f"{one.requests_per_second:,}"),
            (
                "functions at once, in all cells",
                lambda one: f"{one.setting.functions_at_once * one.count:,.0f}",
            ),
        ):
            yield f"| {says} | {' | '.join(told(one) for one in ways)} |"

    def hot_tenant_table(self) -> Iterator[str]:
        """One tenant's bounds."""
        yield "| bound of one tenant | runs a second | by |"
        yield "|---|--:|---|"
        for says, runs_per_second, by in hot_tenant(self.units, self.day):
            yield f"| {says} | {_number(runs_per_second)} | {by} |"

    def cost_table(self) -> Iterator[str]:
        """By part."""
        yield "| | unit price, USD | units a month | USD a month | USD a day |"
        yield "|---|---|--:|--:|--:|"
        use = cost.by_use(self.day)
        yield from _cost_rows(use)
        yield _sum_row("**what grows with the runs**", use)
        for cells in (self.as_it_is, self.raised):
            lines = cost.standing(cells)
            if cells is self.raised:
                yield from _cost_rows(lines)
            yield _sum_row(f"**what stands, in {cells.count} cells ({cells.says})**", lines)
        for cells in (self.as_it_is, self.raised):
            yield _sum_row(f"**all of it, with {cells.count} cells**", [*use, *cost.standing(cells)])
        kept = cost.storage(self.units, self.day)
        yield ""
        yield (
            f"Postgres's storage alone is {kept.rds_usd:,.0f} USD a month on RDS, in two copies. Aurora would ask"
            f" {kept.aurora_usd:,.0f} for the room and about"
        )
        yield (
            f"{kept.aurora_ios_usd:,.0f} for its I/Os (one a commit, one more each 4 KB of log, and"
            f" {self.day.random_pages} pages read); its instances are dearer than RDS's."
        )

    @cached_property
    def scenarios(self) -> Sequence[Scenario]:
        """The days that are simulated."""
        prod, cells = self.day.of(_PROD_RUNS), self.raised
        rate = cells.setting.api_per_second
        planned = sim.Cell.of(cells.setting, Run.of(self.units, cells.day), cells.day, 2 * rate)
        whole = sim.Cell.of(LARGEST, self.run, self.day, 0)
        return (
            Scenario(
                f"`prod` as shipped, {_runs(_PROD_RUNS)} runs",
                sim.Cell.of(shipped(), self.run, prod, 1_000),
                prod,
            ),
            Scenario(f"one of {cells.count} cells", planned, cells.day),
            Scenario(
                "the same, its gateway wide open",
                replace(planned, requests_per_second=_BIG * rate),
                cells.day,
            ),
            Scenario(
                "all runs in one deployment, AWS's quotas raised",
                replace(whole, requests_per_second=_BIG * whole.requests_per_second),
                self.day,
            ),
        )

    def simulation_table(self) -> Iterator[str]:
        """Each day's outcome."""
        yield (
            "| day, with a minute of ten times the rate | refused | waited: half, 99 %, longest | over 5 min"
            " | over an hour | longest backlog | gone after | busiest minute: gateway, database, workers"
            " | held up by |"
        )
        yield "|---|--:|--:|--:|--:|--:|--:|--:|---|"
        for one in self.scenarios:
            told = sim.simulate_day(one.cell, one.day)
            gone = told.backlog_gone_at
            over = sim.PEAK_AT_SECONDS + sim.BURST_SECONDS
            used = ", ".join(f"{told.busiest_minute(part):.0%}" for part in sim.parts(told))
            yield (
                f"| {one.says} | {told.refused / told.arrived:.1%} |"
                f" {_span(told.wait(0.5))}, {_span(told.wait(0.99))}, {_span(told.wait(1))} |"
                f" {told.waited_over(sim.ALARM_SECONDS) / told.arrived:.1%} |"
                f" {told.waited_over(sim.SWEPT_SECONDS) / told.arrived:.1%} | {told.longest_backlog:,} |"
                f" {'not that day' if gone is None else _span(gone - over)} | {used} |"
                f" {', then '.join(part for _, part in told.saturated) or 'none'} |"
            )

    def agreement_table(self) -> Iterator[str]:
        """Does the simulation find the same part first, at the same rate?"""
        prod = sim.Cell.of(shipped(), self.run, self.day, 0)
        more_workers = replace(prod, workers=20 * prod.workers)
        more_of_both = replace(more_workers, requests_per_second=20 * prod.requests_per_second)
        yield "| the rate grows until a part holds runs up | by its numbers | simulated |"
        yield "|---|---|---|"
        for says, cell in (
            ("`prod` as shipped", prod),
            ("with twenty times the workers", more_workers),
            ("and twenty times the requests", more_of_both),
        ):
            ceilings = sim.ceilings(cell)
            part = min(ceilings, key=lambda name: ceilings[name])
            found, rate = sim.first_to_saturate(cell, 1.5 * ceilings[part])
            yield f"| {says} | {part}, {ceilings[part]:,.0f} runs/s | {found}, {rate:,.0f} runs/s |"

    def assumed(self) -> str:
        """What nobody measured."""
        day = self.day
        return f"""Assumed, as [deploy.md](deploy.md#what-it-costs) does: {day.polls} polls a run, \
{day.work_seconds:.0f} s of work, {day.request_seconds * 1_000:.0f} ms a request, an envelope of \
{day.envelope_bytes / 1e3:.0f} KB, {day.log_bytes / 1e3:.0f} KB of logs. Assumed here: a peak of \
{day.peak_factor:.0f} times the mean, {day.runs_a_tenant:,.0f} runs a tenant and day, {day.round_trip_ms:.0f} ms to a \
server in another zone and {day.commit_ms:.0f} ms for a commit to reach the standby, {day.random_pages} pages a run \
that lie anywhere, dead rows of {day.bloat - 1:.0%}, a vacuum of the whole table in {VACUUM_DAYS} days, a vCPU \
of AWS that does what a core here does. Planned: the database busy to {BUSY_DATABASE:.0%} and Valkey's core to \
{BUSY_CACHE:.0%} at the peak, its memory full to {FULL_CACHE:.0%}, a cell full to {FULL:.0%} of what it bears."""


def written_into(page: str, report: Report) -> str:
    """The page with today's blocks. Raises ValueError where the page has no place for one."""
    for name, block in report.blocks.items():
        page = marked.rewritten(page, _begin(name), block, _end(name), PATH)
    return page


def _begin(name: str) -> str:
    return f"<!-- {name}: python -m bench.scale --write -->"


def _end(name: str) -> str:
    return f"<!-- end of {name} -->"


def _joined(lines: Iterator[str]) -> str:
    return "\n".join(lines)


def _limits_table(found: Sequence[Limit], day: Day) -> Iterator[str]:
    yield "| part | asked for | bears | used | runs a day | cells | whose | what can be done | where it stands |"
    yield "|---|--:|--:|--:|--:|--:|---|---|---|"
    for limit in found:
        cells = f"{limit.cells(day.runs)}" if limit.scope is Scope.CELL else ""
        yield (
            f"| {limit.part} | {_number(limit.needs)} {limit.unit} | {_number(limit.bears)} | {limit.used:.0%} |"
            f" {_runs(limit.runs_a_day)} | {cells} | {limit.scope} | {limit.kind} | {_source(limit.source)} |"
        )


def _source(source: str) -> str:
    if source.startswith("https:"):
        site = "PostgreSQL" if "postgresql.org" in source else "AWS"
        return f"[{site}]({source})"
    if source.startswith("docs/"):
        return f"[runbook]({source.removeprefix('docs/')})"
    return f"`{source}`"


def _phase(says: str, phase: Phase) -> str:
    return (
        f"| {says} | {_number(phase.python_ms)} | {_number(phase.postgres_ms)} | {phase.valkey_us:,.0f} |"
        f" {_number(phase.commits)} | {_number(phase.xids)} | {phase.wal_bytes:,.0f} |"
        f" {_number(phase.redis_commands)} | {phase.log_bytes:,.0f} |"
    )


def _cost_rows(lines: list[cost.Cost]) -> Iterator[str]:
    for line in cost.grouped(lines):
        if isinstance(line, cost.Cost):
            mark = "" if line.price.confirmed else "†"
            yield (
                f"| {line.what} | {line.price.usd.normalize():f}{mark} / {line.price.per} | {line.units_a_month:,.0f} |"
                f" {line.usd_a_month:,.0f} | {line.usd_a_day:,.0f} |"
            )
        else:
            yield f"| {line[0]} | | | {line[1]:,.0f} | {float(line[1]) / MONTH_DAYS:,.0f} |"


def _sum_row(says: str, lines: list[cost.Cost]) -> str:
    month = cost.total(lines)
    return f"| {says} | | | **{month:,.0f}** | **{float(month) / MONTH_DAYS:,.0f}** |"


def _first(limit: Limit) -> str:
    return f"{limit.part} ({_number(limit.bears)} {limit.unit})"


def _number(value: float) -> str:
    """With three digits that mean something."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _runs(value: float) -> str:
    """A count of runs, in words that can be read aloud."""
    for unit, word in ((1e9, "billion"), (1e6, "million")):
        if value >= unit:
            return f"{value / unit:.3g} {word}"
    return f"{float(f'{value:.2g}'):,.0f}"


def _power(value: float) -> str:
    exponent = len(f"{value:.0f}") - 1
    return f"10^{exponent}" if value == 10**exponent else f"{value:,.0f}"


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"
