"""Procrastinate's side of bench/runs.py: a job is the record, its task inserts the result.

Its best documented setting: async tasks with concurrency, LISTEN/NOTIFY on, pools of connections, statements prepared
by psycopg as it does by default (ours are not: RDS Proxy). A job is kept when it is done, which is its default and the
cheaper way. It stores no results of its own, so the task does, in a statement of its own: at least once.
"""

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from bench.crew import Share
from bench.runs_work import Place, answer, found, inputs_of

CONCURRENCY = 10


def prepare(packages: Path, place: Place) -> None:
    """Its tables, and one for the results."""
    application = _application(packages, place, sync=True)
    with application.open():
        application.schema_manager.apply_schema()
    with psycopg.connect(place.database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE results (name text PRIMARY KEY, result jsonb NOT NULL)")


def submitter(packages: Path, place: Place, share: Share) -> None:
    """A share of jobs."""
    application = _application(packages, place, sync=True)
    with application.open():
        task = application.tasks["run"]
        share.do(lambda name: task.defer(name=name, inputs=inputs_of(name)))


def worker(packages: Path, place: Place) -> None:
    """Run jobs until the process is ended."""
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    asyncio.run(_work(packages, place))


async def _work(packages: Path, place: Place) -> None:
    application = _application(packages, place, sync=False)
    import psycopg_pool  # noqa: PLC0415 - of the bench's packages

    pool = psycopg_pool.AsyncConnectionPool(
        place.database_url,
        min_size=CONCURRENCY,
        max_size=CONCURRENCY,
        open=False,
        kwargs={"autocommit": True},
    )
    async with application.open_async(), pool:
        await application.run_worker_async(
            concurrency=CONCURRENCY, listen_notify=True, additional_context={"pool": pool}
        )


def _application(packages: Path, place: Place, *, sync: bool) -> Any:
    sys.path.append(str(packages))  # behind our own: what both have is one version, of one lock
    import procrastinate  # noqa: PLC0415 - of the bench's packages

    made = procrastinate.SyncPsycopgConnector if sync else procrastinate.PsycopgConnector
    connector = made(conninfo=place.database_url, min_size=2, max_size=CONCURRENCY + 2)
    application = procrastinate.App(connector=connector)
    application.task(name="run", pass_context=True)(_run)
    return application


async def _run(context: Any, name: str, inputs: dict[str, Any]) -> None:
    async with context.additional_context["pool"].connection() as connection:
        await connection.execute("INSERT INTO results VALUES (%s, %s)", (name, Jsonb(answer(inputs))))


def done(place: Place) -> int:
    """How many jobs have succeeded."""
    return int(
        found(place.database_url, "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'")[0]
    )


def proved(place: Place, count: int) -> str:
    """That each was done once. Raises AssertionError."""
    rows = found(
        place.database_url,
        "SELECT (SELECT count(*) FROM results), (SELECT count(*) FROM procrastinate_jobs),"
        " (SELECT max(attempts) FROM procrastinate_jobs)",
    )
    assert rows == (count, count, 1), rows
    return f"{count:,} jobs succeeded at their first attempt, {count:,} results"
