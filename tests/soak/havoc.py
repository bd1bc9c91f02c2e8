"""What is done to the stack while clients are at work: its processes and connections are killed."""

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
class Havoc:
    """Strikes every few seconds until it is told to stop."""

    state: StackState
    state_dir: Path
    chance: random.Random
    stop: threading.Event
    every_seconds: float
    strikes: Counter[str] = field(default_factory=Counter)

    def rage(self) -> None:
        """One strike after another."""
        kinds: list[Callable[[], str | None]] = [
            *[self._kill_an_environment] * 6,
            self._cut_postgres,
            self._cut_redis,
            self._forget_scripts,
        ]
        while not self.stop.wait(self.chance.uniform(0.5, 1.5) * self.every_seconds):
            struck = self.chance.choice(kinds)()
            if struck is not None:
                self.strikes[struck] += 1

    def _kill_an_environment(self) -> str | None:
        """SIGKILL to a process that runs a function, whatever it is doing."""
        return kill_one(environments(self.state, self.state_dir), self.chance)

    def _cut_postgres(self) -> str:
        with psycopg.connect(self.state.database_url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
        return "cut every connection of postgres"

    def _cut_redis(self) -> str:
        with redis.Redis.from_url(self.state.redis_url) as client:
            client.client_kill_filter(_type="normal", skipme=True)
        return "cut every connection of redis"

    def _forget_scripts(self) -> str:
        with redis.Redis.from_url(self.state.redis_url) as client:
            client.script_flush()
        return "forget the scripts of redis"


def environments(state: StackState, state_dir: Path) -> list[tuple[int, str]]:
    """The processes that run functions: their ids, and the functions' names."""
    servers = {part.pid for part in state.parts.values()}
    return [
        (process.pid, name)
        for process in marked(state_dir)
        if process.pid not in servers and (name := _function_of(process.pid))
    ]


def kill_one(found: list[tuple[int, str]], chance: random.Random) -> str | None:
    """SIGKILL to one of them; None where there was none any more."""
    if not found:
        return None
    pid, name = chance.choice(found)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return f"kill {name}"


def _function_of(pid: int) -> str | None:
    """The function that a process runs, by its environment."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    prefix = b"AWS_LAMBDA_FUNCTION_NAME="
    return next(
        (entry.removeprefix(prefix).decode() for entry in variables if entry.startswith(prefix)), None
    )
