"""The parts of the stack: three servers, each found running, taken from the environment, or started; and the process
that looks after their logs.

`DATABASE_URL`, `REDIS_URL` and `AWS_ENDPOINT_URL` name servers that are somebody else's: they are used, never
started and never stopped.
"""

import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
from psycopg import sql

from dpp_cli.errors import StackError
from dpp_cli.local import localstack
from dpp_cli.local.processes import MARK, ProcessIdentity, marked, spawn
from dpp_cli.local.rotation import LogRules
from dpp_cli.local.servers import (
    HOST,
    PostgresServer,
    ValkeyServer,
    free_port,
    log_tail,
    postgres_answers,
    postgres_url,
    redis_answers,
    valkey_url,
)
from dpp_cli.local.state import PartRecord, StateStore

DATABASE = "dpp"
POSTGRES, VALKEY, LOCALSTACK, ROTATION = "postgres", "valkey", "localstack", "rotation"
NOTHING_DEPLOYED: dict[str, object] = {"bootstrapped": "", "deployed": "", "shape": "", "outputs": {}}
DEFAULT_PORTS = {POSTGRES: 54320, VALKEY: 56379, LOCALSTACK: 4566}


def ensure_postgres(store: StateStore) -> str:
    """Find or start the database, store its URL and describe it. Raises ServerError, StackError."""
    if url := _given("DATABASE_URL", postgres_answers):
        store.set(database_url=url)
        return "from DATABASE_URL"
    start = _starting(store, POSTGRES, PostgresServer)
    part, note = _ensure(store, POSTGRES, lambda port: postgres_answers(postgres_url(port)), start)
    with psycopg.connect(postgres_url(part.port), autocommit=True) as connection:
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if known is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    store.set(database_url=postgres_url(part.port, DATABASE))
    return note


def ensure_valkey(store: StateStore) -> str:
    """Find or start the cache, likewise."""
    if url := _given("REDIS_URL", redis_answers):
        store.set(redis_url=url)
        return "from REDIS_URL"
    start = _starting(store, VALKEY, ValkeyServer)
    part, note = _ensure(store, VALKEY, lambda port: redis_answers(valkey_url(port)), start)
    store.set(redis_url=valkey_url(part.port))
    return note


def ensure_localstack(store: StateStore) -> str:
    """Find or start the AWS APIs, likewise."""
    if url := _given("AWS_ENDPOINT_URL", localstack.healthy):
        store.set(aws_endpoint_url=url.rstrip("/"))
        return "from AWS_ENDPOINT_URL"

    def start(port: int) -> PartRecord:
        store.set(**NOTHING_DEPLOYED)  # the one before took all it had with it
        server = localstack.LocalStackServer.start(store.state_dir, port)
        return PartRecord.of(server.identity, server.port)

    def answers(port: int) -> bool:
        return localstack.healthy(localstack.endpoint_url(port))

    part, note = _ensure(store, LOCALSTACK, answers, start)
    store.set(aws_endpoint_url=localstack.endpoint_url(part.port))
    return note


def clear_localstack(store: StateStore) -> None:
    """Stop an unresponsive LocalStack, and processes left by an earlier one, such as functions.

    Before anything else is started: what this very command starts carries the mark of the stack as well, and is known
    as a server only once it answers.
    """
    if os.environ.get("AWS_ENDPOINT_URL"):
        return
    part = store.state.parts.get(LOCALSTACK)
    if part is not None and part.identity.alive():
        if localstack.healthy(localstack.endpoint_url(part.port)):
            return
        store.end(LOCALSTACK, patience_seconds=localstack.STOP_SECONDS)
        store.forget(LOCALSTACK)
    end_strays(store)


def ensure_rotation(store: StateStore) -> str:
    """Start the log rotator with the current settings. Raises StackError."""
    rules = LogRules.of(os.environ)
    store.end(ROTATION)
    process = spawn(
        [sys.executable, "-m", "dpp_cli.local.rotator", str(store.state_dir)],
        log_path=log_path(store.state_dir, ROTATION),
        environment=_marked(store),
    )
    if (identity := ProcessIdentity.of(process.pid)) is None:
        raise StackError(f"what rotates the logs ended at once\n{log_tail(log_path(store.state_dir, ROTATION))}")
    store.record(ROTATION, PartRecord.of(identity))
    return f"logs at {rules.max_bytes // 2**20} MB, kept {rules.kept_days} days"


def end_strays(store: StateStore) -> list[ProcessIdentity]:
    """Stop all processes that carry the stack's mark and are not its servers."""
    servers = {part.pid for part in store.state.parts.values() if part.identity.alive()}
    strays = [found for found in marked(store.state_dir) if found.pid not in servers]
    for stray in strays:
        stray.end(signal.SIGKILL)
    return strays


def log_path(state_dir: Path, part: str) -> Path:
    """Return the path of a part's log."""
    return state_dir / f"{part}.log"


def _given(variable: str, answers: Callable[[str], bool]) -> str | None:
    url = os.environ.get(variable)
    if url and not answers(url):
        raise StackError(f"{variable} is set, but nothing answers there")
    return url


def _starting(store: StateStore, name: str, kind: type[PostgresServer | ValkeyServer]) -> Callable[[int], PartRecord]:
    def start(port: int) -> PartRecord:
        server = kind.start(store.state_dir / name, port=port, durable=True, environment=_marked(store))
        return PartRecord.of(server.identity, server.port)

    return start


def _ensure(
    store: StateStore, name: str, answers: Callable[[int], bool], start: Callable[[int], PartRecord]
) -> tuple[PartRecord, str]:
    part = store.state.parts.get(name)
    if part is not None and part.identity.alive() and answers(part.port):
        return part, f"{HOST}:{part.port} (was running)"
    store.end(name, patience_seconds=5)  # if it is alive but unresponsive, only a fresh one helps
    part = start(_choose_port(store, name))
    store.record(name, part)
    return part, f"{HOST}:{part.port}"


def _choose_port(store: StateStore, name: str) -> int:
    """The port it had before, else the default, else any that is free."""
    for port in (store.state.ports.get(name), DEFAULT_PORTS[name]):
        if port is not None and _is_free(port):
            return port
    return free_port()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a closed connection's rest is no owner
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _marked(store: StateStore) -> dict[str, str]:
    return {**os.environ, MARK: str(store.state_dir)}
