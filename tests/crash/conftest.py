"""One set of servers for the whole matrix, emptied between tests: to make them anew would take longer than a test."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from dpp_cli.local.servers import PostgresServer, ValkeyServer
from tests.crash.servers import CrashServers
from tests.support.crash_points import listed


@pytest.fixture(scope="session")
def servers(
    postgres_server: PostgresServer, valkey_server: ValkeyServer, aws: None
) -> Iterator[CrashServers]:
    """The servers, shared by the tests of this session."""
    name = f"crash_{uuid4().hex}"
    with psycopg.connect(postgres_server.url(), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template_dpp").format(sql.Identifier(name)))
    with CrashServers.opened(postgres_server.url(name), valkey_server.url) as opened:
        yield opened


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How large the matrix is, where the folder is run by itself."""
    points = listed()
    tests = sum(len(point.kinds) for point in points)
    scenarios = {point.scenario for point in points}
    terminalreporter.write_line(
        f"crash matrix: {len(scenarios)} paths, {len(points)} points, {tests} crashes"
    )
