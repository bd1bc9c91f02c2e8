"""Procrastinate as the benches set it: its client for submitters, and a worker with async tasks and LISTEN/NOTIFY."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.support.servers import import_peer

CONCURRENCY = 10
type Tasks = Mapping[str, Callable[..., Any]]


@contextmanager
def client(packages: Path, url: str, **tasks: Callable[..., Any]) -> Iterator[Any]:
    """An open application that defers these tasks."""
    application = _application(packages, url, "SyncPsycopgConnector", tasks)
    with application.open():
        yield application


def work(packages: Path, url: str, tasks: Tasks, *, autocommit: bool = True, **options: Any) -> None:
    """Run tasks until the process is killed. They find `pool`, and `options["log"]`, in their additional context."""
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    asyncio.run(_work(packages, url, tasks, autocommit, options))


async def _work(packages: Path, url: str, tasks: Tasks, autocommit: bool, options: Any) -> None:
    application = _application(packages, url, "PsycopgConnector", tasks)
    pool = import_peer("psycopg_pool", packages).AsyncConnectionPool(
        url, min_size=CONCURRENCY, max_size=CONCURRENCY, open=False, kwargs={"autocommit": autocommit}
    )
    context = {"pool": pool, "log": options.pop("log", None)}
    async with application.open_async(), pool:
        await application.run_worker_async(
            concurrency=CONCURRENCY, listen_notify=True, additional_context=context, **options
        )


def _application(packages: Path, url: str, connector: str, tasks: Tasks) -> Any:
    peer = import_peer("procrastinate", packages)
    connection = getattr(peer, connector)(conninfo=url, min_size=2, max_size=CONCURRENCY + 2)
    application = peer.App(connector=connection)
    for name, task in tasks.items():
        application.task(name=name, pass_context=True)(task)
    return application
