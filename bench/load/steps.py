"""The load test's course: rates up to the knee, twice the knee, and the way back."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from bench.load.fire import Generator, Phase, Shot
from bench.load.plan import GRACE_SECONDS, Figures, Search, Spread, growth, held_against
from bench.load.watch import Backlog, Processes, committed
from dpp_cli.local.state import StackState

PROBE_SECONDS = 5.0
RECOVERED = 1.5
"""Recovered is the stack when the median of a submit is at most so many times what it was at the first rate."""
_WARM = 8
_DRAIN_SECONDS = 90.0
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Course:
    """How long what is done."""

    search: Search
    seconds: float
    settling_seconds: float
    times: float
    """The knee, in the overload."""
    overload_seconds: float
    ladder_seconds: float
    """No step is begun later."""
    recovery_seconds: float
    """For how long recovery is waited for."""


@dataclass(frozen=True, slots=True)
class Place:
    """The stack, and how it is looked at."""

    state: StackState
    connection: psycopg.Connection[Any]
    backlog: Backlog
    generator: Generator
    told: Callable[[Figures, Sequence[str]], None]
    """What is done with a step's figures, and why it was not held."""


@dataclass(slots=True)
class Recovery:
    """Seconds from the end of the load; None where it was not seen."""

    answered: float | None = None
    """The last request was answered, or given up."""
    drained: float | None = None
    """The last of its runs was COMMITTED."""
    fast: float | None = None
    """From here on submits at the first rate took what they took before."""
    probes: list[tuple[float, Spread]] = field(default_factory=list)
    """When each probe began, and its submits in ms."""

    @property
    def seconds(self) -> float | None:
        """Until all of it was so."""
        parts = [part for part in (self.answered, self.drained, self.fast) if part is not None]
        return max(parts) if len(parts) == 3 else None


@dataclass(slots=True)
class Told:
    """What came out."""

    steps: list[Figures] = field(default_factory=list)
    knee: Figures | None = None
    overload: Figures | None = None
    recovery: Recovery = field(default_factory=Recovery)


async def climb(place: Place, course: Course) -> Told:
    """Warm up, and find the knee."""
    told, until = Told(), time.monotonic() + course.ladder_seconds
    for name in ("warm1", "warm2"):
        await place.generator.burst(name, _WARM)
        await _drained(place)
    search, held = course.search, dict[float, Figures]()
    while (rate := search.next()) is not None and time.monotonic() < until:
        name = f"step{len(told.steps):02d}"
        figures = await _step(place, Phase(name, rate, course.seconds, course.settling_seconds))
        told.steps.append(figures)
        against = held_against(figures)
        place.told(figures, against)
        search.tell(rate, held=not against)
        held[rate] = figures
    told.knee = None if search.held is None else held[search.held]
    return told


async def overload(place: Place, course: Course, told: Told) -> None:
    """Some times the knee, and then the first rate again until all is as it was."""
    assert told.knee is not None
    phase = Phase("over", course.times * told.knee.rate, course.overload_seconds)
    before, began = await asyncio.to_thread(Processes.now, place.state), time.time()
    await place.generator.fire(phase)
    after, backlog = await asyncio.to_thread(Processes.now, place.state), place.backlog.now
    cores = after.cores_since(before, time.time() - began)
    told.recovery = await _recovered(place, course, phase, told.steps[0])
    await place.generator.answered()
    await _drained(place)
    told.overload = _figures(place, phase, backlog, after.environments, cores)
    place.told(told.overload, held_against(told.overload))


async def _step(place: Place, phase: Phase) -> Figures:
    """One rate, and the wait until all of it is done."""
    before, began = await asyncio.to_thread(Processes.now, place.state), time.time()
    await place.generator.fire(phase)
    backlog = place.backlog.now
    after = await asyncio.to_thread(Processes.now, place.state)
    cores = after.cores_since(before, time.time() - began)
    await place.generator.answered()
    await asyncio.sleep(max(0.0, phase.ended + GRACE_SECONDS - time.time()))
    await _drained(place)
    return _figures(place, phase, backlog, after.environments, cores)


def _figures(
    place: Place, phase: Phase, backlog: int, environments: Mapping[str, int], cores: Mapping[str, float]
) -> Figures:
    submits, reads = phase.measured(phase.submits), phase.measured(phase.reads)
    ended_at = committed(place.connection, phase.name)
    done_at = [(shot.due, ended_at[shot.key]) for shot in submits if shot.key in ended_at]
    answers = Counter(f"POST {shot.answer}" for shot in submits)
    answers += Counter(f"GET {shot.answer}" for shot in reads)
    return Figures(
        rate=phase.rate,
        seconds=phase.seconds,
        offered=len(submits) + phase.unsent["POST"],
        unsent=phase.unsent.total(),
        accepted=sum(shot.accepted for shot in submits),
        done=sum(at <= phase.ended + GRACE_SECONDS for _, at in done_at),
        submit=Spread.of([shot.latency_ms for shot in submits]),
        read=Spread.of([shot.latency_ms for shot in reads]),
        whole=Spread.of([(at - due) * 1_000 for due, at in done_at]),
        late=Spread.of([shot.late_ms for shot in [*submits, *reads]]),
        answers=answers,
        growth=growth(place.backlog.samples, phase.measured_from, phase.ended),
        backlog=backlog,
        environments=environments,
        cores=cores,
    )


async def _recovered(place: Place, course: Course, over: Phase, first: Figures) -> Recovery:
    """Probe at the first rate, from the end of the load on, until all is done and a probe took what it did at first."""
    found, until = Recovery(), over.ended + course.recovery_seconds
    while (found.fast is None or found.drained is None) and time.time() < until:
        probe = Phase(f"probe{len(found.probes):03d}", first.rate, PROBE_SECONDS)
        await place.generator.fire(probe)
        found.answered, found.drained = await asyncio.to_thread(_past, place, over)
        answered = [shot for shot in probe.submits if shot.ended]
        spread = Spread.of([shot.latency_ms for shot in answered])
        found.probes.append((probe.begun - over.ended, spread))
        if found.fast is None and _is_as_before(probe, spread, first):
            found.fast = probe.begun - over.ended
    return found


def _is_as_before(probe: Phase, spread: Spread, first: Figures) -> bool:
    """Every submit of the probe was sent, answered and accepted, in about the time of the first step."""
    all_accepted = not probe.unsent and all(shot.accepted for shot in probe.submits)
    return all_accepted and spread.p50 <= RECOVERED * first.submit.p50


def _past(place: Place, over: Phase) -> tuple[float | None, float | None]:
    """When the load's last answer came and when its last run was COMMITTED, from its end; None while one is to come."""
    if not all(shot.ended for shot in [*over.submits, *over.reads]):
        return None, None
    answered = max([shot.ended for shot in [*over.submits, *over.reads]], default=over.ended)
    ended_at = committed(place.connection, over.name)
    accepted = [shot for shot in over.submits if shot.accepted]
    if not all(shot.key in ended_at for shot in accepted):
        return max(0.0, answered - over.ended), None
    last = max(ended_at.values(), default=over.ended)
    return max(0.0, answered - over.ended), max(0.0, last - over.ended)


async def _drained(place: Place) -> None:
    """Wait until nothing is under way any more, but not for ever: what hangs is told by the audit."""
    until = time.monotonic() + _DRAIN_SECONDS
    at = time.time()
    while place.backlog.empty_since(at) is None and time.monotonic() < until:
        await asyncio.sleep(_LOOK_SECONDS)


def open_shots(shots: Sequence[Shot]) -> list[Shot]:
    """Those whose client was not told what became of them."""
    return [shot for shot in shots if shot.open]
