"""Procrastinate's side of bench/outbox: jobs in Postgres that are deferred in the reporter's transaction.

Set as its documentation advises: async tasks with concurrency, LISTEN/NOTIFY, a pool of connections, successful jobs
deleted immediately, statements prepared by psycopg as by default (ours are not, because of RDS Proxy). The tasks run
the SQL of dpp/auth_errors/outbox/handlers.py, each in one transaction. A task that runs again sees in the error's
status what it has done.
"""

import time
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg

from bench.outbox.posts import post_share, report_of
from bench.support import procrastinate
from bench.support.processes import Share
from bench.support.servers import TENANT
from dpp.auth_errors import store
from dpp.auth_errors.api.sanitize import payload_hash
from dpp.auth_errors.outbox.handlers import CONSUMER
from dpp.auth_errors.traces.stack_hash import VERSION, stack_hash


def prepare(packages: Path, url: str) -> None:
    with procrastinate.client(packages, url) as application:
        application.schema_manager.apply_schema()


def poster(packages: Path, url: str, share: Share) -> None:
    """Insert each error and defer its first task in one transaction."""
    with (
        procrastinate.client(packages, url, recorded=_recorded) as application,
        psycopg.connect(url, autocommit=True) as connection,
    ):

        def post(request_id: str) -> UUID:
            report = report_of(request_id)
            digest = payload_hash(report)
            with connection.transaction():
                error = store.record(connection, uuid4(), report, reported_by=TENANT, payload_hash=digest)
                assert error is not None
                first = application.tasks["recorded"].configure(connection=connection)
                first.defer(auth_error_id=str(error.auth_error_id))
            return error.auth_error_id

        post_share(share, post)


def worker(packages: Path, url: str, log: Path) -> None:
    tasks = {"recorded": _recorded, "analyse": _analyse}
    with log.open("a", encoding="utf-8", buffering=1) as file:
        procrastinate.work(packages, url, tasks, autocommit=False, log=file, delete_jobs="successful")


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
        trace = stack_hash(error["exception_class"], error["stacktrace"])
        (moved,) = await _rows(connection, "complete_analysis", params)
        cluster = {
            "cluster_id": uuid4(),
            "hash_version": VERSION,
            "stack_hash": trace.digest,
            "reported_at": moved["created_at"],
        }
        await _rows(connection, "join_cluster", moved | cluster)
        await _rows(connection, "latest_policies", {})
    context.additional_context["log"].write(f"{auth_error_id} {time.time()}\n")


async def _rows(connection: Any, name: str, params: dict[str, Any]) -> list[dict[str, Any]]:
    cursor = await connection.execute(store.QUERIES[name], params)
    names = [column.name for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]
