"""Load on the local stack, up to the knee and to twice of it: `python -m bench.load [--quick]` (or `make bench-load`,
which brings up a stack of its own).

An open loop: submits are a Poisson process of a fixed rate, and as many reads another one; each is sent when it is due,
not when the one before was answered, and its time counts from then (bench/load_fire.py). When a run was COMMITTED says
its row, so that no client polls for it.

**The knee** is the highest rate that is held: of what was due in the step, `load_plan.DONE_SHARE` is COMMITTED at the
end of the step and `GRACE_SECONDS`, the backlog does not grow, and p99 of a submit is at most `SUBMIT_P99_MS`. The rate
is doubled until one is not held, and then halved in between. After each the backlog is waited for.

Then twice the knee, and the first rate again until all runs of the load have ended and submits are as fast as before:
the recovery time. At the end every promise is held against rows, receipts, objects and balances (bench/load_audit.py):
what was answered 202 is one run, ended, charged once, with its result; what was refused cost nothing; what was not
answered, or by a 5xx, is sent again with its key, and is one run as well. The exit code is 1 where one is lost or
doubled.

At most `--most-under-way` requests wait for an answer at a time; what is due beyond is not sent, and counted.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import httpx
import psycopg

from bench.load import report
from bench.load.audit import Findings, audit, gather, rows_of, standing_of
from bench.load.fire import Generator, Shot
from bench.load.plan import Search
from bench.load.steps import Course, Place, Told, climb, open_shots, overload
from bench.load.watch import Backlog, messages
from bench.support.output import print_machine
from dpp.money.ledger import Ledger
from dpp_cli.local.localstack import client_environment
from dpp_cli.local.state import StackState, running_state
from tests.soak import invariants
from tests.soak.accounts import create_account
from tests.soak.clients import Account, Submission

TENANTS = 4
MOST_UNDER_WAY = 64
"""Each may become a process of its own on the local stack, which starts one where no idle one is left."""
CREDIT_USD_MICROS = 100_000_000_000
REST_SECONDS = 420.0
"""What a crash left behind reconcile ends after 5 minutes (docs/money.md)."""
_LOOK_SECONDS = 1.0
_TELL_SECONDS = 15.0


@dataclass(slots=True)
class Audited:
    """What the audit found."""

    findings: Findings
    faults: Sequence[str]
    promised: int
    repeated: int
    standing: int
    """Of the repeated, those that were runs before they were repeated."""


def main() -> int:
    """Measure, audit and print; 1 where a run is lost or doubled, or where no rate was held."""
    options = _parser().parse_args()
    state = running_state()
    os.environ.update(client_environment(state.aws_endpoint_url))
    ledger = Ledger.connect(state.redis_url)
    with psycopg.connect(state.database_url, autocommit=True) as connection:
        accounts = [create_account(connection, ledger, "load", CREDIT_USD_MICROS) for _ in range(TENANTS)]
        print_machine(state.database_url, others={"LocalStack": _localstack_version(state)})
        report.head()
        told, audited = asyncio.run(_measured(state, connection, ledger, accounts, options))
    report.course(told)
    report.audit(audited.findings, audited.faults, audited.promised, audited.repeated, audited.standing)
    return 0 if told.knee is not None and audited.findings.sound and not audited.faults else 1


async def _measured(
    state: StackState,
    connection: psycopg.Connection[tuple[object, ...]],
    ledger: Ledger,
    accounts: Sequence[Account],
    options: argparse.Namespace,
) -> tuple[Told, Audited]:
    course = _course(options)
    generator = Generator(state.api_base_url, accounts, options.seed, options.most_under_way)
    with Backlog(state.database_url) as backlog:
        async with generator:
            place = Place(state, connection, backlog, generator, report.step)
            told = await climb(place, course)
            if told.knee is not None:
                await overload(place, course, told)
            await _rest(place, ledger, accounts)
            held = _held(ledger, accounts)
            repeated = open_shots(generator.submits)
            standing = standing_of(repeated, rows_of(connection))
            await generator.resend(repeated)
            await _rest(place, ledger, accounts)
        kept = await asyncio.to_thread(gather, connection, ledger, state)
        shots = generator.submits
        faults = [*held, *invariants.broken(connection, ledger, state, [_submission(shot) for shot in shots])]
    return told, Audited(audit(shots, kept), faults, len(shots), len(repeated), standing)


async def _rest(place: Place, ledger: Ledger, accounts: Sequence[Account]) -> None:
    """Wait until all runs have ended, queues are empty and nothing is reserved; what hangs the audit tells."""
    began = told = time.monotonic()
    while left := _under_way(place, ledger, accounts):
        if time.monotonic() - began > REST_SECONDS:
            print(f"not at rest after {REST_SECONDS:.0f} s: {left}")
            return
        if time.monotonic() - told > _TELL_SECONDS:
            told = time.monotonic()
            print(f"waiting for rest: {left}", flush=True)
        await asyncio.sleep(_LOOK_SECONDS)


def _under_way(place: Place, ledger: Ledger, accounts: Sequence[Account]) -> str:
    """What is left to be done; empty at rest."""
    counts = {
        "runs": invariants.unfinished(place.connection),
        "messages": messages(place.state),
        "reservations": sum(len(ledger.open_reservations(account.tenant_id)) for account in accounts),
    }
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _held(ledger: Ledger, accounts: Sequence[Account]) -> Sequence[str]:
    """Reservations that nobody gives back, of requests that were refused or never answered."""
    return [
        f"{account.tenant_id} still holds {len(left)} reservations before anything was repeated"
        for account in accounts
        if (left := ledger.open_reservations(account.tenant_id))
    ]


def _submission(shot: Shot) -> Submission:
    return Submission(shot.account.tenant_id, shot.key, {}, shot.run_id)


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
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="short steps: does it work, within 3 minutes")
    parser.add_argument("--start", type=float, default=2.0, help="submits a second of the first step")
    parser.add_argument("--factor", type=float, default=2.0, help="from one step to the next")
    parser.add_argument("--seconds", type=float, default=15.0, help="of a step")
    parser.add_argument("--times", type=float, default=2.0, help="the knee, in the overload")
    parser.add_argument("--overload-seconds", type=float, default=30.0)
    parser.add_argument("--most-under-way", type=int, default=MOST_UNDER_WAY)
    parser.add_argument("--seed", type=int, default=0, help="of the arrivals")
    return parser


if __name__ == "__main__":
    sys.exit(main())
