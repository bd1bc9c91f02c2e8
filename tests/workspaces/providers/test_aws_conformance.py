"""The provider on AWS keeps every promise of the ports, as the others do: the same tests, over this module's bench."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpp.workspaces.providers.directory_volumes import DirectoryVolumes
from dpp.workspaces.providers.efs_volumes import EfsVolumes
from tests.workspaces.providers.aws_account import Account, aws_containers
from tests.workspaces.providers.test_conformance import *  # noqa: F403 - every test and what it asks for
from tests.workspaces.providers.workbench import Workbench, local


@pytest.fixture  # type: ignore[no-redef]
def bench(tmp_path: Path, aws: None) -> Iterator[Workbench]:
    """Fargate by moto, EFS as a folder, and access points by moto again."""
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
