"""Real servers for every test: one Postgres and one Valkey a session, one migrated database a test."""

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path

import hypothesis
import psycopg
import pytest
from moto import mock_aws

from dpp.platform.db.postgres import Connection
from dpp_cli import migrate
from dpp_cli.local.servers import PostgresServer, ValkeyServer
from dpp_cli.paths import FUNCTIONS
from tests.support.api import ApiClient
from tests.support.databases import ReusedDatabase, new_database, prepare_template
from tests.support.sessions import SESSIONS, share_sessions
from tests.support.world import World

_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of this process's own in it
_ENOUGH_BYTES = 4 * 2**30

_AWS_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
}


# How long an example takes, or its generation, depends on the machine's load.
hypothesis.settings.register_profile(
    "any-machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any-machine")


def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto`: tests wait for a third of their time, so three workers share two processors."""
    processors = os.process_cpu_count() or 1
    return processors + processors // 2


@pytest.fixture(scope="session", autouse=True)
def logs_reach_caplog() -> None:
    """The functions' logger keeps its lines from the root, where pytest listens.

    Each function is imported first: whichever is imported last has its handler on all loggers, and what a test captures
    is closed when the test ends.
    """
    for handler in FUNCTIONS.glob("*/handler.py"):
        import_module(f"{handler.parent.name}.handler")
    logging.getLogger("dpp").propagate = True


@pytest.fixture(scope="session", autouse=True)
def patient_connections() -> Iterator[None]:
    """A loaded machine may take seconds to accept a connection; tests of timeouts are about replies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpp.platform.db.postgres._CONNECT_TIMEOUT_SECONDS", 20)
        yield


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of Postgres's files: in memory, where there is enough of it.

    A database a test is some three hundred files made and deleted again, which a disk takes three times as long for.
    """
    if not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < _ENOUGH_BYTES:
        yield tmp_path_factory.mktemp("postgres")
        return
    for left in _MEMORY.glob("dpp-tests-*"):  # of a session that was killed
        if not Path(f"/proc/{left.name.rpartition('-')[2]}").exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = _MEMORY / f"dpp-tests-{os.getpid()}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server(data_folder: Path) -> Iterator[PostgresServer]:
    """A Postgres server of this session, with a migrated template database."""
    with PostgresServer.start(data_folder / "data", outlives_starter=False) as server:
        with psycopg.connect(server.url(), autocommit=True) as admin:
            # A worker that looks in on a database now and then costs time, and holds back what a VACUUM may mark.
            admin.execute("ALTER SYSTEM SET autovacuum = off")
            admin.execute("SELECT pg_reload_conf()")
            admin.execute("CREATE DATABASE template_dpp")
        migrate.upgrade(server.url("template_dpp"))
        prepare_template(server)
        yield server


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """A Valkey server of this session; tests share it and keep apart by their tenants."""
    with ValkeyServer.start(tmp_path_factory.mktemp("valkey") / "data", outlives_starter=False) as server:
        yield server


@pytest.fixture(scope="session")
def reused_database(postgres_server: PostgresServer) -> Iterator[ReusedDatabase]:
    """The database of one test after the other."""
    reused = ReusedDatabase(postgres_server)
    with pytest.MonkeyPatch.context() as patch:
        share_sessions(patch)
        yield reused
    reused.drop()


@pytest.fixture
def own_sessions(reused_database: ReusedDatabase) -> Iterator[None]:
    """For a test of sessions: a new database, where each `Database` opens a session and ends it."""
    reused_database.drop()
    SESSIONS.databases.discard(reused_database.url())
    yield
    reused_database.drop()


@pytest.fixture(scope="module")
def shared_database(postgres_server: PostgresServer, reused_database: ReusedDatabase) -> Iterator[str]:
    """The URL of a database for all tests of a module, with the schema and no rows."""
    url = new_database(postgres_server)
    SESSIONS.databases.add(url)
    yield url
    SESSIONS.end(url)


@pytest.fixture
def database_url(reused_database: ReusedDatabase) -> str:
    """A database with the schema and no rows, for this test alone."""
    return reused_database.url()


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    """A connection to this test's database."""
    with psycopg.connect(database_url, autocommit=True, prepare_threshold=None) as opened:
        yield opened


@pytest.fixture(scope="session")
def aws() -> Iterator[None]:
    """S3 and SQS by moto, inside this process; no call reaches a real account."""
    before = dict(os.environ)
    os.environ.update(_AWS_ENVIRONMENT)
    os.environ.pop("AWS_ENDPOINT_URL", None)
    os.environ.pop("AWS_PROFILE", None)
    try:
        with mock_aws():
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def world(database_url: str, valkey_server: ValkeyServer, aws: None) -> Iterator[World]:
    """The platform's real parts around one test: its own database, tenants, queue and bucket."""
    with World.open(database_url, valkey_server.url) as opened:
        yield opened


@pytest.fixture
def api(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiClient]:
    """The HTTP functions, wired to this test's world."""
    with closing(ApiClient(world, monkeypatch)) as client:
        yield client
