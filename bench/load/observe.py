"""Observes the stack of the load test without its API: rows, queues, processes."""

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

_SAMPLE_SECONDS = 0.25
_COMMITTED = """
SELECT idempotency_key, extract(epoch FROM updated_at)::float8 FROM runs
WHERE finalize_stage = 'COMMITTED' AND idempotency_key LIKE %(prefix)s
"""
_FUNCTION_PREFIX = "dpp-dev-"
_LISTED = ("runs_submit", "runs_read", "run_worker")
_OTHERS = "other functions"


class Backlog:
    """Counts the runs that are not COMMITTED, continuously, in a thread with its own connection."""

    def __init__(self, database_url: str) -> None:
        self.samples: list[tuple[float, int]] = []  # seconds since the epoch, and the count
        self._database_url = database_url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def now(self) -> int:
        return self.samples[-1][1] if self.samples else 0

    def is_empty_since(self, at: float) -> bool:
        """True if the last count is 0 and was taken at this time or later."""
        return bool(self.samples) and self.samples[-1][0] >= at and not self.samples[-1][1]

    def _sample(self) -> None:
        with psycopg.connect(self._database_url, autocommit=True) as connection:
            while not self._stop.wait(_SAMPLE_SECONDS):
                at = time.time()
                self.samples.append((at, invariants.unfinished(connection)))


def committed(connection: psycopg.Connection[Any], phase: str) -> dict[str, float]:
    """Times at which the runs of a phase were COMMITTED, in seconds since the epoch, by idempotency key."""
    rows = connection.execute(_COMMITTED, {"prefix": f"load-{phase}-%"})
    return {str(key): float(at) for key, at in rows}


def messages(state: StackState) -> int:
    """Messages in the run queue and its dead-letter queue, visible or not."""
    sqs = client_session(state.aws_endpoint_url).client("sqs", endpoint_url=state.aws_endpoint_url)
    count = 0
    for name in ("RunQueueUrl", "RunDeadLetterQueueUrl"):
        answer = sqs.get_queue_attributes(QueueUrl=state.outputs[name], AttributeNames=["All"])
        count += sum(int(value) for key, value in answer["Attributes"].items() if key.startswith("Approx"))
    return count


@dataclass(frozen=True, slots=True)
class Processes:
    """The environments by function, and the processor seconds used so far by program.

    LocalStack's seconds include those of environments that have ended.
    """

    environments: Mapping[str, int]
    seconds: Mapping[str, float]

    @classmethod
    def now(cls, state: StackState) -> Self:
        pids = defaultdict[str, list[int]](list)
        for pid, function in environments(state, state_dir()):
            name = function.removeprefix(_FUNCTION_PREFIX)
            pids[name if name in _LISTED else _OTHERS].append(pid)
        functions = {name: cpu_seconds(pids.get(name, [])) for name in (*_LISTED, _OTHERS)}
        parts = {name: cpu_seconds([part.pid]) for name, part in state.parts.items()}
        seconds = {
            "LocalStack": parts["localstack"] - sum(functions.values()),
            **functions,
            "Postgres": parts["postgres"],
            "Valkey": parts["valkey"],
            "generator": time.process_time(),
        }
        return cls(Counter({name: len(its) for name, its in pids.items()}), seconds)

    def cores_since(self, before: "Processes", elapsed_seconds: float) -> dict[str, float]:
        return {name: (used - before.seconds[name]) / elapsed_seconds for name, used in self.seconds.items()}
