"""Metered runs under hundreds of schedules (D2–D5); `make sim SEEDS=…` runs any number of them."""

from collections.abc import Iterator, Sequence

import pytest

from tests.sim.choices import Choices
from tests.sim.command import main, run_seeds
from tests.sim.faults import ALL, Fault
from tests.sim.patches import patched
from tests.sim.run import report, simulate
from tests.sim.scheduler import Scheduler, Stuck
from tests.sim.shrink import shrunk

SEEDS_PER_FAULT = 25


@pytest.fixture(scope="module")
def in_simulation() -> Iterator[None]:
    """The real code uses the simulation's clock, ids and drivers."""
    with patched():
        yield


def test_no_schedule_breaks_an_invariant() -> None:
    """All faults together. Print a failing seed with `python -m tests.sim --seed N`."""
    tally = run_seeds(0, 250, ALL)
    assert tally.failures == ()
    assert tally.runs > tally.seeds, "the schedules created runs"


@pytest.mark.usefixtures("in_simulation")
@pytest.mark.parametrize("fault", sorted(ALL))
def test_no_schedule_breaks_an_invariant_under_one_kind_of_fault(fault: Fault) -> None:
    """One kind alone, which others would otherwise hide."""
    struck = 0
    for seed in range(SEEDS_PER_FAULT):
        verdict = simulate(seed, frozenset({fault}))
        assert not verdict.broken, report(verdict)
        struck += any(step.fault == fault for step in verdict.trace)
        assert {step.fault for step in verdict.trace} <= {"", fault}
        assert not verdict.disputed
    assert struck or fault is Fault.CLOCK_SKEW, "the fault must occur in a schedule"


@pytest.mark.usefixtures("in_simulation")
def test_a_schedule_without_faults_completes_every_run() -> None:
    """The simplest schedule is the ordinary one: accepted, executed, completed, acknowledged."""
    verdict = simulate([])
    lines = [f"{step.port} {step.operation}".strip() for step in verdict.trace]
    assert not verdict.broken
    assert any(line.startswith("receives 202") for line in lines)
    assert [line for line in lines if line.startswith("finishes")] == ["finishes: ENDED"]


@pytest.mark.usefixtures("in_simulation")
def test_a_seed_and_its_decisions_always_give_the_same_schedule() -> None:
    """Otherwise a failing seed could not be examined."""
    for seed in range(20):
        first, second = simulate(seed), simulate(seed)
        assert first.trace == second.trace
        assert simulate(first.decisions).trace == first.trace


@pytest.mark.usefixtures("in_simulation")
def test_different_seeds_give_different_schedules() -> None:
    """Hundreds of seeds are hundreds of schedules."""
    assert len({simulate(seed).trace for seed in range(100)}) > 95


def test_shrinking_keeps_only_the_decisions_that_fail() -> None:
    """Two decisions of sixty matter, with their smallest failing values."""

    def fails(decisions: Sequence[int]) -> bool:
        return sum(choice >= 3 for choice in decisions) >= 2

    assert shrunk([5, 0, 1, 7, 2] * 12, fails) == [3, 3]


def test_the_command_prints_schedules_and_whether_invariants_hold(capsys: pytest.CaptureFixture[str]) -> None:
    """`--seed` for one schedule, `--seeds` for many, `--replay` for a printed failure."""
    assert main(["--seed", "3"]) == 0
    assert "no invariant broken" in capsys.readouterr().out
    for jobs in ("1", "2"):
        assert main(["--seeds", "40", "--jobs", jobs]) == 0
        assert "40 seeds in" in capsys.readouterr().out
    assert main(["--replay", "0,0,1"]) == 0
    assert "redis admit" in capsys.readouterr().out


@pytest.mark.usefixtures("in_simulation")
def test_actors_that_wait_for_each_other_are_detected() -> None:
    """A simulation that hangs would prove nothing."""
    scheduler = Scheduler(Choices([]))
    scheduler.spawn("one", lambda: scheduler.await_end(two))
    two = scheduler.spawn("two", lambda: scheduler.await_end(scheduler._actors[0]))
    with pytest.raises(Stuck):
        scheduler.run()
