"""Run a schedule, and say what it broke."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.sim import actors, promises
from tests.sim.choices import Choices
from tests.sim.faults import ALL, Fault
from tests.sim.installed import belonging_to
from tests.sim.simulation import Simulation, Step


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one schedule did. `decisions` replay it."""

    decisions: tuple[int, ...]
    broken: tuple[str, ...]
    trace: tuple[Step, ...]
    steps: int
    disputed: int
    runs: int

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return not self.broken


def simulate(source: int | Sequence[int], allowed: frozenset[Fault] = ALL) -> Verdict:
    """One schedule, from a seed or from recorded decisions. To be called inside `installed()`."""
    sim = Simulation(Choices(source), allowed)
    with belonging_to(sim):
        broken = _play(sim)
    rows = sim.tables.runs.values()
    return Verdict(
        tuple(sim.choices.taken),
        tuple(broken),
        tuple(sim.trace),
        sim.scheduler.steps,
        sum(row["money_state"] == "DISPUTED" for row in rows),
        len(rows),
    )


def _play(sim: Simulation) -> list[str]:
    try:
        actors.begin(sim)
        sim.scheduler.run()
        early = list(promises.broken_before_the_calm(sim))
        rested = actors.come_to_rest(sim)
    except Exception as error:  # noqa: BLE001 - whatever comes out of the core here is a finding
        return [f"{sim.scheduler.error_by} raised {type(error).__name__}: {error}"]
    found = early + promises.broken(sim)
    return found if rested or found else ["it never came to rest"]
