"""What bench/cleanup.py prints."""

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from bench.cleanup_beside import Beat, Submits, Worked
from bench.cleanup_stage import OFF, Stage
from dpp.runs.jobs.retention import QUERIES

_ENOUGH = 100
GOAL = 1.5
_NAMES = {
    OFF: "nothing",
    "tombstones": "cleanup: tombstones",
    "outbox": "cleanup: outbox",
    "bare": "floor: bare DELETEs",
    "spin": "control: processor alone",
    "naive": "naive: one DELETE of all",
}


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Say how long it took."""
    begun = time.monotonic()
    yield
    print(f"{what} in {time.monotonic() - begun:.0f} s: ", end="")


def statement_ms(connection: psycopg.Connection[Any], name: str) -> float:
    """What one of the statements of retention takes now."""
    begun = time.monotonic()
    connection.execute(QUERIES[name], {"now": None})
    return 1_000 * (time.monotonic() - begun)


def print_kinds(stage: Stage, submitted: Submits) -> None:
    """A line for each kind of window."""
    print(f"{'':<27}{'submits':>8}{'p50':>7}{'p99':>8}{'most':>7}   p99 / p99 with nothing beside")
    for label, name in _NAMES.items():
        found = [ms for one in stage.windows if one.label == label for ms in one.of(submitted)]
        p50, p99, most = quantiles(found)
        told = _noise(stage, submitted) if label == OFF else _ratio(stage, submitted, label)
        print(f"{name:<27}{len(found):>8}{p50:>7.1f}{p99:>8.1f}{most:>7.0f}   {told}")
    print(
        f"\n{'':<27}{'rows':>8}{'rows/s':>8}{'while at it':>13}   a batch's locks: p50, p99, most; processor"
    )
    for label, name in _NAMES.items():
        if label in stage.worked and stage.worked[label].rows:
            _print_work(name, stage.worked[label], stage.seconds(label))


def print_goal(stage: Stage, submitted: Submits) -> None:
    """Whether p99 stayed within what a cleanup may do to it, by all windows together and by the median window."""
    for label in ("tombstones", "outbox"):
        pooled, middle = (
            pooled_ratio(stage, submitted, label),
            statistics.median(ratios_of(stage, submitted, label)),
        )
        kept = "kept" if max(pooled, middle) <= GOAL else "MISSED"
        print(
            f"goal: p99 beside a cleanup of {label} at most {GOAL} ×: {kept} ({pooled:.2f}, median {middle:.2f})"
        )
    print(
        "the control shows what the processor alone does to p99, the looks below whether submits wait for locks"
    )


def _print_work(name: str, worked: Worked, seconds: float) -> None:
    p50, p99, most = (1_000 * one for one in quantiles(worked.batches))
    cpu = 1_000 * worked.cpu / len(worked.batches)
    rates = f"{worked.rows / seconds:>8.0f}{worked.rows / sum(worked.batches):>13.0f}"
    print(f"{name:<27}{worked.rows:>8}{rates}   {p50:.0f}, {p99:.0f}, {most:.0f} ms; {cpu:.0f} ms")


def _ratio(stage: Stage, submitted: Submits, label: str) -> str:
    ratios = ratios_of(stage, submitted, label)
    shown = f"{pooled_ratio(stage, submitted, label):.2f} ×; by window"
    if len(ratios) == 1:
        return f"{ratios[0]:.2f} × (one window)"
    return f"{shown} {min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}"


def _noise(stage: Stage, submitted: Submits) -> str:
    """How far windows with nothing beside are from each other."""
    offs = [quantiles(one.of(submitted))[1] for one in stage.windows if one.label == OFF]
    middle = statistics.median(offs)
    return f"by window {min(offs) / middle:.2f} to {max(offs) / middle:.2f} of their median"


def ratios_of(stage: Stage, submitted: Submits, label: str) -> list[float]:
    """p99 of each window by that of the two around it; a last one that was short has none to speak of."""
    pairs = [pair for pair in stage.pairs(label, submitted) if len(pair[0]) >= _ENOUGH]
    return [quantiles(on)[1] / quantiles(off)[1] for on, off in pairs or stage.pairs(label, submitted)]


def pooled_ratio(stage: Stage, submitted: Submits, *labels: str) -> float:
    """p99 of all windows of these labels by that of all around them."""
    pairs = [pair for label in labels for pair in stage.pairs(label, submitted)]
    on, off = ([ms for pair in pairs for ms in pair[side]] for side in (0, 1))
    return quantiles(on)[1] / quantiles(off)[1]


def print_looks(stage: Stage) -> None:
    """What the submits' sessions were at."""
    print("\nwhat submits were at in Postgres, by looks at their sessions (% of the time, of both together):")
    for label, name in _NAMES.items():
        looks = stage.looks[label]
        sessions = max(1.0, 20 * stage.seconds(label))
        shares = ", ".join(f"{at} {100 * count / sessions:.1f}" for at, count in looks.most_common(5))
        locks = sum(count for at, count in looks.items() if at.startswith("Lock:"))
        print(
            f"  {name:<27}{shares or 'idle'}; for a lock of another's: {locks} of {sum(looks.values())} looks"
        )


def print_sweep(stage: Stage, submitted: Submits, beats: Sequence[Beat]) -> None:
    """A line for each pace, and for all of one size or one rest: of these, what is chance in a line is less."""
    offs = [ms for one in stage.windows if one.label == OFF for ms in one.of(submitted)]
    p50, p99, _ = quantiles(offs)
    print(
        f"with nothing beside: {len(offs)} submits, p50 {p50:.1f}, p99 {p99:.1f} ms; {_noise(stage, submitted)}\n"
    )
    print(
        f"{'rows':>6}{'rest':>6}{'rows/s':>9}{'p50':>7}{'p99':>8}{'ratio':>8}{'median':>8}{'by window':>16}   a batch"
    )
    for beat in beats:
        _print_beats(stage, submitted, (str(beat.rows), str(beat.rest)), [beat])
    for rows in sorted({beat.rows for beat in beats}):
        _print_beats(stage, submitted, (str(rows), "all"), [beat for beat in beats if beat.rows == rows])
    for rest in sorted({beat.rest for beat in beats}):
        _print_beats(stage, submitted, ("all", str(rest)), [beat for beat in beats if beat.rest == rest])


def _print_beats(stage: Stage, submitted: Submits, name: tuple[str, str], beats: Sequence[Beat]) -> None:
    labels = [str(beat) for beat in beats]
    found = [ms for label in labels for on, _ in stage.pairs(label, submitted) for ms in on]
    ratios = [ratio for label in labels for ratio in ratios_of(stage, submitted, label)]
    batches = [1_000 * took for label in labels for took in stage.worked[label].batches]
    batch = ", ".join(f"{one:.0f}" for one in quantiles(batches))
    rate = sum(stage.worked[label].rows for label in labels) / sum(stage.seconds(label) for label in labels)
    p50, p99, _ = quantiles(found)
    ratio, middle = pooled_ratio(stage, submitted, *labels), statistics.median(ratios)
    told = f"{name[0]:>6}{name[1]:>6}{rate:>9.0f}{p50:>7.1f}{p99:>8.1f}{ratio:>8.2f}{middle:>8.2f}"
    print(f"{told}{f'{min(ratios):.2f} to {max(ratios):.2f}':>16}   {batch} ms")


def quantiles(found: Sequence[float]) -> tuple[float, float, float]:
    """p50, p99 and the greatest."""
    if len(found) < 2:
        return (found[0],) * 3 if found else (float("nan"),) * 3
    percentiles = statistics.quantiles(found, n=100, method="inclusive")
    return percentiles[49], percentiles[98], max(found)
