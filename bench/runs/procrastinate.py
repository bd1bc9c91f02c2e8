"""Procrastinate's side of bench/runs: a job is the record, and its task inserts the result.

Set as its documentation advises: async tasks with concurrency, LISTEN/NOTIFY, pools of connections, statements prepared
by psycopg as by default (ours are not, because of RDS Proxy). Done jobs are kept, which is the default and the cheaper
way. It stores no results, so the task does, in its own statement: at least once.
"""

from pathlib import Path
from typing import Any

from psycopg.types.json import Jsonb

from bench.support import procrastinate
from bench.support.processes import Share
from bench.support.runs import inputs_of, no_op
from bench.support.servers import Place

DONE = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
_RESULTS = "CREATE TABLE results (name text PRIMARY KEY, result jsonb NOT NULL)"
_COUNTS = """
SELECT (SELECT count(*) FROM results), (SELECT count(*) FROM procrastinate_jobs),
  (SELECT max(attempts) FROM procrastinate_jobs)
"""


def prepare(packages: Path, place: Place) -> None:
    with procrastinate.client(packages, place.database_url) as application:
        application.schema_manager.apply_schema()
    place.execute(_RESULTS)


def submitter(packages: Path, place: Place, share: Share) -> None:
    with procrastinate.client(packages, place.database_url, run=_run) as application:
        task = application.tasks["run"]
        share.do(lambda name, _due: task.defer(name=name, inputs=inputs_of(name)))


def worker(packages: Path, place: Place) -> None:
    procrastinate.work(packages, place.database_url, {"run": _run})


async def _run(context: Any, name: str, inputs: dict[str, Any]) -> None:
    async with context.additional_context["pool"].connection() as connection:
        await connection.execute("INSERT INTO results VALUES (%s, %s)", (name, Jsonb(no_op(inputs))))


def proved(place: Place, count: int) -> str:
    """Check that each job ran once. Raises AssertionError."""
    assert place.row(_COUNTS) == (count, count, 1), place.row(_COUNTS)
    return f"{count:,} jobs succeeded at the first attempt, {count:,} results"
