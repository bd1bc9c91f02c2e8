"""What the load test sees of the stack besides answers: rows, queues, processes. It asks the API for none of it."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import psycopg

from bench.support.processes import cpu_seconds
from dpp_cli.local.localstack import client_session
from dpp_cli.local.state import StackState
from dpp_cli.paths import state_dir
from tests.soak import invariants
from tests.soak.faults import environments

_LOOK_SECONDS = 0.25
_COMMITTED = """
SELECT idempotency_key, extract(epoch FROM updated_at)::float8 FROM runs
WHERE finalize_stage = 'COMMITTED' AND idempotency_key LIKE %(prefix)s
"""
_FUNCTION = "dpp-dev-"
_SHOWN = ("runs_submit", "runs_read", "run_worker")
OTHERS = "other functions"
GENERATOR = "generator"


class Backlog:
    """How many runs are not COMMITTED, looked at again and again by a thread with a connection of its own."""

    def __init__(self, database_url: str) -> None:
        self.samples: list[tuple[float, int]] = []
        """When (seconds since the epoch), and how many."""
        self._database_url = database_url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def now(self) -> int:
        """The last look."""
        return self.samples[-1][1] if self.samples else 0

    def empty_since(self, at: float) -> float | None:
        """When it was first seen empty and stayed so, not before `at`; None where it isn't."""
        since = None
        for when, count in reversed(self.samples):
            if count or when < at:
                break
            since = when
        return since

    def _look(self) -> None:
        with psycopg.connect(self._database_url, autocommit=True) as connection:
            while not self._stop.wait(_LOOK_SECONDS):
                at = time.time()
                self.samples.append((at, invariants.unfinished(connection)))


def committed(connection: psycopg.Connection[Any], phase: str) -> dict[str, float]:
    """When the runs of a phase were COMMITTED, in seconds since the epoch, by idempotency key."""
    rows = connection.execute(_COMMITTED, {"prefix": f"load-{phase}-%"})
    return {str(key): float(at) for key, at in rows}


def messages(state: StackState) -> int:
    """How many messages the run queue and its dead letters hold, in sight or not."""
    sqs = client_session(state.aws_endpoint_url).client("sqs", endpoint_url=state.aws_endpoint_url)
    count = 0
    for name in ("RunQueueUrl", "RunDeadLetterQueueUrl"):
        answer = sqs.get_queue_attributes(QueueUrl=state.outputs[name], AttributeNames=["All"])
        count += sum(int(value) for key, value in answer["Attributes"].items() if key.startswith("Approx"))
    return count


@dataclass(frozen=True, slots=True)
class Processes:
    """Who runs, and the processor time that they have used, in seconds."""

    environments: Mapping[str, int]
    """By function."""
    seconds: Mapping[str, float]
    """By who used it. What an environment that has ended used is LocalStack's, who waited for it."""

    @classmethod
    def now(cls, state: StackState) -> Self:
        """As it stands."""
        by_name = defaultdict[str, list[int]](list)
        for pid, function in environments(state, state_dir()):
            name = function.removeprefix(_FUNCTION)
            by_name[name if name in _SHOWN else OTHERS].append(pid)
        functions = {name: cpu_seconds(pids) for name, pids in by_name.items()}
        of_all = cpu_seconds([state.parts["localstack"].pid])
        seconds = {
            "LocalStack": of_all - sum(functions.values()),
            **{name: functions.get(name, 0.0) for name in (*_SHOWN, OTHERS)},
            "Postgres": cpu_seconds([state.parts["postgres"].pid]),
            "Valkey": cpu_seconds([state.parts["valkey"].pid]),
            GENERATOR: time.process_time(),
        }
        return cls(Counter({name: len(pids) for name, pids in by_name.items()}), seconds)

    def cores_since(self, before: "Processes", elapsed_seconds: float) -> dict[str, float]:
        """How many processors each kept busy meanwhile."""
        return {name: (used - before.seconds[name]) / elapsed_seconds for name, used in self.seconds.items()}
