"""The same work by Procrastinate (bench/outbox.py): jobs in Postgres that are deferred in the reporter's transaction.

Its best documented setting: async tasks with concurrency, LISTEN/NOTIFY on, a pool of connections, successful jobs
deleted at once, statements prepared by psycopg as it does by default (ours are not: RDS Proxy). The tasks do the SQL
of dpp/auth_errors/outbox/handlers.py, each in one transaction; a task that runs again sees by the error's status what
it did.
"""

import asyncio
import logging
import sys
import time
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg

from bench.outbox_posts import TENANT, Posts, report_of
from dpp.auth_errors import store
from dpp.auth_errors.api.sanitize import payload_hash
from dpp.auth_errors.outbox.handlers import CONSUMER
from dpp.auth_errors.traces.stack_hash import VERSION, stack_hash

CONCURRENCY = 10


def prepare(packages: Path, url: str) -> None:
    """Its tables, beside ours."""
    application = _application(packages, url, sync=True)
    with application.open():
        application.schema_manager.apply_schema()


def poster(packages: Path, url: str, posts: Posts) -> None:
    """Insert the error and defer its first task, in one transaction."""
    application = _application(packages, url, sync=True)
    with application.open(), psycopg.connect(url, autocommit=True) as connection:

        def post(request_id: str) -> UUID:
            report = report_of(request_id)
            digest = payload_hash(report)
            with connection.transaction():
                error = store.record(connection, uuid4(), report, reported_by=TENANT, payload_hash=digest)
                assert error is not None
                first = application.tasks["recorded"].configure(connection=connection)
                first.defer(auth_error_id=str(error.auth_error_id))
            return error.auth_error_id

        posts.make(post)


def worker(packages: Path, url: str, log: Path) -> None:
    """Run tasks until the process is ended."""
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    asyncio.run(_work(packages, url, log))


async def _work(packages: Path, url: str, log: Path) -> None:
    application = _application(packages, url, sync=False)
    import psycopg_pool  # noqa: PLC0415 - of the bench's packages

    pool = psycopg_pool.AsyncConnectionPool(url, min_size=CONCURRENCY, max_size=CONCURRENCY, open=False)
    with log.open("a", encoding="utf-8", buffering=1) as file:
        async with application.open_async(), pool:
            context = {"pool": pool, "log": file}
            await application.run_worker_async(
                concurrency=CONCURRENCY,
                listen_notify=True,
                delete_jobs="successful",
                additional_context=context,
            )


def _application(packages: Path, url: str, *, sync: bool) -> Any:
    sys.path.append(str(packages))  # behind our own: what both have is one version, of one lock
    import procrastinate  # noqa: PLC0415 - of the bench's packages

    made = procrastinate.SyncPsycopgConnector if sync else procrastinate.PsycopgConnector
    connector = made(conninfo=url, min_size=2, max_size=CONCURRENCY + 2)
    application = procrastinate.App(connector=connector)
    application.task(name="recorded", pass_context=True)(_recorded)
    application.task(name="analyse", pass_context=True)(_analyse)
    return application


async def _recorded(context: Any, auth_error_id: str) -> None:
    params = {"auth_error_id": UUID(auth_error_id), "actor": CONSUMER, "now": None}
    async with context.additional_context["pool"].connection() as connection:
        (error,) = await _rows(connection, "lock", params)
        if error["status"] not in {"NEW", "RETRY"}:
            return
        await _rows(connection, "request_analysis", params)
        second = context.app.tasks["analyse"].configure(connection=connection)
        await second.defer_async(auth_error_id=auth_error_id)


async def _analyse(context: Any, auth_error_id: str) -> None:
    params = {"auth_error_id": UUID(auth_error_id), "actor": CONSUMER, "now": None}
    async with context.additional_context["pool"].connection() as connection:
        (error,) = await _rows(connection, "lock", params)
        if error["status"] not in {"ANALYSIS_REQUESTED", "RETRY"}:
            return
        found = stack_hash(error["exception_class"], error["stacktrace"])
        (moved,) = await _rows(connection, "complete_analysis", params)
        cluster = {
            "cluster_id": uuid4(),
            "hash_version": VERSION,
            "stack_hash": found.digest,
            "reported_at": moved["created_at"],
        }
        await _rows(connection, "join_cluster", moved | cluster)
        await _rows(connection, "latest_policies", {})
    context.additional_context["log"].write(f"{auth_error_id} {time.time()}\n")


async def _rows(connection: Any, name: str, params: dict[str, Any]) -> list[dict[str, Any]]:
    cursor = await connection.execute(store.QUERIES[name], params)
    names = [column.name for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]
