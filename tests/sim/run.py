"""Runs one schedule and reports which invariants it broke."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.sim import actors, invariants
from tests.sim.choices import Choices
from tests.sim.faults import ALL, Fault
from tests.sim.patches import belonging_to
from tests.sim.simulation import Simulation, Step

_REPORTED_RECOVERY_STEPS = 30


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one schedule. `decisions` replays it."""

    decisions: tuple[int, ...]
    broken: tuple[str, ...]
    """Each broken invariant as a sentence."""
    trace: tuple[Step, ...]
    steps: int
    disputed: int
    runs: int


def simulate(source: int | Sequence[int], allowed: frozenset[Fault] = ALL) -> Verdict:
    """Run one schedule, from a seed or from recorded decisions. To be called inside `patched()`."""
    sim = Simulation(Choices(source), allowed)
    with belonging_to(sim):
        broken = _broken(sim)
    runs = sim.rows("runs")
    return Verdict(
        tuple(sim.choices.taken),
        tuple(broken),
        tuple(sim.trace),
        sim.scheduler.steps,
        sum(row["money_state"] == "DISPUTED" for row in runs),
        len(runs),
    )


def _broken(sim: Simulation) -> list[str]:
    try:
        actors.begin(sim)
        sim.scheduler.run()
        early = list(invariants.broken_before_recovery(sim))
        recovered = actors.recover(sim)
    except Exception as error:  # noqa: BLE001 - any exception of the code under test is a finding
        return [f"{sim.scheduler.error_by} raised {type(error).__name__}: {error}"]
    found = early + invariants.broken(sim)
    return found if recovered or found else ["the system did not recover"]


def report(verdict: Verdict) -> str:
    """The schedule step by step, the beginning of its recovery, and the broken invariants."""
    acted = [step for step in verdict.trace if step.actor not in ("recovery", "audit")]
    recovery = verdict.trace[len(acted) :]
    lines = [_line(step) for step in (*acted, *recovery[:_REPORTED_RECOVERY_STEPS])]
    if len(recovery) > _REPORTED_RECOVERY_STEPS:
        lines.append(f"{'':>16}and {len(recovery) - _REPORTED_RECOVERY_STEPS} more steps of the recovery")
    return "\n".join([*lines, "", *(f"  BROKEN  {sentence}" for sentence in verdict.broken)])


def _line(step: Step) -> str:
    call = " ".join(part for part in (step.port, step.operation) if part)
    fault = f"   <-- {step.fault}" if step.fault else ""
    return f"{step.at_ms / 1000:>12.3f} s  {step.actor:<22} {call}{fault}"
