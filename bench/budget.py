"""Reserve and settle, how often a second: `python -m bench.budget [--quick]` (or `make bench-budget`).

On one hot tenant and on a thousand, by 1, 2, 8 and 32 callers at once, each a process with a connection of its own, as
containers are. Everyone's turn is a second long, and turns alternate. Beside the ledger's scripts stand the floor (two
bare scripts), the server's own limit (our scripts by the hundred), a ledger in Postgres alone that flushes to disk
(bench/budget_postgres.py), and LiteLLM's algorithm: the package is 63 packages and 260 MB without what its proxy needs,
so its calls to Redis stand for it, without its own code around them: its quickest (bench/budget_sides.py).

Then: so many requests at once against a budget for fewer, each of them 20 ms under way; who admits too many?

Redis keeps nothing on disk here: the runs' rows in Postgres do, from which balances are rebuilt (D2). What a run costs
in Postgres is in `make bench-runs`.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import redis

from bench import budget_postgres
from bench.budget_callers import REQUESTS_EACH, SHORT, SIDES, UNDER_WAY_SECONDS, WARM, Crew, tenant_of
from bench.budget_sides import CHARGED_USD_MICROS, RESERVED_USD_MICROS
from bench.crew import ends_tidily, machine
from dpp_cli.local.servers import PostgresServer, ValkeyServer

CALLERS = (1, 2, 8, 32)
TENANTS = (1, 1_000)
ROUNDS, SECONDS = 3, 1.0
QUICK_ROUNDS, QUICK_SECONDS = 1, 0.2
ROUNDS_SECONDS = 225
"""No round is begun that would end later."""
FUNDS_USD_MICROS = 10**12
ADMITTED = 40
AIM = 10

REFUSING = ("ours", "postgres", "litellm, reserving", "litellm, afterwards")

type Rates = dict[tuple[str, int, int], list[float]]


def main() -> None:
    """Measure and print."""
    options = _parser().parse_args()
    ends_tidily()
    rounds, seconds = (QUICK_ROUNDS, QUICK_SECONDS) if options.quick else (options.rounds, options.seconds)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dpp-bench-")))
        # Postgres may run as another user and must reach its folder.
        folder.chmod(0o755)
        postgres = PostgresServer.start(folder / "postgres", durable=True, outlives_starter=False)
        stack.callback(postgres.stop)
        urls = {}
        for name in SIDES:
            cache = ValkeyServer.start(folder / f"valkey-{name}", outlives_starter=False)
            stack.callback(cache.stop)
            urls[name] = cache.url
        print(machine(postgres.url(), {"Valkey": _valkey_version(urls["ours"])}))
        urls["postgres"] = postgres.url()
        budget_postgres.prepare(urls["postgres"])
        crew = Crew(stack, urls, max(CALLERS))
        rates, counted = _measured(crew, urls, rounds, seconds)
        _print_rates(rates)
        _print_proofs(urls, counted)
        _print_overspend(crew, urls)
        _print_goal(rates)


def _measured(
    crew: Crew, urls: Mapping[str, str], rounds: int, seconds: float
) -> tuple[Rates, dict[tuple[str, int], int]]:
    for name, made in SIDES.items():
        side = made(urls[name])
        side.fund(WARM, FUNDS_USD_MICROS)
        for tenants in TENANTS:
            for number in range(tenants):
                side.fund(tenant_of(tenants, number), FUNDS_USD_MICROS)
    rates: Rates = {}
    counted: dict[tuple[str, int], int] = {}
    began = time.monotonic()
    for turn in range(rounds):
        if turn and (time.monotonic() - began) * (turn + 1) / turn > ROUNDS_SECONDS:
            print(f"{turn} rounds of {rounds}: there was no time for more")
            break
        for tenants in TENANTS:
            for callers in CALLERS:
                for name in SIDES:
                    pairs, rate = crew.pairs(name, callers, tenants, seconds)
                    rates.setdefault((name, tenants, callers), []).append(rate)
                    counted[name, tenants] = counted.get((name, tenants), 0) + pairs
    return rates, counted


def _print_rates(rates: Rates) -> None:
    for tenants in TENANTS:
        print(
            f"\npairs/s on {tenants:,} tenant{'s' if tenants > 1 else ''}, median (least to most), by callers"
        )
        print(f"{'':<20}" + "".join(f"{callers:>26}" for callers in CALLERS))
        for name in SIDES:
            cells = [rates[name, tenants, callers] for callers in CALLERS]
            said = [f"{statistics.median(its):,.0f} ({min(its):,.0f}–{max(its):,.0f})" for its in cells]
            print(f"{name:<20}" + "".join(f"{one:>26}" for one in said))
        for name in ("floor", "postgres", "litellm, reserving", "litellm, afterwards"):
            ratios = [_ratio(rates, name, tenants, callers) for callers in CALLERS]
            print(
                f"{f'ours / {name}':<27}"
                + f"{ratios[0]:>18.2f}×"
                + "".join(f"{one:>25.2f}×" for one in ratios[1:])
            )


def _ratio(rates: Rates, name: str, tenants: int, callers: int) -> float:
    ours = statistics.median(rates["ours", tenants, callers])
    return ours / statistics.median(rates[name, tenants, callers])


def _print_proofs(urls: Mapping[str, str], counted: Mapping[tuple[str, int], int]) -> None:
    """Every micro is where the callers' own counts say it must be. Raises AssertionError."""
    print()
    for name in SIDES:
        if name == "floor":
            continue
        side = SIDES[name](urls[name])
        for tenants in TENANTS:
            left = sum(side.left(tenant_of(tenants, number)) for number in range(tenants))
            due = tenants * FUNDS_USD_MICROS - counted[name, tenants] * CHARGED_USD_MICROS
            assert left == due, f"{name}: {left} micros are left, {due} should be"
        pairs = sum(counted[name, tenants] for tenants in TENANTS)
        print(
            f"{name}: {pairs:,} pairs, {pairs * CHARGED_USD_MICROS:,} micros charged, balances right to the micro"
        )


def _print_overspend(crew: Crew, urls: Mapping[str, str]) -> None:
    callers = max(CALLERS)
    requests = callers * REQUESTS_EACH
    print(
        f"\n{requests} requests by {callers} callers, {1_000 * UNDER_WAY_SECONDS:.0f} ms each, budget for {ADMITTED}"
    )
    for name in REFUSING:
        side = SIDES[name](urls[name])
        side.fund(SHORT, ADMITTED * RESERVED_USD_MICROS)
        admitted = crew.spend(name, callers)
        left = side.left(SHORT)
        overspent = max(0, -left)
        print(
            f"{name:<20}{admitted:>5} admitted, {overspent:,} micros overspent ({max(0, admitted - ADMITTED)} requests)"
        )
        if name == "ours":
            assert (admitted, left) == (ADMITTED, 0)


def _print_goal(rates: Rates) -> None:
    ratios = {callers: _ratio(rates, "postgres", 1, callers) for callers in CALLERS}
    told = ", ".join(f"{ratio:.1f} × by {callers}" for callers, ratio in ratios.items())
    best = max(statistics.median(rates["postgres", 1, callers]) for callers in CALLERS)
    ours = max(statistics.median(rates["ours", 1, callers]) for callers in CALLERS)
    least = min(ratios.values())
    said = "met" if least >= AIM else f"missed: {least:.1f} × at the least"
    print(
        f"\naim, {AIM} × the Postgres ledger on one hot tenant: {said} ({told}; best against best {ours / best:.1f} ×)"
    )


def _valkey_version(url: str) -> str:
    with redis.Redis.from_url(url) as client:
        told = client.info("server")
    return str(told.get("valkey_version") or told["redis_version"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.budget", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round: does it work, in a minute")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="a turn")
    return parser


if __name__ == "__main__":
    main()
