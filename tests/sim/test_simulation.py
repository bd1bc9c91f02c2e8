"""The metered run under thousands of schedules (D2–D5); `make sim SEEDS=…` runs as many as one likes."""

from collections.abc import Iterator, Sequence

import pytest

from tests.sim.command import main, run_seeds
from tests.sim.faults import ALL, Fault
from tests.sim.installed import installed
from tests.sim.report import report
from tests.sim.run import simulate
from tests.sim.scheduler import NoRest
from tests.sim.shrink import shrunk

SEEDS_A_CLASS = 25


@pytest.fixture(scope="module")
def in_simulation() -> Iterator[None]:
    """The real code's clock, ids and drivers are the simulation's."""
    with installed():
        yield


def test_no_schedule_breaks_a_promise() -> None:
    """All faults together; a seed that fails is looked at with `python -m tests.sim --seed N`."""
    tally = run_seeds(0, 250, ALL)
    assert tally.failures == ()
    assert tally.runs > tally.seeds, "runs were made"


@pytest.mark.usefixtures("in_simulation")
@pytest.mark.parametrize("fault", sorted(ALL))
def test_no_schedule_breaks_a_promise_under_one_class_of_faults(fault: Fault) -> None:
    """One class alone, which others would otherwise hide."""
    struck = 0
    for seed in range(SEEDS_A_CLASS):
        verdict = simulate(seed, frozenset({fault}))
        assert verdict.kept, report(verdict)
        struck += any(step.fault == fault for step in verdict.trace)
        assert {step.fault for step in verdict.trace} <= {"", fault}
        assert not verdict.disputed
    assert struck or fault is Fault.CLOCK_SKEW, "the class must show in some schedule"


@pytest.mark.usefixtures("in_simulation")
def test_a_schedule_without_faults_ends_every_run_by_its_worker() -> None:
    """The tamest schedule is the ordinary one: accepted, worked on, completed, acknowledged."""
    verdict = simulate([])
    said = [f"{step.port} {step.operation}".strip() for step in verdict.trace]
    assert verdict.kept
    assert any(line.startswith("is answered 202") for line in said)
    assert [line for line in said if line.startswith("is done")] == ["is done: ENDED"]


@pytest.mark.usefixtures("in_simulation")
def test_a_seed_is_one_schedule_and_its_decisions_replay_it() -> None:
    """Otherwise a failing seed could not be looked at."""
    for seed in range(20):
        first, second = simulate(seed), simulate(seed)
        assert first.trace == second.trace
        assert simulate(first.decisions).trace == first.trace


@pytest.mark.usefixtures("in_simulation")
def test_schedules_differ() -> None:
    """Hundreds of seeds are hundreds of schedules."""
    assert len({simulate(seed).trace for seed in range(100)}) > 95


def test_shrinking_keeps_what_fails_and_nothing_else() -> None:
    """Two decisions of sixty matter, and their least values."""

    def fails(decisions: Sequence[int]) -> bool:
        return sum(choice >= 3 for choice in decisions) >= 2

    assert shrunk([5, 0, 1, 7, 2] * 12, fails) == [3, 3]


def test_the_command_shows_a_schedule_and_says_whether_promises_were_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`--seed` for one, `--seeds` for many, `--replay` for what a failure printed."""
    assert main(["--seed", "3"]) == 0
    assert "every promise kept" in capsys.readouterr().out
    for jobs in ("1", "2"):
        assert main(["--seeds", "40", "--jobs", jobs]) == 0
        assert "40 seeds in" in capsys.readouterr().out
    assert main(["--replay", "0,0,1"]) == 0
    assert "redis admit" in capsys.readouterr().out


@pytest.mark.usefixtures("in_simulation")
def test_actors_that_wait_for_each_other_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation that hangs would prove nothing."""
    from tests.sim.choices import Choices
    from tests.sim.scheduler import Scheduler

    scheduler = Scheduler(Choices([]))
    scheduler.spawn("one", lambda: scheduler.await_end(two))
    two = scheduler.spawn("two", lambda: scheduler.await_end(scheduler._actors[0]))
    with pytest.raises(NoRest):
        scheduler.run()
