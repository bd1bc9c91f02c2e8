"""docs/scale.md and what reckons it: pure, from the units as they were measured and committed."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from bench import scale_aws as aws
from bench import scale_cells, scale_cost, scale_report
from bench import scale_sim as sim
from bench.scale_cells import both_ways
from bench.scale_day import DAY_SECONDS, MONTH_DAYS, PATH, Day, Run, Units
from bench.scale_model import FULL, LARGEST, Kind, Limit, Scope, limits, shipped
from dpp_cdk.settings import sizes
from dpp_cdk.settings.sizes import PROD
from dpp_cli.docs import costs
from dpp_cli.paths import ROOT

UNITS = Units.read()
DAY = Day()
RUN = Run.of(UNITS, DAY)


@pytest.fixture(scope="module")
def report() -> scale_report.Report:
    return scale_report.Report(UNITS, DAY)


def _of(found: list[Limit]) -> Mapping[str, Limit]:
    return {limit.part: limit for limit in found}


def _queue(servers: int, service_seconds: float) -> sim.Cell:
    """Nothing but workers, all there from the start."""
    return sim.Cell(1e9, 1e9, 1, 1e9, 0, 0, servers, service_seconds, source_first=servers)


def test_the_page_is_what_is_reckoned_today(report: scale_report.Report) -> None:
    """Write it anew with `make bench-scale SCALE=--write`."""
    page = scale_report.PATH.read_text(encoding="utf-8")
    assert scale_report.written_into(page, report) == page


def test_a_page_without_a_place_is_refused(report: scale_report.Report) -> None:
    with pytest.raises(ValueError, match="lacks a mark"):
        scale_report.written_into("# Scale\n", report)


def test_units_are_read_as_they_were_written(tmp_path: Path) -> None:
    UNITS.write(tmp_path / "units.json")
    assert Units.read(tmp_path / "units.json") == UNITS
    assert json.loads(PATH.read_text(encoding="utf-8")) == json.loads(json.dumps(asdict(UNITS)))


def test_units_are_of_whole_runs() -> None:
    """One message and one object a run, each of its keys with the TTL that money.md and architecture.md name."""
    assert (UNITS.post.sqs_sends, UNITS.work.s3_puts) == (1, 1)
    assert {key.kind: key.ttl_seconds / DAY_SECONDS for key in UNITS.redis_keys} == {"idem": 30, "receipt": 7}
    assert UNITS.rows.tombstone_packed < UNITS.rows.run_packed
    assert min(UNITS.post.postgres_ms, UNITS.poll.postgres_ms, UNITS.work.postgres_ms) > 0


def test_limits_come_in_the_order_in_which_they_saturate_and_grow_with_the_runs() -> None:
    found = limits(UNITS, DAY, LARGEST)
    assert [limit.used for limit in found] == sorted((limit.used for limit in found), reverse=True)
    half = _of(limits(UNITS, DAY.of(DAY.runs / 2), LARGEST))
    for limit in found:
        assert half[limit.part].used == pytest.approx(limit.used / 2)
        at_its_limit = _of(limits(UNITS, DAY.of(limit.runs_a_day), LARGEST))[limit.part]
        assert at_its_limit.used == pytest.approx(1)


def test_what_is_asked_for_is_reckoned_as_one_would_by_hand() -> None:
    found = _of(limits(UNITS, Day(runs=86_400, peak_factor=2), LARGEST))
    assert found["API Gateway"].needs == 2 * 6
    assert found["event source of the run queue"].needs == 2 * 2
    assert found["Lambda concurrency"].needs == pytest.approx(2 * 2 + 2 * 6 * 0.05)
    requests = UNITS.post.postgres_ms + 4 * UNITS.poll.postgres_ms + UNITS.answer.postgres_ms
    later = UNITS.work.postgres_ms + sum(
        phase.postgres_ms for phase in (UNITS.purge, UNITS.expire, UNITS.delete)
    )
    assert found["Postgres's processor"].needs == pytest.approx(2 * (requests + later) / 1_000)
    redis_bytes = sum(key.bytes * key.ttl_seconds for key in UNITS.redis_keys) * UNITS.redis_overhead
    assert found["Valkey's memory"].needs == pytest.approx(redis_bytes / aws.GIB)


def test_numbers_that_stand_elsewhere_are_the_same_here() -> None:
    assert aws.SOURCE_AT_ONCE == sizes._MOST_OF_A_QUEUE
    schema = (ROOT / "migrations" / "sql" / "0001_metered_runs.up.sql").read_text(encoding="utf-8")
    assert f"rate_limit_per_minute BETWEEN 1 AND {scale_cells.MAX_RATE_PER_MINUTE})" in schema
    queries = (ROOT / "layers/dpp/python/dpp/runs/queries.sql").read_text(encoding="utf-8")
    assert f"+ interval '{DAY.live_days:.0f} days'" in queries
    by_class = {one.name: one for one in aws.DATABASES}
    assert by_class[PROD.database.instance_class].connections == pytest.approx(
        PROD.database.max_connections, abs=1
    )


@pytest.mark.parametrize("number", [0, 1])
def test_no_cell_is_fuller_than_planned_and_together_they_carry_the_day(number: int) -> None:
    cells = both_ways(UNITS, DAY)[number]
    assert cells.count * cells.day.runs == pytest.approx(DAY.runs)
    found = limits(UNITS, cells.day, cells.setting)
    if number:
        found = [limit for limit in found if limit.part not in scale_cells.RETENTION]
    assert max(limit.used for limit in found if limit.kind is not Kind.SIZE) <= FULL
    assert max(limit.used for limit in found) <= 1


def test_one_cell_less_would_be_too_full() -> None:
    for cells in both_ways(UNITS, DAY):
        fewer = DAY.of(DAY.runs / (cells.count - 1))
        part = cells.bound_by.part
        assert _of(limits(UNITS, fewer, LARGEST))[part].used > FULL


def test_a_cell_is_a_size_that_fits_together() -> None:
    """`sizes.py` refuses what does not."""
    for cells in both_ways(UNITS, DAY):
        size = scale_cost.size_of(cells)
        assert (size.max_workers, size.cache.node_type) == (cells.workers, cells.node.name)
        with pytest.raises(ValueError, match="connections"):
            replace(size, database=replace(size.database, max_connections=100))


def test_a_run_costs_here_what_it_costs_in_the_guide() -> None:
    month = costs.RUNS[PROD.name] / MONTH_DAYS
    here = scale_cost.total(scale_cost.by_use(Day(runs=month)))
    assert float(here) == pytest.approx(float(costs.total(costs.BY_USE, PROD)), abs=0.05)


def test_what_stands_in_one_cell_of_prods_size_costs_what_prod_does() -> None:
    """The lines that were replaced for larger servers are as dear as those of the guide."""
    cells = replace(
        both_ways(UNITS, DAY)[0],
        count=1,
        node=next(one for one in aws.NODES if one.name == PROD.cache.node_type),
        database=next(one for one in aws.DATABASES if one.name == PROD.database.instance_class),
        storage_gib=PROD.database.storage_gib,
    )
    here = scale_cost.total(scale_cost.standing(cells))
    assert float(here) == pytest.approx(float(costs.total(costs.STANDING, PROD)), abs=0.05)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (3, 2.1), (8, 6.0)])
def test_waits_are_those_of_erlangs_formula(servers: int, load: float) -> None:
    service_seconds = 2.0
    rate = load / service_seconds
    told = sim.simulate(_queue(servers, service_seconds), lambda _: rate, 10_000, seed=7, step_seconds=0.1)
    assert told.mean_wait == pytest.approx(sim.mean_wait_seconds(servers, rate, service_seconds), rel=0.12)
    waited = 1 - told.waits[0] / sum(told.waits.values())
    assert waited == pytest.approx(sim.erlang_c(servers, load), rel=0.12)


def test_erlangs_formula_is_right_where_it_is_known() -> None:
    """M/M/1: one waits with the chance that the server is busy; and a value of the tables (10 servers, load 8)."""
    assert sim.erlang_c(1, 0.3) == pytest.approx(0.3)
    assert sim.mean_wait_seconds(1, 0.5, 1.0) == pytest.approx(1.0)
    assert sim.erlang_c(10, 8.0) == pytest.approx(0.409, abs=0.001)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_is_lost_and_nothing_made_up(seed: int) -> None:
    """With a gateway that refuses, a database that is too small, and a source that is on its way up."""
    cell = sim.Cell(300, 100, 6, 200, 4, 3, 40, 2.0)
    told = sim.simulate(cell, lambda now: 20 + now / 10, 600, seed=seed)
    assert told.arrived == told.refused + told.done + told.waiting + told.at_work
    assert sum(told.waits.values()) == told.done + told.at_work
    assert sum(told.ages.values()) == told.waiting
    assert min(told.refused, told.done, told.waiting, told.at_work) > 0


def test_the_same_seed_has_the_same_day_and_another_has_another() -> None:
    cell = sim.Cell.of(shipped(), RUN, DAY, 1_000)
    one, again, other = (sim.simulate(cell, lambda _: 20.0, 300, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert one.arrived != other.arrived


def test_the_event_source_is_no_faster_than_its_way_up() -> None:
    cell = replace(_queue(1_000, 1e6), source_first=aws.SOURCE_FIRST)
    told = sim.simulate(cell, lambda _: 1_000.0, 60, seed=1)
    assert aws.SOURCE_FIRST + 250 <= told.at_work <= aws.SOURCE_FIRST + 300


def test_no_part_does_more_than_it_can() -> None:
    cell = sim.Cell(300, 100, 6, 200, 4, 3, 40, 2.0)
    told = sim.simulate(cell, lambda _: 100.0, 600, seed=1)
    assert max(told.used[sim.DATABASE]) <= 1
    assert max(told.used[sim.WORKERS]) <= 1
    assert sum(told.used[sim.GATEWAY]) <= 600 + 100 / 300


def test_a_day_has_its_runs_and_its_peak() -> None:
    rate = sim.daily(DAY)
    hours = [rate(second) for second in range(0, DAY_SECONDS, 60)]
    assert sum(hours) * 60 == pytest.approx(DAY.runs, rel=1e-6)
    assert max(hours) == pytest.approx(DAY.peak_per_second, rel=1e-6)
    assert min(hours) > 0


@pytest.mark.parametrize(
    ("workers", "requests", "vcpus", "first"),
    [(1, 10, 10, sim.WORKERS), (10, 1, 10, sim.GATEWAY), (20, 20, 1, sim.DATABASE)],
)
def test_the_simulation_finds_first_what_the_numbers_say(
    workers: float, requests: float, vcpus: float, first: str
) -> None:
    prod = sim.Cell.of(shipped(), RUN, DAY, 0)
    cell = replace(
        prod,
        workers=round(prod.workers * workers),
        requests_per_second=prod.requests_per_second * requests,
        database_ms_per_second=prod.database_ms_per_second * vcpus,
    )
    ceilings = sim.ceilings(cell)
    assert min(ceilings, key=lambda part: ceilings[part]) == first
    part, rate = sim.first_to_saturate(cell, 1.5 * ceilings[first], seconds=3_600)
    assert part == first
    assert rate == pytest.approx(ceilings[first], rel=0.15)


def test_the_models_first_of_what_is_simulated_is_the_simulations() -> None:
    """As shipped: of gateway, processor and event source, in the limits and in the growing rate."""
    simulated = {
        "API Gateway": sim.GATEWAY,
        "Postgres's processor": sim.DATABASE,
        "event source of the run queue": sim.WORKERS,
    }
    found = limits(UNITS, DAY, shipped())
    first = next(limit.part for limit in found if limit.part in simulated)
    part, _ = sim.first_to_saturate(sim.Cell.of(shipped(), RUN, DAY, 0), 150, seconds=3_600)
    assert part == simulated[first]


def test_a_burst_is_over_when_nobody_waits_longer_than_before() -> None:
    day = DAY.of(1e6)
    cell = replace(sim.Cell.of(shipped(), RUN, day, 0), requests_per_second=1e6)
    told = sim.simulate_day(cell, day)
    assert told.longest_backlog > 15_000
    assert told.backlog_gone_at is not None
    # 35 runs a second come, 50 are done: what came in a minute, some 18,000, is gone after 20 minutes.
    assert 900 < told.backlog_gone_at - sim.PEAK_AT_SECONDS - sim.BURST_SECONDS < 1_800


def test_account_limits_are_no_cells() -> None:
    """More cells in one account do not help against them."""
    for cells in both_ways(UNITS, DAY):
        assert cells.bound_by.scope is Scope.CELL
