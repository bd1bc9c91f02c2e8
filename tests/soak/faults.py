"""The faults of a soak test: kill function processes, cut server connections, flush cached scripts."""

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import redis

from dpp_cli.local.processes import marked
from dpp_cli.local.state import StackState


@dataclass(slots=True)
class FaultInjector:
    """Injects a fault every few seconds until `stop` is set."""

    state: StackState
    state_dir: Path
    chance: random.Random
    stop: threading.Event
    every_seconds: float
    injected: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        """Inject random faults, mostly killed processes."""
        kinds: list[Callable[[], str | None]] = [
            *[self._kill_process] * 6,
            self._cut_postgres,
            self._cut_redis,
            self._flush_scripts,
        ]
        while not self.stop.wait(self.chance.uniform(0.5, 1.5) * self.every_seconds):
            fault = self.chance.choice(kinds)()
            if fault is not None:
                self.injected[fault] += 1

    def _kill_process(self) -> str | None:
        return kill_one(environments(self.state, self.state_dir), self.chance)

    def _cut_postgres(self) -> str:
        with psycopg.connect(self.state.database_url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
        return "cut all Postgres connections"

    def _cut_redis(self) -> str:
        with redis.Redis.from_url(self.state.redis_url) as client:
            client.client_kill_filter(_type="normal", skipme=True)
        return "cut all Redis connections"

    def _flush_scripts(self) -> str:
        with redis.Redis.from_url(self.state.redis_url) as client:
            client.script_flush()
        return "flush the Redis scripts"


def environments(state: StackState, state_dir: Path) -> list[tuple[int, str]]:
    """(process id, function name) of each process that runs a function."""
    servers = {part.pid for part in state.parts.values()}
    return [
        (process.pid, name)
        for process in marked(state_dir)
        if process.pid not in servers and (name := _function_of(process.pid))
    ]


def kill_one(found: list[tuple[int, str]], chance: random.Random) -> str | None:
    """Kill one of these processes with SIGKILL; None if it has already ended, or there is none."""
    if not found:
        return None
    pid, name = chance.choice(found)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return f"kill {name}"


def _function_of(pid: int) -> str | None:
    """The name of the function that a process runs, from its environment."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    prefix = b"AWS_LAMBDA_FUNCTION_NAME="
    return next((entry.removeprefix(prefix).decode() for entry in variables if entry.startswith(prefix)), None)
