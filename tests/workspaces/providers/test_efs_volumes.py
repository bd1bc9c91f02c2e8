"""Volumes on EFS with their access points (WS-9)."""

import os
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from dpp.workspaces.errors import OperationFailed, ProviderUnavailable
from dpp.workspaces.ports import Volumes
from dpp.workspaces.providers.directory_volumes import DirectoryVolumes
from dpp.workspaces.providers.efs_volumes import EfsVolumes
from tests.support.stored import existing
from tests.workspaces.providers.aws_account import FAULTS, Account, Fault, home_path

OWNER = (os.getuid(), os.getgid())


class CrashingVolumes(DirectoryVolumes):
    """Volumes whose next delete raises before it does anything, if `fails`."""

    fails = False

    def delete(self, workspace_id: UUID, generation: str | None) -> None:
        if self.fails:
            self.fails = False
            raise ProviderUnavailable("crash")
        super().delete(workspace_id, generation)


@pytest.fixture
def folders(account: Account, tmp_path: Path) -> CrashingVolumes:
    created = CrashingVolumes(tmp_path, account.containers().in_use)
    created.set_up()
    return created


@pytest.fixture
def volumes(account: Account, folders: CrashingVolumes) -> EfsVolumes:
    return EfsVolumes(folders, account.access_points(), account.containers().in_use, owner=OWNER)


def run_and_stop(account: Account, volumes: Volumes, generation: str = "g1") -> UUID:
    """A workspace with a volume on which a container ran."""
    workspace_id = uuid4()
    prepared = volumes.prepare(workspace_id, generation)
    volume = volumes.install(workspace_id, generation, "marker", prepared)
    containers = account.containers()
    containers.start(workspace_id, volume)
    containers.stop(workspace_id)
    return workspace_id


def path_of(volumes: Volumes, workspace_id: UUID, root: Path) -> str:
    """The path of the home in the file system."""
    found = existing(volumes.find(workspace_id))
    return f"/{found.home.relative_to(root)}"


@pytest.mark.parametrize("generation", ["g1", None])
def test_delete_removes_the_access_point(
    account: Account, volumes: EfsVolumes, generation: str | None, tmp_path: Path
) -> None:
    workspace_id, other = run_and_stop(account, volumes), run_and_stop(account, volumes)
    volumes.delete(workspace_id, generation)
    assert volumes.find(workspace_id) is None
    assert account.roots() == [path_of(volumes, other, tmp_path)]
    volumes.delete(workspace_id, generation)
    assert account.roots() == [path_of(volumes, other, tmp_path)]


def test_crash_during_a_delete_leaves_a_volume_that_can_be_deleted(
    account: Account, volumes: EfsVolumes, folders: CrashingVolumes
) -> None:
    workspace_id = run_and_stop(account, volumes)
    folders.fails = True
    with pytest.raises(ProviderUnavailable):
        volumes.delete(workspace_id, "g1")
    assert volumes.observe([workspace_id])[workspace_id].ready
    assert account.roots() == []
    found = existing(volumes.find(workspace_id))
    account.containers().start(workspace_id, found)  # the volume is intact until then
    account.containers().stop(workspace_id)
    volumes.delete(workspace_id, "g1")
    assert (volumes.find(workspace_id), account.roots()) == (None, [])


@pytest.mark.parametrize(("fault", "done"), FAULTS)
def test_any_call_of_a_delete_may_fail(account: Account, volumes: EfsVolumes, fault: Fault, done: bool) -> None:
    for number in range(20):
        workspace_id = run_and_stop(account, volumes)
        account.fail(number, fault, done=done)
        try:
            volumes.delete(workspace_id, "g1")
        except ProviderUnavailable:
            account.heal()
            assert volumes.find(workspace_id) is not None  # without a volume the delete would not be repeated
            volumes.delete(workspace_id, "g1")
        else:
            break
        finally:
            account.heal()
        assert (volumes.find(workspace_id), account.roots()) == (None, [])
    assert 3 < number < 19


def test_volume_in_use_keeps_its_access_point(account: Account, volumes: EfsVolumes, tmp_path: Path) -> None:
    workspace_id = run_and_stop(account, volumes)
    found = existing(volumes.find(workspace_id))
    account.containers().start(workspace_id, found)
    for generation in ("g1", None):
        with pytest.raises(OperationFailed, match="VolumeInUse"):
            volumes.delete(workspace_id, generation)
    assert account.roots() == [path_of(volumes, workspace_id, tmp_path)]
    assert volumes.find(workspace_id) == found


def test_delete_of_an_older_generation_keeps_the_current_one(
    account: Account, volumes: EfsVolumes, tmp_path: Path
) -> None:
    workspace_id = run_and_stop(account, volumes, "g1")
    present = account.lay_volume(workspace_id, "g2")
    account.containers().start(workspace_id, present)
    volumes.delete(workspace_id, "g1")
    assert account.roots() == [home_path(workspace_id, "g2")]
    found = existing(volumes.find(workspace_id))
    assert found.generation == "g2"


def test_container_that_ends_during_a_delete_leaves_no_access_point(
    account: Account, folders: CrashingVolumes, tmp_path: Path
) -> None:
    answers = iter([True])
    volumes = EfsVolumes(folders, account.access_points(), lambda _: next(answers), owner=OWNER)
    workspace_id = run_and_stop(account, volumes)
    volumes.delete(workspace_id, "g1")
    assert (volumes.find(workspace_id), account.roots()) == (None, [])


def test_home_is_owned_by_the_uid_and_gid_of_containers(
    account: Account, folders: CrashingVolumes, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners: list[tuple[Path, int, int]] = []
    monkeypatch.setattr(os, "chown", lambda path, uid, gid: owners.append((path, uid, gid)))
    volumes: Volumes = EfsVolumes(folders, account.access_points(), lambda _: False, owner=(1000, 1001))
    workspace_id = uuid4()
    prepared = volumes.prepare(workspace_id, "g1")
    assert owners == []
    volumes.install(workspace_id, "g1", "marker", prepared)
    assert owners == [(prepared, 1000, 1001)]


def test_path_of_a_home_is_within_the_limits_of_efs(folders: CrashingVolumes, tmp_path: Path) -> None:
    """For the root of an access point: 100 characters, four folders."""
    path = f"/{folders.prepare(uuid4(), str(uuid4())).relative_to(tmp_path)}"
    assert len(path) <= 100
    assert path.count("/") <= 4
