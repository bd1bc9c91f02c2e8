"""The output of bench/cleanup."""

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from bench.cleanup.jobs import Batching
from bench.cleanup.submits import Submits
from bench.cleanup.windows import NOTHING, Windows
from bench.support.output import print_table, quantiles
from dpp.runs.jobs.retention import TOMBSTONES

AIM = 1.5
_ENOUGH = 100
_NAMES = {
    NOTHING: "nothing",
    "tombstones": "cleanup: tombstones",
    "outbox": "cleanup: outbox",
    "bare": "floor: bare DELETEs",
    "spin": "control: processor only",
    "naive": "naive: one DELETE of all",
}


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long the block took."""
    began = time.monotonic()
    yield
    print(f"{what} in {time.monotonic() - began:.0f} s: ", end="")


def statement_ms(connection: psycopg.Connection[Any], name: str) -> float:
    """Time of a statement of retention."""
    began = time.monotonic()
    connection.execute(TOMBSTONES.statements[name], {"now": None})
    return 1_000 * (time.monotonic() - began)


def print_kinds(windows: Windows, submits: Submits) -> None:
    """A line for each kind of window: its submits, and its deletions."""
    rows, deletions = [], []
    for label, name in _NAMES.items():
        found = windows.milliseconds(label, submits)
        p50, p99, most = quantiles(found)
        ratio = _noise(windows, submits) if label == NOTHING else _ratio(windows, submits, label)
        rows.append((name, f"{len(found)}", f"{p50:.1f}", f"{p99:.1f}", f"{most:.0f}", ratio))
        done = windows.done.get(label)
        if done and done.rows:
            rates = (f"{done.rows / seconds:.0f}" for seconds in (windows.seconds(label), sum(done.batches)))
            locks = ", ".join(f"{1_000 * one:.0f}" for one in quantiles(done.batches))
            cpu = f"{1_000 * done.cpu / len(done.batches):.0f}"
            deletions.append((name, f"{done.rows}", *rates, locks, cpu))
    print_table(("beside", "submits", "p50, ms", "p99", "max", "p99 / p99 with nothing beside"), rows)
    print()
    head = ("", "rows", "rows/s", "in batches", "a batch's locks, ms: p50, p99, max", "processor, ms a batch")
    print_table(head, deletions)


def print_aim(windows: Windows, submits: Submits) -> None:
    """Print whether p99 stayed within the aim: over all windows together, and in the median window."""
    for label in ("tombstones", "outbox"):
        pooled = pooled_ratio(windows, submits, label)
        median = statistics.median(ratios_of(windows, submits, label))
        result = "met" if max(pooled, median) <= AIM else "MISSED"
        print(f"aim: p99 beside a cleanup of {label} at most {AIM} ×: {result} ({pooled:.2f}, median {median:.2f})")
    print("the control shows what the processor alone does to p99, the samples whether submits wait for locks")


def print_samples(windows: Windows) -> None:
    print("\nwhat submits did in Postgres, by samples of their sessions (% of the time, both together):")
    for label, name in _NAMES.items():
        samples, expected = windows.samples[label], max(1.0, 20 * windows.seconds(label))
        shares = ", ".join(f"{at} {100 * count / expected:.1f}" for at, count in samples.most_common(5))
        locks = sum(count for at, count in samples.items() if at.startswith("Lock:"))
        print(f"  {name:<27}{shares or 'idle'}; waiting for a lock: {locks} of {samples.total()} samples")


def print_sweep(windows: Windows, submits: Submits, batchings: Sequence[Batching]) -> None:
    """A line for each pace, and for all of one batch size or one rest, which average out chance."""
    found = windows.milliseconds(NOTHING, submits)
    p50, p99, _ = quantiles(found)
    noise = _noise(windows, submits)
    print(f"with nothing beside: {len(found)} submits, p50 {p50:.1f}, p99 {p99:.1f} ms; {noise}\n")
    groups = [((str(one.rows), str(one.rest)), [one]) for one in batchings]
    for rows in sorted({one.rows for one in batchings}):
        groups.append(((str(rows), "all"), [one for one in batchings if one.rows == rows]))
    for rest in sorted({one.rest for one in batchings}):
        groups.append((("all", str(rest)), [one for one in batchings if one.rest == rest]))
    head = ("rows", "rest", "rows/s", "p50, ms", "p99", "ratio", "median", "by window", "a batch, ms")
    print_table(head, [(*name, *_sweep_cells(windows, submits, group)) for name, group in groups])


def _sweep_cells(windows: Windows, submits: Submits, group: Sequence[Batching]) -> Sequence[str]:
    labels = [str(one) for one in group]
    found = [ms for label in labels for ms in windows.milliseconds(label, submits)]
    ratios = [ratio for label in labels for ratio in ratios_of(windows, submits, label)]
    batches = [1_000 * took for label in labels for took in windows.done[label].batches]
    rows = sum(windows.done[label].rows for label in labels)
    p50, p99, _ = quantiles(found)
    return (
        f"{rows / sum(windows.seconds(label) for label in labels):.0f}",
        f"{p50:.1f}",
        f"{p99:.1f}",
        f"{pooled_ratio(windows, submits, *labels):.2f}",
        f"{statistics.median(ratios):.2f}",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
        ", ".join(f"{one:.0f}" for one in quantiles(batches)),
    )


def _ratio(windows: Windows, submits: Submits, label: str) -> str:
    ratios = ratios_of(windows, submits, label)
    if len(ratios) == 1:
        return f"{ratios[0]:.2f} × (one window)"
    pooled = pooled_ratio(windows, submits, label)
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}"
    return f"{pooled:.2f} ×; by window {spread}"


def _noise(windows: Windows, submits: Submits) -> str:
    """Differences among windows with nothing beside."""
    found = [quantiles(one.of(submits))[1] for one in windows.windows if one.label == NOTHING]
    median = statistics.median(found)
    return f"by window {min(found) / median:.2f} to {max(found) / median:.2f} of their median"


def ratios_of(windows: Windows, submits: Submits, label: str) -> list[float]:
    """p99 of each window over that of the two around it. A short last window is left out."""
    pairs = list(windows.pairs(label, submits))
    enough = [pair for pair in pairs if len(pair[0]) >= _ENOUGH]
    return [quantiles(beside)[1] / quantiles(around)[1] for beside, around in enough or pairs]


def pooled_ratio(windows: Windows, submits: Submits, *labels: str) -> float:
    """p99 of all windows of these labels over that of all around them."""
    pairs = [pair for label in labels for pair in windows.pairs(label, submits)]
    beside, around = ([ms for pair in pairs for ms in pair[side]] for side in (0, 1))
    return quantiles(beside)[1] / quantiles(around)[1]
