"""DBOS's side of bench/runs: a workflow of two steps, execute and store, whose output DBOS keeps in Postgres.

Measured in two ways, since users choose between them: `queued`, by its client in separate processes to workers that
poll a queue, and `direct`, where the process that accepts an order runs its workflow on threads. Workers poll every
10 ms (the default is a second) and run as many workflows at once as their threads have connections. The result is
stored once, as the first step's output; the second step and the workflow return its digest.
"""

import hashlib
import json
import threading
from pathlib import Path
from typing import Any

from bench.support.processes import Share
from bench.support.runs import inputs_of, no_op
from bench.support.servers import Place, import_peer

CONCURRENCY = 10
DONE = "SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS' AND name = 'run'"
_COUNTS = """
SELECT (SELECT count(*) FROM dbos.workflow_status WHERE name = 'run'),
  (SELECT count(*) FROM dbos.operation_outputs)
"""
_POLLING_SECONDS = 0.01
_QUEUE = "runs"


def prepare(packages: Path, place: Place) -> None:
    _launched(packages, place, queue=True)[0].destroy()


def submitter(packages: Path, place: Place, share: Share) -> None:
    client = import_peer("dbos", packages).DBOSClient(system_database_url=place.database_url)
    options = {"workflow_name": "run", "queue_name": _QUEUE}
    share.do(lambda name, _due: client.enqueue({**options, "workflow_id": name}, inputs_of(name)))


def worker(packages: Path, place: Place) -> None:
    _launched(packages, place, queue=True)
    threading.Event().wait()


def runner(packages: Path, place: Place, share: Share) -> None:
    """Run a share of workflows in this process, `CONCURRENCY` at a time."""
    free = threading.Semaphore(CONCURRENCY)
    dbos, workflow = _launched(packages, place, queue=False, ended=free.release)
    with_id = import_peer("dbos", packages).SetWorkflowID

    def start(name: str, _due: float) -> None:
        free.acquire()
        with with_id(name):
            dbos.start_workflow(workflow, inputs_of(name))

    share.do(start)
    dbos.destroy(workflow_completion_timeout_sec=60)


def _launched(packages: Path, place: Place, *, queue: bool, ended: Any = None) -> tuple[Any, Any]:
    dbos = import_peer("dbos", packages).DBOS
    dbos(
        config={
            "name": "bench",
            "system_database_url": place.database_url,
            "sys_db_pool_size": CONCURRENCY + 2,
            "log_level": "ERROR",
            "application_version": "1",
        }
    )
    execute, store = dbos.step(name="execute")(no_op), dbos.step(name="store")(_digest)

    def run(inputs: dict[str, Any]) -> Any:
        try:
            return store(execute(inputs))
        finally:
            if ended is not None:
                ended()

    workflow = dbos.workflow(name="run")(run)
    dbos.launch()
    if queue:
        dbos.register_queue(_QUEUE, worker_concurrency=CONCURRENCY, polling_interval_sec=_POLLING_SECONDS)
    return dbos, workflow


def _digest(result: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(result).encode()).hexdigest()


def proved(place: Place, count: int) -> str:
    """Check that each workflow ran once. Raises AssertionError."""
    assert place.row(_COUNTS) == (count, 2 * count), place.row(_COUNTS)
    return f"{count:,} workflows succeeded with {2 * count:,} outputs of steps"
