"""Let clients use the running local stack while its processes are killed, then check it; `make soak` starts a stack."""

import argparse
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter

import httpx
import psycopg

from dpp.money.ledger import Ledger
from dpp_cli.local.state import StackState, running_state
from dpp_cli.paths import state_dir
from tests.soak import invariants
from tests.soak.accounts import create_account
from tests.soak.clients import Account, Client
from tests.soak.faults import FaultInjector
from tests.soak.report import print_line, print_result

_STALLED_AFTER_SECONDS = 600.0
_POLL_SECONDS = 20.0
_LAST_MESSAGES_SECONDS = 10.0
"""Messages of runs that have ended are skipped and deleted within this time."""


def main() -> int:
    """Run the command; 1 if an invariant is broken."""
    options = _parser().parse_args()
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "test")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "test")
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    state = running_state()
    ledger = Ledger.connect(state.redis_url)
    with psycopg.connect(state.database_url, autocommit=True) as connection:
        accounts = [create_account(connection, ledger, "soak") for _ in range(2)]
    print_line(
        f"{options.minutes} minutes, {options.clients} clients, a fault about every {options.every} s, "
        f"seed {options.seed}"
    )
    clients, faults = _soak(state, accounts, options)
    answers = sum((client.answers for client in clients), Counter[str]())
    print_line(f"answers {dict(answers)}; faults {dict(faults)}")
    with psycopg.connect(state.database_url, autocommit=True) as connection:
        stalled = _await_end(connection)
        submissions = [submission for client in clients for submission in client.submissions]
        wrong = [answer for client in clients for answer in client.wrong]
        broken = [*wrong, *stalled, *invariants.broken(connection, ledger, state, submissions)]
        print_line(f"runs {dict(invariants.outcomes(connection))}; submissions {len(submissions)}")
    return print_result(broken, "every micro-dollar, run, object and message is accounted for")


def _soak(state: StackState, accounts: list[Account], options: argparse.Namespace) -> tuple[list[Client], Counter[str]]:
    stop, chance = threading.Event(), random.Random(options.seed)
    clients = [
        Client(
            accounts[index % len(accounts)],
            httpx.Client(base_url=state.api_base_url, timeout=40, trust_env=False),
            random.Random(chance.random()),
            stop,
        )
        for index in range(options.clients)
    ]
    injector = FaultInjector(state, state_dir(), random.Random(chance.random()), stop, options.every)
    threads = [threading.Thread(target=run) for run in (*(client.run for client in clients), injector.run)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    while (left := options.minutes * 60 - (time.monotonic() - began)) > 0:
        time.sleep(min(60, left))
        sent = sum(len(client.submissions) for client in clients)
        minutes = (time.monotonic() - began) / 60
        print_line(f"{minutes:4.1f} min: {sent} submissions, {injector.injected.total()} faults")
    stop.set()
    for thread in threads:
        thread.join()
    for client in clients:
        client.http.close()
    return clients, injector.injected


def _await_end(connection: psycopg.Connection[tuple[object, ...]]) -> list[str]:
    """Wait until all runs have ended, and redrive dead letters as an operator would."""
    began = moved = time.monotonic()
    before = -1
    while left := invariants.unfinished(connection):
        if left != before:
            before, moved = left, time.monotonic()
        if time.monotonic() - moved > _STALLED_AFTER_SECONDS:
            return [f"{left} runs have not ended {_STALLED_AFTER_SECONDS:.0f} s after the last run that did"]
        print_line(f"{left} runs have not ended yet")
        subprocess.run([sys.executable, "-m", "dpp_cli.main", "dlq", "redrive", "--all"], check=False)
        time.sleep(_POLL_SECONDS)
    time.sleep(_LAST_MESSAGES_SECONDS)
    print_line(f"all runs have ended after {time.monotonic() - began:.0f} s")
    return []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="duration (default 10)")
    parser.add_argument("--clients", type=int, default=3, help="number of clients (default 3)")
    parser.add_argument("--every", type=float, default=4, help="mean seconds between two faults (default 4)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the clients' and the faults' choices")
    return parser


if __name__ == "__main__":
    sys.exit(main())
