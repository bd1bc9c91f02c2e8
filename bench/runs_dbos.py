"""DBOS's side of bench/runs.py: a workflow of two steps, execute and store, whose output DBOS keeps in Postgres.

In two ways, since which of them suits is the user's choice: `queued` by its client from processes of their own to
workers that poll a queue, and `direct`, where the process that takes an order runs its workflow, on threads. Polled
every 10 ms (the default is a second); a worker takes as many workflows at a time as its threads have connections. The
result is stored once: the first step's output; the second step and the workflow answer its digest.
"""

import hashlib
import json
import sys
import threading
from pathlib import Path
from typing import Any, LiteralString

from bench.crew import Share
from bench.runs_work import Place, answer, found, inputs_of

CONCURRENCY = 10
_POLLING_SECONDS = 0.01
_QUEUE = "runs"


def prepare(packages: Path, place: Place) -> None:
    """Its tables."""
    _launched(packages, place, queue=True)[0].destroy()


def submitter(packages: Path, place: Place, share: Share) -> None:
    """A share of workflows, enqueued by the client."""
    sys.path.append(str(packages))
    from dbos import DBOSClient  # noqa: PLC0415 - of the bench's packages

    client = DBOSClient(system_database_url=place.database_url)
    queued = {"workflow_name": "run", "queue_name": _QUEUE}
    share.do(lambda name: client.enqueue({**queued, "workflow_id": name}, inputs_of(name)))


def worker(packages: Path, place: Place) -> None:
    """Run what is queued until the process is ended."""
    _launched(packages, place, queue=True)
    threading.Event().wait()


def runner(packages: Path, place: Place, share: Share) -> None:
    """A share of workflows, run in this process as they come, so many at a time."""
    dbos, workflow = _launched(packages, place, queue=False)
    from dbos import SetWorkflowID  # noqa: PLC0415

    free = threading.Semaphore(CONCURRENCY)
    _ended.append(free)

    def start(name: str) -> None:
        free.acquire()
        with SetWorkflowID(name):
            dbos.start_workflow(workflow, inputs_of(name))

    share.do(start)
    dbos.destroy(workflow_completion_timeout_sec=60)


_ended: list[threading.Semaphore] = []
"""Of a runner: one more workflow may start."""


def _launched(packages: Path, place: Place, *, queue: bool) -> tuple[Any, Any]:
    sys.path.append(str(packages))  # behind our own: what both have is one version, of one lock
    from dbos import DBOS  # noqa: PLC0415 - of the bench's packages

    DBOS(
        config={
            "name": "bench",
            "system_database_url": place.database_url,
            "sys_db_pool_size": CONCURRENCY + 2,
            "log_level": "ERROR",
            "application_version": "1",
        }
    )

    execute, store = DBOS.step(name="execute")(answer), DBOS.step(name="store")(_digest)

    def run(inputs: dict[str, Any]) -> Any:
        try:
            return store(execute(inputs))
        finally:
            for free in _ended:
                free.release()

    workflow = DBOS.workflow(name="run")(run)
    DBOS.launch()
    if queue:
        DBOS.register_queue(_QUEUE, worker_concurrency=CONCURRENCY, polling_interval_sec=_POLLING_SECONDS)
    return DBOS, workflow


def _digest(result: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(result).encode()).hexdigest()


def done(place: Place) -> int:
    """How many workflows have succeeded."""
    query: LiteralString = (
        "SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS' AND name = 'run'"
    )
    return int(found(place.database_url, query)[0])


def proved(place: Place, count: int) -> str:
    """That each was done once. Raises AssertionError."""
    row = found(
        place.database_url,
        "SELECT (SELECT count(*) FROM dbos.workflow_status WHERE name = 'run'),"
        " (SELECT count(*) FROM dbos.operation_outputs),"
        " (SELECT max(recovery_attempts) FROM dbos.workflow_status)",
    )
    assert row[:2] == (count, 2 * count), row
    return f"{count:,} workflows succeeded with {2 * count:,} steps' outputs"
