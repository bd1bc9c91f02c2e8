"""The course of the load test: rates up to the knee, twice the knee, and the recovery."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from bench.load.generator import Generator, Phase, Request
from bench.load.observe import Backlog, Processes, committed
from bench.load.plan import GRACE_SECONDS, Figures, Search, Spread, growth, violations
from dpp_cli.local.state import StackState

PROBE_SECONDS = 5.0
RECOVERED = 1.5
"""The stack has recovered when the median of a submit is at most this multiple of the one at the first rate."""
_WARM_REQUESTS = 8
_DRAIN_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Course:
    """Rates and durations."""

    search: Search
    seconds: float
    settling_seconds: float
    times: float  # rate of the overload, as a multiple of the knee
    overload_seconds: float
    ladder_seconds: float  # no step begins later
    recovery_seconds: float  # how long recovery is awaited


@dataclass(frozen=True, slots=True)
class Stack:
    """The stack and its observers. `print_step` prints a step's figures and why its rate was not sustained."""

    state: StackState
    connection: psycopg.Connection[Any]
    backlog: Backlog
    generator: Generator
    print_step: Callable[[Figures, Sequence[str]], None]


@dataclass(slots=True)
class Recovery:
    """Seconds from the end of the overload; None for what was not seen."""

    answered: float | None = None  # until the last request was answered or given up
    finished: float | None = None  # until its last run was COMMITTED
    fast: float | None = None  # until submits at the first rate took as long as before
    probes: list[tuple[float, Spread]] = field(default_factory=list)  # start and submits (ms) of each probe

    @property
    def seconds(self) -> float | None:
        parts = [part for part in (self.answered, self.finished, self.fast) if part is not None]
        return max(parts) if len(parts) == 3 else None


@dataclass(slots=True)
class Results:
    """The figures of all steps."""

    steps: list[Figures] = field(default_factory=list)
    knee: Figures | None = None
    overload: Figures | None = None
    recovery: Recovery = field(default_factory=Recovery)


async def climb(stack: Stack, course: Course) -> Results:
    results, until = Results(), time.monotonic() + course.ladder_seconds
    for name in ("warm1", "warm2"):
        await stack.generator.burst(name, _WARM_REQUESTS)
        await _drain(stack)
    search, by_rate = course.search, dict[float, Figures]()
    while (rate := search.next()) is not None and time.monotonic() < until:
        phase = Phase(f"step{len(results.steps):02d}", rate, course.seconds, course.settling_seconds)
        measured = await _run(stack, phase)
        await stack.generator.wait_for_answers()
        await asyncio.sleep(max(0.0, phase.ended + GRACE_SECONDS - time.time()))
        await _drain(stack)
        figures = by_rate[rate] = _figures(stack, phase, *measured)
        results.steps.append(figures)
        stack.print_step(figures, violations(figures))
        search.record(rate, sustained=not violations(figures))
    results.knee = None if search.sustained is None else by_rate[search.sustained]
    return results


async def overload(stack: Stack, course: Course, results: Results) -> None:
    """Run at a multiple of the knee, then at the first rate until everything is as before."""
    assert results.knee is not None
    phase = Phase("over", course.times * results.knee.rate, course.overload_seconds)
    measured = await _run(stack, phase)
    results.recovery = await _recover(stack, course, phase, results.steps[0])
    await stack.generator.wait_for_answers()
    await _drain(stack)
    results.overload = _figures(stack, phase, *measured)
    stack.print_step(results.overload, violations(results.overload))


async def _run(stack: Stack, phase: Phase) -> tuple[int, Mapping[str, int], Mapping[str, float]]:
    """Run a phase. Returns the backlog at its end, the environments and the busy cores."""
    before, began = await asyncio.to_thread(Processes.now, stack.state), time.time()
    await stack.generator.run(phase)
    backlog, after = stack.backlog.now, await asyncio.to_thread(Processes.now, stack.state)
    return backlog, after.environments, after.cores_since(before, time.time() - began)


def _figures(
    stack: Stack, phase: Phase, backlog: int, environments: Mapping[str, int], cores: Mapping[str, float]
) -> Figures:
    submits, reads = phase.measured(phase.submits), phase.measured(phase.reads)
    committed_at = committed(stack.connection, phase.name)
    done_at = [(one.due, committed_at[one.key]) for one in submits if one.key in committed_at]
    answers = Counter(f"POST {one.answer}" for one in submits) + Counter(f"GET {one.answer}" for one in reads)
    return Figures(
        rate=phase.rate,
        seconds=phase.seconds,
        offered=len(submits) + phase.unsent["POST"],
        unsent=phase.unsent.total(),
        accepted=sum(one.is_accepted for one in submits),
        done=sum(at <= phase.ended + GRACE_SECONDS for _, at in done_at),
        submit=Spread.of([one.latency_ms for one in submits]),
        read=Spread.of([one.latency_ms for one in reads]),
        whole=Spread.of([(at - due) * 1_000 for due, at in done_at]),
        late=Spread.of([one.late_ms for one in [*submits, *reads]]),
        answers=answers,
        growth=growth(stack.backlog.samples, phase.measured_from, phase.ended),
        backlog=backlog,
        environments=environments,
        cores=cores,
    )


async def _recover(stack: Stack, course: Course, over: Phase, first: Figures) -> Recovery:
    """Probe at the first rate until all runs are done and a probe is as fast as the first step."""
    found, until = Recovery(), over.ended + course.recovery_seconds
    while (found.fast is None or found.finished is None) and time.time() < until:
        probe = Phase(f"probe{len(found.probes):03d}", first.rate, PROBE_SECONDS)
        await stack.generator.run(probe)
        found.answered, found.finished = await asyncio.to_thread(_ended, stack, over)
        spread = Spread.of([one.latency_ms for one in probe.submits if one.ended])
        found.probes.append((probe.began - over.ended, spread))
        all_accepted = not probe.unsent and all(one.is_accepted for one in probe.submits)
        if found.fast is None and all_accepted and spread.p50 <= RECOVERED * first.submit.p50:
            found.fast = probe.began - over.ended
    return found


def _ended(stack: Stack, over: Phase) -> tuple[float | None, float | None]:
    """Seconds from the overload's end to its last answer and to its last COMMITTED run; None while one is missing."""
    requests = [*over.submits, *over.reads]
    if not all(request.ended for request in requests):
        return None, None
    answered = max([request.ended for request in requests], default=over.ended)
    committed_at = committed(stack.connection, over.name)
    last = max(committed_at.values(), default=over.ended)
    is_done = all(one.key in committed_at for one in over.submits if one.is_accepted)
    return max(0.0, answered - over.ended), max(0.0, last - over.ended) if is_done else None


async def _drain(stack: Stack) -> None:
    """Wait until no run is under way, for a limited time: the audit reports runs that hang."""
    at, until = time.time(), time.monotonic() + _DRAIN_SECONDS
    while not stack.backlog.is_empty_since(at) and time.monotonic() < until:
        await asyncio.sleep(0.1)


def unknown(requests: Sequence[Request]) -> list[Request]:
    """The requests whose client does not know the outcome."""
    return [request for request in requests if request.is_unknown]
