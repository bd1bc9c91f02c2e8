"""The conformance suite of the ports, for the provider on AWS."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpp.workspaces.providers.directory_volumes import DirectoryVolumes
from dpp.workspaces.providers.efs_volumes import EfsVolumes
from tests.workspaces.providers.aws_account import Account, aws_containers
from tests.workspaces.providers.test_conformance import *  # noqa: F403 - every test and its fixtures
from tests.workspaces.providers.workbench import Workbench, local


@pytest.fixture  # type: ignore[no-redef]
def bench(tmp_path: Path, aws: None) -> Iterator[Workbench]:
    """Fargate and access points from moto, and a folder in place of EFS."""
    account = Account()
    containers = aws_containers(account)
    with local(tmp_path) as opened:
        volumes = EfsVolumes(
            DirectoryVolumes(tmp_path / "volumes", containers.in_use),
            account.access_points(),
            containers.in_use,
            owner=(os.getuid(), os.getgid()),
        )
        yield replace(opened, provider=replace(opened.provider, containers=containers, volumes=volumes))
