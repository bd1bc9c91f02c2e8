"""A schedule as people read it."""

from collections.abc import Sequence

from tests.sim.run import Verdict
from tests.sim.simulation import Step

_SHOWN_AT_REST = 30


def report(verdict: Verdict) -> str:
    """Every step, the beginning of the way to rest, and the promises that were broken."""
    acted = [step for step in verdict.trace if step.actor not in ("calm", "audit")]
    at_rest = verdict.trace[len(acted) :]
    lines = [_line(step) for step in (*acted, *at_rest[:_SHOWN_AT_REST])]
    if len(at_rest) > _SHOWN_AT_REST:
        lines.append(f"{'':>16}and {len(at_rest) - _SHOWN_AT_REST} steps more on the way to rest")
    lines += ["", *(f"  BROKEN  {promise}" for promise in verdict.broken)]
    return "\n".join(lines)


def decisions_text(decisions: Sequence[int]) -> str:
    """Decisions as one word for the command line."""
    return ",".join(map(str, decisions))


def _line(step: Step) -> str:
    seconds = f"{step.at_ms / 1000:>12.3f} s"
    call = " ".join(part for part in (step.port, step.operation) if part)
    fault = f"   <-- {step.fault}" if step.fault else ""
    return f"{seconds}  {step.actor:<22} {call}{fault}"
