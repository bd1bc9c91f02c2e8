"""Control and storage are killed by SIGKILL while homes are archived and restored: each comes back byte for byte.

Real processes on real Postgres, real folders and containers, the real clients of S3 and SQS on servers of the test's
own. A planted fault has to be seen by the same checks.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.crash_points import CRASH_ALL
from tests.support.s3_server import s3_server
from tests.support.sqs_server import sqs_server
from tests.workspaces.round_trip import there_and_back, trip
from tests.workspaces.subprocess_workers import Place, control, storage_that_installs_first


@pytest.fixture
def place(database_url: str, tmp_path: Path) -> Iterator[Place]:
    """Servers of this test."""
    with sqs_server() as sqs, s3_server() as s3:
        yield Place(database_url, sqs, s3, tmp_path)


def test_every_home_survives_kills_of_control_and_storage(place: Place) -> None:
    """WS-7 … WS-12; `make crash`: forty workspaces."""
    count, kills = (40, 40) if CRASH_ALL else (12, 8)
    with trip(place) as moving:
        assert there_and_back(moving, count=count, kills=kills, files=12, say=print) == []
        assert moving.workers.kills.total() == kills


def test_early_install_is_found(place: Place) -> None:
    """The check must be able to fail."""
    with trip(place, (control, storage_that_installs_first)) as moving:
        faults = there_and_back(moving, count=2, kills=0, files=2, say=print)
    assert sum("came back as another" in fault for fault in faults) == 2
