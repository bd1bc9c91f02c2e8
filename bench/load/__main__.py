"""Load on the local stack, up to the knee and to twice the knee: `python -m bench.load [--quick]` (or
`make bench-load`, which starts a separate stack).

An open loop: submits are a Poisson process of a fixed rate, and as many reads another one. Each is sent when it is due,
not when the one before was answered, and its time counts from then (bench/load/generator.py). The runs' rows say when
they were COMMITTED, so no client polls.

**The knee** is the highest rate that is sustained: `plan.DONE_SHARE` of what was due in the step is COMMITTED
`GRACE_SECONDS` after its end, the backlog does not grow, and p99 of a submit is at most `SUBMIT_P99_MS`. The rate is
doubled until one is not sustained, then halved in between. After each step the backlog is drained.

Then twice the knee, and the first rate again until all runs have ended and submits are as fast as before: the recovery
time. At the end all invariants are checked on rows, receipts, objects and balances (bench/load/audit.py): what was
answered 202 is one run, ended, charged once, with its result; what was refused cost nothing; what was answered by a 5xx
or not at all is repeated with its key, and is one run as well. The exit code is 1 if one is lost or doubled.

At most `--most-under-way` requests wait for an answer at a time; requests due beyond that are counted and not sent.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence

import httpx
import psycopg

from bench.load import report
from bench.load.audit import audit, collect, existing, rows_of
from bench.load.generator import Generator
from bench.load.observe import Backlog, messages
from bench.load.plan import Search
from bench.load.steps import Course, Stack, climb, overload, unknown
from bench.support.output import print_machine
from dpp.money.ledger import Ledger
from dpp_cli.local.localstack import client_environment
from dpp_cli.local.state import StackState, running_state
from tests.soak import invariants
from tests.soak.accounts import create_account
from tests.soak.clients import Account, Submission

TENANTS = 4
MOST_UNDER_WAY = 64
"""Each may become a process on the local stack, which starts one if none is idle."""
CREDIT_USD_MICROS = 100_000_000_000
REST_SECONDS = 420.0
"""After a crash, reconcile finishes what is left within 5 minutes (docs/money.md)."""
_PRINT_SECONDS = 15.0


def main() -> int:
    """Measure, audit and print. Returns 1 if a run is lost or doubled, or if no rate was sustained."""
    options = _parser().parse_args()
    state = running_state()
    os.environ.update(client_environment(state.aws_endpoint_url))
    ledger = Ledger.connect(state.redis_url)
    with psycopg.connect(state.database_url, autocommit=True) as connection:
        accounts = [create_account(connection, ledger, "load", CREDIT_USD_MICROS) for _ in range(TENANTS)]
        print_machine(state.database_url, others={"LocalStack": _localstack_version(state)})
        report.head()
        return asyncio.run(_measure(state, connection, ledger, accounts, options))


async def _measure(
    state: StackState,
    connection: psycopg.Connection[tuple[object, ...]],
    ledger: Ledger,
    accounts: Sequence[Account],
    options: argparse.Namespace,
) -> int:
    course = _course(options)
    with Backlog(state.database_url) as backlog:
        async with Generator(state.api_base_url, accounts, options.seed, options.most_under_way) as generator:
            stack = Stack(state, connection, backlog, generator, report.step)
            results = await climb(stack, course)
            if results.knee is not None:
                await overload(stack, course, results)
            await _rest(stack, ledger, accounts)
            faults = _open_reservations(ledger, accounts)
            repeated = unknown(generator.submits)
            existing_runs = existing(repeated, rows_of(connection))
            await generator.resend(repeated)
            await _rest(stack, ledger, accounts)
        stored, submits = await asyncio.to_thread(collect, connection, ledger, state), generator.submits
    submissions = [Submission(one.account.tenant_id, one.key, {}, one.run_id) for one in submits]
    faults += invariants.broken(connection, ledger, state, submissions)
    found = audit(submits, stored)
    report.course(results)
    report.audit(found, faults, len(submits), len(repeated), existing_runs)
    return 0 if results.knee is not None and found.is_sound and not faults else 1


async def _rest(stack: Stack, ledger: Ledger, accounts: Sequence[Account]) -> None:
    """Wait until all runs have ended, queues are empty and nothing is reserved. The audit reports what hangs."""
    began = printed = time.monotonic()
    while left := _under_way(stack, ledger, accounts):
        if time.monotonic() - began > REST_SECONDS:
            print(f"not at rest after {REST_SECONDS:.0f} s: {left}")
            return
        if time.monotonic() - printed > _PRINT_SECONDS:
            printed = time.monotonic()
            print(f"waiting for rest: {left}", flush=True)
        await asyncio.sleep(1.0)


def _under_way(stack: Stack, ledger: Ledger, accounts: Sequence[Account]) -> str:
    counts = {
        "runs": invariants.unfinished(stack.connection),
        "messages": messages(stack.state),
        "reservations": sum(len(ledger.open_reservations(account.tenant_id)) for account in accounts),
    }
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _open_reservations(ledger: Ledger, accounts: Sequence[Account]) -> list[str]:
    """Reservations of refused or unanswered requests that were not given back."""
    return [
        f"{account.tenant_id} still holds {len(left)} reservations before any request was repeated"
        for account in accounts
        if (left := ledger.open_reservations(account.tenant_id))
    ]


def _localstack_version(state: StackState) -> str:
    answer = httpx.get(f"{state.aws_endpoint_url}/_localstack/health", timeout=10, trust_env=False)
    return str(answer.json()["version"])


def _course(options: argparse.Namespace) -> Course:
    quick = options.quick
    return Course(
        search=Search(options.start, options.factor, halvings=0 if quick else 2),
        seconds=6.0 if quick else options.seconds,
        settling_seconds=2.0 if quick else 3.0,
        times=options.times,
        overload_seconds=10.0 if quick else options.overload_seconds,
        ladder_seconds=50.0 if quick else 210.0,
        recovery_seconds=45.0 if quick else 120.0,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short steps: checks that the bench works")
    parser.add_argument("--start", type=float, default=2.0, help="submits a second of the first step")
    parser.add_argument("--factor", type=float, default=2.0, help="from one step to the next")
    parser.add_argument("--seconds", type=float, default=15.0, help="of a step")
    parser.add_argument("--times", type=float, default=2.0, help="rate of the overload, as a multiple of the knee")
    parser.add_argument("--overload-seconds", type=float, default=30.0)
    parser.add_argument("--most-under-way", type=int, default=MOST_UNDER_WAY)
    parser.add_argument("--seed", type=int, default=0, help="of the arrivals")
    return parser


if __name__ == "__main__":
    sys.exit(main())
