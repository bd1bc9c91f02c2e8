"""`python -m tests.crash`: record the calls of every scenario on real servers and write points.txt anew."""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from moto import mock_aws

from dpp_cli import migrate
from dpp_cli.local.servers import PostgresServer, ValkeyServer
from tests.crash.servers import CrashServers, recorded
from tests.support.crash_points import LISTED

_AWS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1"}


def main() -> int:
    """Record and write; how many points there are goes to stdout."""
    os.environ.update(_AWS)
    os.environ.pop("AWS_ENDPOINT_URL", None)
    with TemporaryDirectory() as folder:
        postgres = PostgresServer.start(Path(folder) / "postgres", outlives_starter=False)
        valkey = ValkeyServer.start(Path(folder) / "valkey", outlives_starter=False)
        try:
            with psycopg.connect(postgres.url(), autocommit=True) as admin:
                admin.execute("CREATE DATABASE crash")
            migrate.upgrade(postgres.url("crash"))
            with mock_aws(), CrashServers.opened(postgres.url("crash"), valkey.url) as servers:
                points = recorded(servers)
        finally:
            valkey.stop()
            postgres.stop()
    LISTED.write_text("".join(f"{point.line()}\n" for point in points), encoding="utf-8")
    tests = sum(len(point.kinds) for point in points)
    print(f"{len(points)} points, {tests} tests: {LISTED}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
