"""Volumes and their access points come and go together (WS-9)."""

import os
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from dpp.workspaces.errors import OperationFailed, ProviderUnavailable
from dpp.workspaces.ports import Volumes
from dpp.workspaces.providers.directory_volumes import DirectoryVolumes
from dpp.workspaces.providers.efs_volumes import EfsVolumes
from tests.workspaces.providers.aws_account import (
    Account,
    Fault,
    home_path,
    lay_volume,
    throttled,
    unanswered,
    unreached,
)

WRONG = [(unreached, False), (throttled, False), (unanswered, True)]
OWNER = (os.getuid(), os.getgid())


class Folders(DirectoryVolumes):
    """Volumes of which the next delete crashes before it did anything, where `fails`."""

    fails = False

    def delete(self, workspace_id: UUID, generation: str | None) -> None:
        """As it is, or not at all."""
        if self.fails:
            self.fails = False
            raise ProviderUnavailable("crash")
        super().delete(workspace_id, generation)


@pytest.fixture
def account(aws: None) -> Account:
    """Of this test's own."""
    return Account()


@pytest.fixture
def folders(account: Account, tmp_path: Path) -> Folders:
    """What stands underneath."""
    made = Folders(tmp_path, account.containers().in_use)
    made.set_up()
    return made


@pytest.fixture
def volumes(account: Account, folders: Folders) -> EfsVolumes:
    """With their access points."""
    return EfsVolumes(folders, account.access_points(), account.containers().in_use, owner=OWNER)


def run_and_stop(account: Account, volumes: Volumes, generation: str = "g1") -> UUID:
    """A workspace with a volume that a container had."""
    workspace_id = uuid4()
    prepared = volumes.prepare(workspace_id, generation)
    volume = volumes.install(workspace_id, generation, "marker", prepared)
    containers = account.containers()
    containers.start(workspace_id, volume)
    containers.stop(workspace_id)
    return workspace_id


def path_of(volumes: Volumes, workspace_id: UUID, root: Path) -> str:
    """Of the home that stands, in the file system."""
    found = volumes.find(workspace_id)
    assert found is not None
    return f"/{found.home.relative_to(root)}"


@pytest.mark.parametrize("generation", ["g1", None])
def test_a_volume_takes_its_access_point_along(
    account: Account, volumes: EfsVolumes, generation: str | None, tmp_path: Path
) -> None:
    workspace_id, other = run_and_stop(account, volumes), run_and_stop(account, volumes)
    volumes.delete(workspace_id, generation)
    assert volumes.find(workspace_id) is None
    assert account.roots() == [path_of(volumes, other, tmp_path)]
    volumes.delete(workspace_id, generation)
    assert account.roots() == [path_of(volumes, other, tmp_path)]


def test_a_crash_between_the_two_leaves_a_volume_and_so_a_delete_to_come(
    account: Account, volumes: EfsVolumes, folders: Folders
) -> None:
    workspace_id = run_and_stop(account, volumes)
    folders.fails = True
    with pytest.raises(ProviderUnavailable):
        volumes.delete(workspace_id, "g1")
    assert volumes.observe([workspace_id])[workspace_id].ready
    assert account.roots() == []
    found = volumes.find(workspace_id)
    assert found is not None
    account.containers().start(workspace_id, found)  # and it is a whole volume until then
    account.containers().stop(workspace_id)
    volumes.delete(workspace_id, "g1")
    assert (volumes.find(workspace_id), account.roots()) == (None, [])


@pytest.mark.parametrize(("fault", "done"), WRONG)
def test_any_call_of_a_delete_may_fail(
    account: Account, volumes: EfsVolumes, fault: Fault, done: bool
) -> None:
    for number in range(20):
        workspace_id = run_and_stop(account, volumes)
        account.fail(number, fault, done=done)
        try:
            volumes.delete(workspace_id, "g1")
        except ProviderUnavailable:
            account.heal()
            assert volumes.find(workspace_id) is not None  # nothing is left to do where there is no volume
            volumes.delete(workspace_id, "g1")
        else:
            break
        finally:
            account.heal()
        assert (volumes.find(workspace_id), account.roots()) == (None, [])
    assert 3 < number < 19


def test_nothing_is_taken_from_under_a_container(
    account: Account, volumes: EfsVolumes, tmp_path: Path
) -> None:
    workspace_id = run_and_stop(account, volumes)
    found = volumes.find(workspace_id)
    assert found is not None
    account.containers().start(workspace_id, found)
    for generation in ("g1", None):
        with pytest.raises(OperationFailed, match="VolumeInUse"):
            volumes.delete(workspace_id, generation)
    assert account.roots() == [path_of(volumes, workspace_id, tmp_path)]
    assert volumes.find(workspace_id) == found


def test_an_older_generation_goes_without_the_present_one(
    account: Account, volumes: EfsVolumes, tmp_path: Path
) -> None:
    workspace_id = run_and_stop(account, volumes, "g1")
    present = lay_volume(tmp_path, workspace_id, "g2")
    account.containers().start(workspace_id, present)
    volumes.delete(workspace_id, "g1")
    assert account.roots() == [home_path(workspace_id, "g2")]
    found = volumes.find(workspace_id)
    assert found is not None
    assert found.generation == "g2"


def test_a_container_that_ends_meanwhile_takes_nothing_with_it(
    account: Account, folders: Folders, tmp_path: Path
) -> None:
    answers = iter([True])
    volumes = EfsVolumes(folders, account.access_points(), lambda _: next(answers), owner=OWNER)
    workspace_id = run_and_stop(account, volumes)
    volumes.delete(workspace_id, "g1")
    assert (volumes.find(workspace_id), account.roots()) == (None, [])


def test_a_home_belongs_to_whom_containers_write_as(
    account: Account, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[Path, int, int]] = []
    monkeypatch.setattr(os, "chown", lambda path, uid, gid: given.append((path, uid, gid)))
    volumes: Volumes = EfsVolumes(folders, account.access_points(), lambda _: False, owner=(1000, 1001))
    workspace_id = uuid4()
    prepared = volumes.prepare(workspace_id, "g1")
    assert given == []
    volumes.install(workspace_id, "g1", "marker", prepared)
    assert given == [(prepared, 1000, 1001)]


def test_the_path_of_a_home_fits_what_efs_takes(folders: Folders, tmp_path: Path) -> None:
    """An access point's root: 100 characters, four folders."""
    path = f"/{folders.prepare(uuid4(), str(uuid4())).relative_to(tmp_path)}"
    assert len(path) <= 100
    assert path.count("/") <= 4
