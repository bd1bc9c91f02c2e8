"""`python -m tests.soak --minutes 10` on the running local stack; `make soak` brings one up for it."""

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
from tests.soak import books
from tests.soak.accounts import funded
from tests.soak.clients import Account, Client
from tests.soak.havoc import Havoc

_REST_WITHIN_SECONDS = 600.0
_LOOK_EVERY_SECONDS = 5.0


def main() -> int:
    """Let it run, wait for rest, check; 1 where a promise is broken."""
    options = _parser().parse_args()
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "test")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "test")
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    state = running_state()
    ledger = Ledger.connect(state.redis_url)
    with psycopg.connect(state.database_url, autocommit=True) as connection:
        chance = random.Random(options.seed)
        accounts = [funded(connection, ledger, "soak") for _ in range(2)]
    _say(
        f"{options.minutes} minutes, {options.clients} clients,"
        f" a strike about every {options.every} s, seed {options.seed}"
    )
    clients, strikes = _soak(state, accounts, options, chance)
    answers = sum((client.answers for client in clients), Counter[str]())
    _say(f"answers {dict(answers)}; strikes {dict(strikes)}")
    with psycopg.connect(state.database_url, autocommit=True) as connection:
        rested = _come_to_rest(connection)
        orders = [order for client in clients for order in client.orders]
        wrong = [fault for client in clients for fault in client.wrong]
        faults = [*wrong, *rested, *books.broken(connection, ledger, state, orders)]
        _say(f"runs {dict(books.outcomes(connection))}; orders {len(orders)}")
    for fault in faults:
        _say(f"BROKEN: {fault}")
    _say(
        f"{len(faults)} promises broken"
        if faults
        else "every micro, run, object and message is accounted for"
    )
    return 1 if faults else 0


def _soak(
    state: StackState, accounts: list[Account], options: argparse.Namespace, chance: random.Random
) -> tuple[list[Client], Counter[str]]:
    stop = threading.Event()
    clients = [
        Client(
            accounts[index % len(accounts)],
            httpx.Client(base_url=state.api_base_url, timeout=40, trust_env=False),
            random.Random(chance.random()),
            stop,
        )
        for index in range(options.clients)
    ]
    havoc = Havoc(state, state_dir(), random.Random(chance.random()), stop, options.every)
    threads = [threading.Thread(target=act) for act in (*(client.work for client in clients), havoc.rage)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    while (left := options.minutes * 60 - (time.monotonic() - began)) > 0:
        time.sleep(min(60, left))
        done = sum(len(client.orders) for client in clients)
        _say(f"{(time.monotonic() - began) / 60:4.1f} min: {done} orders, {havoc.strikes.total()} strikes")
    stop.set()
    for thread in threads:
        thread.join()
    for client in clients:
        client.http.close()
    return clients, havoc.strikes


def _come_to_rest(connection: psycopg.Connection[tuple[object, ...]]) -> list[str]:
    """Wait until the platform has ended what was cut off; what lies in the dead-letter queue an operator sends back."""
    began = moved = time.monotonic()
    before = -1
    while left := books.unfinished(connection):
        if left != before:
            before, moved = left, time.monotonic()
        if time.monotonic() - moved > _REST_WITHIN_SECONDS:
            return [f"{left} runs did not end within {_REST_WITHIN_SECONDS:.0f} s of the last that did"]
        _say(f"{left} runs to end")
        subprocess.run([sys.executable, "-m", "dpp_cli.main", "dlq", "redrive", "--all"], check=False)
        time.sleep(_LOOK_EVERY_SECONDS * 4)
    time.sleep(_LOOK_EVERY_SECONDS * 2)  # messages of runs that have ended are skipped and deleted
    _say(f"at rest after {time.monotonic() - began:.0f} s")
    return []


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--every", type=float, default=4, help="seconds between two strikes, about")
    parser.add_argument("--seed", type=int, default=0, help="of the clients' and the strikes' choices")
    return parser


if __name__ == "__main__":
    sys.exit(main())
