"""docs/scale.md and the model behind it, calculated from the committed units."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.scale import model, page
from bench.scale import simulation as sim
from bench.scale.model import DAY_SECONDS, Cells, Day, Limit, Model, read_units, setting_of, total, write_units
from dpp_cdk.settings import sizes
from dpp_cdk.settings.sizes import PROD
from dpp_cli.docs import costs
from dpp_cli.paths import ROOT

UNITS, DAY = read_units(), Day()
MODEL = Model(UNITS, DAY)
NOW, RAISED = model.both_ways(MODEL)
PROD_CELL = sim.cell_of(setting_of(PROD), MODEL)
SMALL_CELL = sim.Cell(300, 100, 6, 200, 4, 3, 40, 2.0)


def _workers_only(workers: int, work_seconds: float, source_first: float) -> sim.Cell:
    return sim.Cell(1e9, 1e9, 1, 1e9, 0, 0, workers, work_seconds, source_first)


def _limits(runs: float, **day: float) -> dict[str, Limit]:
    found = Model(UNITS, DAY._replace(runs=runs, **day)).limits()  # type: ignore[arg-type]  # by name
    return {limit.part: limit for limit in found}


def _erlang_c(servers: int, load: float) -> float:
    """The chance to wait in M/M/c, by the recursion of Erlang's formula B; `load` in servers."""
    inverse = 1.0
    for number in range(1, servers + 1):
        inverse = 1 + inverse * number / load
    return 1 / inverse / (1 - load / servers * (1 - 1 / inverse))


def _mean_wait(servers: int, load: float, service_seconds: float) -> float:
    return _erlang_c(servers, load) * service_seconds / (servers - load)


def test_committed_page_equals_what_the_model_calculates() -> None:
    """Update it with `make bench-scale SCALE=--write`."""
    text, sections = page.PATH.read_text(encoding="utf-8"), page.rendered(MODEL)
    assert page.written_into(text, sections) == text
    with pytest.raises(ValueError, match="lacks the marks"):
        page.written_into("# Scale\n", sections)


def test_units_are_read_as_written_and_are_of_whole_runs(tmp_path: Path) -> None:
    """One message and one object a run; keys with the TTLs that money.md and architecture.md state."""
    write_units(UNITS, tmp_path / "units.json")
    assert read_units(tmp_path / "units.json") == UNITS == json.loads(model.PATH.read_text(encoding="utf-8"))
    calls, stored = UNITS["calls"], UNITS["bytes"]
    assert (calls["submit"]["sqs_sends"], calls["work"]["s3_puts"]) == (1, 1)
    assert {key["kind"]: key["ttl_days"] for key in UNITS["redis_keys"]} == {"idem": 30, "receipt": 7}
    assert stored["tombstone"] < stored["run"]
    assert min(calls[name]["postgres_ms"] for name in ("submit", "poll under way", "work")) > 0


def test_limits_are_in_order_and_proportional_to_the_runs() -> None:
    found, half = MODEL.limits(), _limits(DAY.runs / 2)
    assert [limit.used for limit in found] == sorted((limit.used for limit in found), reverse=True)
    for limit in found:
        assert half[limit.part].used == pytest.approx(limit.used / 2)
        assert _limits(limit.runs_per_day)[limit.part].used == pytest.approx(1)


def test_needs_equal_a_calculation_by_hand() -> None:
    found, calls = _limits(86_400, peak_factor=2), UNITS["calls"]
    assert found["API Gateway"].needs == 2 * 6
    assert found["event source of the run queue"].needs == 2 * 2
    assert found["Lambda concurrency"].needs == pytest.approx(2 * 2 + 2 * 6 * 0.05)
    once = ("submit", "last poll", "work", "purge", "expire", "delete")
    postgres_ms = sum(calls[name]["postgres_ms"] for name in once) + 4 * calls["poll under way"]["postgres_ms"]
    assert found["Postgres's processor"].needs == pytest.approx(2 * postgres_ms / 1_000)
    redis_bytes = sum(key["bytes"] * key["ttl_days"] * DAY_SECONDS for key in UNITS["redis_keys"])
    assert found["Valkey's memory"].needs == pytest.approx(redis_bytes * UNITS["redis_overhead"] / 2**30)


def test_numbers_equal_those_of_code_and_schema() -> None:
    assert model.LARGEST["source_workers"] == sizes._MAX_CONCURRENCY
    schema = (ROOT / "migrations" / "sql" / "0001_metered_runs.up.sql").read_text(encoding="utf-8")
    assert f"rate_limit_per_minute BETWEEN 1 AND {model.MAX_RATE_PER_MINUTE})" in schema
    queries = (ROOT / "layers/dpp/python/dpp/runs/submit.sql").read_text(encoding="utf-8")
    assert f"+ interval '{DAY.live_days:.0f} days'" in queries
    prod = PROD.database
    assert model.DATABASES[prod.instance_class][2] == pytest.approx(prod.max_connections, abs=1)


@pytest.mark.parametrize(("cells", "raised"), [(NOW, ()), (RAISED, model.RETENTION)])
def test_cells_are_sizes_that_carry_the_day_and_none_too_many(cells: Cells, raised: tuple[str, ...]) -> None:
    assert cells.count * cells.day.runs == pytest.approx(DAY.runs)
    found = [one for one in cells.model.limits(setting_of(cells.size)) if one.part not in raised]
    assert max(limit.used for limit in found if limit.kind != model.SIZE) <= model.FULL
    assert max(limit.used for limit in found) <= 1
    assert _limits(DAY.runs / (cells.count - 1))[cells.bound_by.part].used > model.FULL
    assert cells.bound_by.limit_of == model.DEPLOYMENT  # not the account's, which more cells do not raise
    size = cells.size
    assert (size.max_workers, size.cache.node_type) == (cells.workers, cells.node)
    with pytest.raises(ValueError, match="connections"):
        replace(size, database=replace(size.database, max_connections=100))


def test_costs_equal_those_of_the_deployment_guide() -> None:
    """Of prod's runs; and of one cell with prod's servers."""
    usage = model.usage_costs(DAY._replace(runs=costs.RUNS[PROD.name] / model.MONTH_DAYS))
    assert total(usage) == pytest.approx(float(costs.total(costs.BY_USE, PROD)), abs=0.05)
    cells = Cells("prod", MODEL)
    cells.count, cells.node, cells.storage_gib = 1, PROD.cache.node_type, PROD.database.storage_gib
    assert cells.database == PROD.database.instance_class
    fixed = total(model.fixed_costs(cells))
    assert fixed == pytest.approx(float(costs.total(costs.FIXED, PROD)), abs=0.05)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (3, 2.1), (8, 6.0)])
def test_simulated_waits_equal_erlangs_formula(servers: int, load: float) -> None:
    cell = _workers_only(servers, 2.0, source_first=servers)
    waits = sim.simulate(cell, lambda _: load / 2.0, 10_000, seed=7, step_seconds=0.1).waits
    mean = sum(wait * count for wait, count in waits.items()) / waits.total()
    assert mean == pytest.approx(_mean_wait(servers, load, 2.0), rel=0.12)
    assert 1 - waits[0] / waits.total() == pytest.approx(_erlang_c(servers, load), rel=0.12)


def test_erlangs_formula_is_right_where_it_is_known() -> None:
    """M/M/1, and a value of the tables (10 servers, load 8)."""
    assert _erlang_c(1, 0.3) == pytest.approx(0.3)
    assert _mean_wait(1, 0.5, 1.0) == pytest.approx(1.0)
    assert _erlang_c(10, 8.0) == pytest.approx(0.409, abs=0.001)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_run_is_lost_or_invented_and_no_part_does_more_than_it_can(seed: int) -> None:
    """With a gateway that refuses, a database that is too small, and an event source that still adds workers."""
    seen = sim.simulate(SMALL_CELL, lambda now: 20 + now / 5, 600, seed=seed)
    assert seen.arrived == seen.refused + seen.done + seen.backlog + seen.busy
    assert seen.waits.total() == seen.done + seen.busy
    assert sum(count for _, count in seen.waiting) == seen.backlog
    assert min(seen.refused, seen.done, seen.backlog, seen.busy) > 0
    assert max(seen.used[sim.DATABASE]) <= 1
    assert max(seen.used[sim.WORKERS]) <= 1
    assert sum(seen.used[sim.GATEWAY]) <= 600 + 100 / 300


def test_same_seed_gives_the_same_day_and_another_seed_another() -> None:
    cell = PROD_CELL._replace(requests_burst=1_000)
    one, again, other = (sim.simulate(cell, lambda _: 20.0, 300, seed=seed) for seed in (1, 1, 2))
    assert (one.arrived, one.done, one.waits, one.used) == (again.arrived, again.done, again.waits, again.used)
    assert one.arrived != other.arrived


def test_event_source_adds_workers_no_faster_than_allowed() -> None:
    cell = _workers_only(1_000, 1e6, sim.SOURCE_FIRST)
    busy = sim.simulate(cell, lambda _: 1_000.0, 60, seed=1).busy
    assert sim.SOURCE_FIRST + 250 <= busy <= sim.SOURCE_FIRST + 300


def test_day_has_its_runs_and_its_peak() -> None:
    minutes = [*map(sim.daily(DAY), range(0, DAY_SECONDS, 60))]
    assert sum(minutes) * 60 == pytest.approx(DAY.runs, rel=1e-6)
    assert max(minutes) == pytest.approx(DAY.peak, rel=1e-6)
    assert min(minutes) > 0


@pytest.mark.parametrize(
    ("workers", "requests", "vcpus", "first"),
    [(1, 10, 10, sim.WORKERS), (10, 1, 10, sim.GATEWAY), (20, 20, 1, sim.DATABASE)],
)
def test_simulation_saturates_first_what_is_calculated(workers: int, requests: int, vcpus: int, first: str) -> None:
    cell = PROD_CELL.times(workers=workers, requests=requests, vcpus=vcpus)
    ceilings = cell.ceilings()
    assert min(ceilings, key=lambda part: ceilings[part]) == first
    part, rate = sim.first_to_saturate(cell, 1.5 * ceilings[first], seconds=3_600)
    assert part == first
    assert rate == pytest.approx(ceilings[first], rel=0.15)


def test_simulation_and_limits_name_the_same_first_part() -> None:
    """Of gateway, processor and event source, with prod as shipped."""
    found = [limit.part.removesuffix(" of the run queue") for limit in MODEL.limits(setting_of(PROD))]
    part, _ = sim.first_to_saturate(PROD_CELL, 150, seconds=3_600)
    assert part == next(one for one in found if one in sim.STAGES)


def test_burst_ends_when_the_backlog_is_as_before() -> None:
    million = Model(UNITS, DAY._replace(runs=1e6))
    cell = sim.cell_of(setting_of(PROD), million)._replace(requests_per_second=1e6)
    seen, gone_after = sim.simulate_day(cell, million.day)
    assert seen.longest_backlog > 15_000
    # 35 runs a second arrive and 50 are done, so the 18,000 of one minute take 20 minutes.
    assert gone_after is not None
    assert 900 < gone_after < 1_800
