"""Restoring, interrupted at every call: no half volume, and no home replaced (003 §7, WS-11)."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from dpp.platform.errors import StorageUnavailable
from dpp.workspaces.errors import LeaseLost, OperationFailed
from dpp.workspaces.model import Archive
from dpp.workspaces.ports import Heartbeat, Volume
from dpp.workspaces.providers import home_storage
from tests.support.crash_points import Killed
from tests.workspaces.home_environment import CONTENT, HomeEnvironment, fail_at_call
from tests.workspaces.homes import no_heartbeat


@pytest.fixture
def env() -> HomeEnvironment:
    return HomeEnvironment()


def test_new_workspace_gets_an_empty_home(env: HomeEnvironment) -> None:
    fleet = env.fleet
    archive = home_storage.archive_empty_home(
        fleet.archives, env.workspace_id, env.op_id, no_heartbeat, homes=fleet.homes
    )
    assert fleet.archives.read_proof(env.key) == archive
    env.calls.clear()
    again = home_storage.archive_empty_home(
        fleet.archives, env.workspace_id, env.op_id, no_heartbeat, homes=fleet.homes
    )
    assert again == archive
    assert "archives.write" not in env.calls
    env.restore(archive)
    assert env.home() == b""


def test_restored_home_equals_the_archived_one(env: HomeEnvironment) -> None:
    archive = env.archived()
    volume = env.restore(archive)
    assert env.home() == CONTENT
    assert (volume.restore_marker, volume.generation) == (archive.key, str(env.op_id))


def test_volume_of_the_archive_is_returned_without_reading(env: HomeEnvironment) -> None:
    """003 §7: after a crash before its marker was recorded."""
    archive = env.archived()
    volume = env.restore(archive)
    env.fleet.homes.contents[volume.home] = b"newer work"
    env.calls.clear()
    assert env.restore(archive, uuid4()) == volume
    assert env.calls == ["archives.head", "volumes.find"]
    assert env.home() == b"newer work"


def test_home_of_another_archive_is_not_replaced(env: HomeEnvironment) -> None:
    archive = env.archived()
    volume = env.volume(b"other work")
    with pytest.raises(OperationFailed, match="VolumeExists"):
        env.restore(archive)
    assert env.fleet.volumes.find(env.workspace_id) == volume
    assert env.home() == b"other work"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("how", [Killed, StorageUnavailable])
def test_restore_that_dies_at_any_call_is_finished_by_the_next_process(when: str, how: type[BaseException]) -> None:
    count, died = 1, True
    while died:
        env = HomeEnvironment()
        archive = env.archived()
        lift = fail_at_call(env, count, when, how)
        try:
            env.restore(archive)
            died = False
        except how:
            lift()
            assert env.home() in (None, CONTENT)
            env.restore(archive)
        lift()
        assert env.home() == CONTENT
        count += 1
    assert count > 5


def test_missing_archive_is_a_terminal_failure(env: HomeEnvironment) -> None:
    archive = env.archived()
    del env.fleet.archives.objects[env.key]
    with pytest.raises(OperationFailed, match="ArchiveNotFound") as failed:
        env.restore(archive)
    assert failed.value.is_terminal
    assert env.home() is None


@pytest.mark.parametrize("change", ["sha256", "size_bytes", "etag", "content", "other"])
def test_archive_that_differs_from_its_proof_is_never_installed(env: HomeEnvironment, change: str) -> None:
    archive = env.archived()
    whole = b"".join(env.fleet.homes.pack(Path("/nothing"), no_heartbeat))
    match change:
        case "sha256":
            archive = Archive(archive.key, archive.size_bytes, "0" * 64, archive.etag)
        case "size_bytes":
            archive = Archive(archive.key, archive.size_bytes - 1, archive.sha256, archive.etag)
        case "etag":
            archive = Archive(archive.key, archive.size_bytes, archive.sha256, "other")
        case "content":
            env.stored.content = env.stored.content[:-1] + b"!"
        case _:
            env.stored.content = whole
            archive = Archive(archive.key, len(whole), archive.sha256, env.stored.etag)
    with pytest.raises(OperationFailed, match="ArchiveCorrupted") as failed:
        env.restore(archive)
    assert failed.value.is_terminal
    assert env.home() is None


def test_object_altered_while_unpacked_is_never_installed(env: HomeEnvironment) -> None:
    archive = env.archived()

    def alter(call: str) -> None:
        if call == "archives.read":
            env.stored.content = env.stored.content[:50] + b"!" + env.stored.content[51:]

    env.fleet.faults.before = alter
    with pytest.raises(OperationFailed, match="ArchiveCorrupted"):
        env.restore(archive)
    assert env.home() is None


def test_later_of_two_concurrent_restores_installs_the_home(env: HomeEnvironment) -> None:
    archive = env.archived()
    other: list[Volume] = []

    def heartbeat() -> None:
        if not other:
            other.append(Volume(env.workspace_id, "", "", Path()))
            other[0] = env.restore(archive)

    with pytest.raises(OperationFailed, match="HomeUnwritable"):
        env.restore(archive, heartbeat=heartbeat)
    assert env.restore(archive) == other[0]
    assert env.home() == CONTENT


def test_lease_lost_after_unpacking_installs_nothing(env: HomeEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, unpacked = env.archived(), list[Path]()
    unpack = env.fleet.homes.unpack

    def then_lost(chunks: Iterator[bytes], into: Path, heartbeat: Heartbeat) -> None:
        unpack(chunks, into, heartbeat)
        unpacked.append(into)

    def heartbeat() -> None:
        if unpacked:
            raise LeaseLost

    monkeypatch.setattr(env.fleet.homes, "unpack", then_lost)
    with pytest.raises(LeaseLost):
        env.restore(archive, heartbeat=heartbeat)
    assert env.home() is None


def test_lease_lost_installs_nothing(env: HomeEnvironment) -> None:
    archive = env.archived()
    for allowed in range(8):
        left = iter(range(allowed))

        def heartbeat(left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise LeaseLost

        with pytest.raises(LeaseLost):
            env.restore(archive, heartbeat=heartbeat)
        assert env.home() is None
