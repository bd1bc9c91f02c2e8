"""Reserve and settle, pairs a second: `python -m bench.budget [--quick]` (or `make bench-budget`).

On one hot tenant and on a thousand, by 1, 2, 8 and 32 callers at once. Each caller is a process with its own
connection, as containers are. Turns last a second and alternate. Compared are the ledger's scripts, the floor (two bare
scripts), the server's own limit (our scripts, a hundred at a time), a ledger in Postgres alone that flushes to disk
(bench/budget/postgres.py), and LiteLLM's algorithm. LiteLLM is 63 packages and 260 MB without what its proxy needs, so
its calls to Redis stand for it, without its own code around them: the fastest it can be (bench/budget/sides.py).

Then many requests at once compete for a budget that admits fewer, each of them 20 ms under way: who admits too many?

Redis keeps nothing on disk here: balances are rebuilt from the runs' rows in Postgres (D2). `make bench-runs` measures
what a run costs in Postgres.
"""

import argparse
import statistics
from collections import Counter
from collections.abc import Mapping

import redis

from bench.budget import postgres
from bench.budget.callers import REQUESTS_EACH, SHORT, SIDES, UNDER_WAY_SECONDS, WARM, Callers, tenant_of
from bench.budget.sides import CHARGED_USD_MICROS, RESERVED_USD_MICROS
from bench.support.output import print_machine, print_table
from bench.support.processes import exit_on_sigterm, rounds_in_time
from bench.support.servers import servers

CALLERS = (1, 2, 8, 32)
TENANTS = (1, 1_000)
FUNDS_USD_MICROS = 10**12
ADMITTED = 40
AIM = 10
_COMPARED = ("floor", "postgres", "litellm, reserving", "litellm, afterwards")

type Rates = dict[tuple[str, int, int], list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.budget", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round: checks that the bench works")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn")
    options = parser.parse_args()
    exit_on_sigterm()
    rounds, seconds = (1, 0.2) if options.quick else (options.rounds, options.seconds)
    with servers() as its:
        urls = {name: its.valkey(f"valkey-{name}").url for name in SIDES if name != "postgres"}
        urls["postgres"] = its.postgres.url()
        print_machine(its.postgres.url(), ("psycopg", "redis"), {"Valkey": _valkey_version(urls["ours"])})
        postgres.prepare(urls["postgres"])
        callers = Callers(urls, max(CALLERS))
        its.enter(callers.workers)
        rates, counted = _measured(callers, urls, rounds, seconds)
        _print_rates(rates)
        _print_proofs(urls, counted)
        _print_overspend(callers, urls)
        _print_aim(rates)


def _measured(
    callers: Callers, urls: Mapping[str, str], rounds: int, seconds: float
) -> tuple[Rates, Counter[tuple[str, int]]]:
    for name, create in SIDES.items():
        side = create(urls[name])
        side.fund(WARM, FUNDS_USD_MICROS)
        for tenants in TENANTS:
            for number in range(tenants):
                side.fund(tenant_of(tenants, number), FUNDS_USD_MICROS)
    rates: Rates = {}
    counted = Counter[tuple[str, int]]()
    turns = [(name, tenants, many) for tenants in TENANTS for many in CALLERS for name in SIDES]
    for _ in rounds_in_time(rounds):
        for name, tenants, many in turns:
            pairs, rate = callers.pairs(name, many, tenants, seconds)
            rates.setdefault((name, tenants, many), []).append(rate)
            counted[name, tenants] += pairs
    return rates, counted


def _print_rates(rates: Rates) -> None:
    for tenants in TENANTS:
        print(f"\npairs/s on {tenants:,} tenant{'s' * (tenants > 1)}, median (min to max), by callers")
        rows = []
        for name in SIDES:
            found = [rates[name, tenants, many] for many in CALLERS]
            rows.append((name, *(f"{statistics.median(it):,.0f} ({min(it):,.0f}–{max(it):,.0f})" for it in found)))
        for name in _COMPARED:
            ratios = [f"{_ratio(rates, name, tenants, many):.2f} ×" for many in CALLERS]
            rows.append((f"ours / {name}", *ratios))
        print_table(("", *map(str, CALLERS)), rows)


def _ratio(rates: Rates, name: str, tenants: int, many: int) -> float:
    ours = statistics.median(rates["ours", tenants, many])
    return ours / statistics.median(rates[name, tenants, many])


def _print_proofs(urls: Mapping[str, str], counted: Mapping[tuple[str, int], int]) -> None:
    """Check each balance against the callers' own counts. Raises AssertionError."""
    print()
    for name in SIDES:
        if name == "floor":
            continue
        side = SIDES[name](urls[name])
        for tenants in TENANTS:
            left = sum(side.left(tenant_of(tenants, number)) for number in range(tenants))
            due = tenants * FUNDS_USD_MICROS - counted[name, tenants] * CHARGED_USD_MICROS
            assert left == due, f"{name}: {left} micros are left, {due} are expected"
        pairs = sum(counted[name, tenants] for tenants in TENANTS)
        charged = f"{pairs * CHARGED_USD_MICROS:,} micros charged"
        print(f"{name}: {pairs:,} pairs, {charged}, balances right to the micro")


def _print_overspend(callers: Callers, urls: Mapping[str, str]) -> None:
    many = max(CALLERS)
    requests, each_ms = many * REQUESTS_EACH, 1_000 * UNDER_WAY_SECONDS
    print(f"\n{requests} requests by {many} callers, {each_ms:.0f} ms each, budget for {ADMITTED}")
    rows = []
    for name in ("ours", "postgres", "litellm, reserving", "litellm, afterwards"):
        side = SIDES[name](urls[name])
        side.fund(SHORT, ADMITTED * RESERVED_USD_MICROS)
        admitted, left = callers.spend(name, many), side.left(SHORT)
        rows.append((name, str(admitted), f"{max(0, -left):,} micros ({max(0, admitted - ADMITTED)} requests)"))
        if name == "ours":
            assert (admitted, left) == (ADMITTED, 0)
    print_table(("", "admitted", "overspent"), rows)


def _print_aim(rates: Rates) -> None:
    ratios = {many: _ratio(rates, "postgres", 1, many) for many in CALLERS}
    each = ", ".join(f"{ratio:.1f} × by {many}" for many, ratio in ratios.items())
    ours, best = (max(statistics.median(rates[name, 1, many]) for many in CALLERS) for name in ("ours", "postgres"))
    result = "met" if min(ratios.values()) >= AIM else "missed"
    best_ratio = f"best against best {ours / best:.1f} ×"
    print(f"\naim, {AIM} × the Postgres ledger on one hot tenant: {result} ({each}; {best_ratio})")


def _valkey_version(url: str) -> str:
    with redis.Redis.from_url(url) as client:
        info = client.info("server")
    assert isinstance(info, dict)
    return str(info.get("valkey_version") or info["redis_version"])


if __name__ == "__main__":
    main()
