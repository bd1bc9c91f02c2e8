"""Restoring, cut off at every call: nothing half is ever a volume, and no home is covered (003 §7, WS-11)."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from dpp.platform.errors import StorageUnavailable
from dpp.workspaces.errors import LeaseLost, OperationFailed
from dpp.workspaces.model import Archive
from dpp.workspaces.ports import Beat, Volume
from dpp.workspaces.providers import home_storage
from tests.workspaces.homes import no_beat
from tests.workspaces.stage import CONTENT, Killed, Stage, deadline


@pytest.fixture
def stage() -> Stage:
    """A stage of its own."""
    return Stage()


def test_a_workspace_that_never_had_a_home_gets_an_empty_one(stage: Stage) -> None:
    fleet = stage.fleet
    archive = home_storage.empty_home(
        fleet.archives, stage.workspace_id, stage.op_id, no_beat, homes=fleet.homes
    )
    assert fleet.archives.proof(stage.key) == archive
    stage.calls.clear()
    again = home_storage.empty_home(
        fleet.archives, stage.workspace_id, stage.op_id, no_beat, homes=fleet.homes
    )
    assert again == archive
    assert "archives.write" not in stage.calls
    stage.restore(archive)
    assert stage.home() == b""


def test_a_restored_home_is_the_archived_one(stage: Stage) -> None:
    archive = stage.archived()
    volume = stage.restore(archive)
    assert stage.home() == CONTENT
    assert (volume.restore_marker, volume.generation) == (archive.key, str(stage.op_id))


def test_a_volume_that_was_made_from_the_archive_is_answered_unread(stage: Stage) -> None:
    """003 §7: the marker's column was not written; the volume and the archive's sum say that it may be."""
    archive = stage.archived()
    volume = stage.restore(archive)
    stage.fleet.homes.contents[volume.home] = b"newer work"
    stage.calls.clear()
    assert stage.restore(archive, uuid4()) == volume
    assert stage.calls == ["archives.look", "volumes.find"]
    assert stage.home() == b"newer work"


def test_a_home_from_another_archive_is_not_covered(stage: Stage) -> None:
    archive = stage.archived()
    volume = stage.volume(b"other work")
    with pytest.raises(OperationFailed, match="VolumeExists"):
        stage.restore(archive)
    assert stage.fleet.volumes.find(stage.workspace_id) == volume
    assert stage.home() == b"other work"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("how", [Killed, StorageUnavailable])
def test_restoring_that_dies_at_any_call_is_finished_by_the_next(when: str, how: type[BaseException]) -> None:
    count, died = 1, True
    while died:
        stage = Stage()
        archive = stage.archived()
        lift = deadline(stage, count, when, how)
        try:
            stage.restore(archive)
            died = False
        except how:
            lift()
            assert stage.home() in (None, CONTENT)
            stage.restore(archive)
        lift()
        assert stage.home() == CONTENT
        count += 1
    assert count > 5


def test_an_archive_that_is_not_there_is_not_found_for_good(stage: Stage) -> None:
    archive = stage.archived()
    del stage.fleet.archives.objects[stage.key]
    with pytest.raises(OperationFailed, match="ArchiveNotFound") as failed:
        stage.restore(archive)
    assert failed.value.is_terminal
    assert stage.home() is None


@pytest.mark.parametrize("change", ["sha256", "size_bytes", "etag", "content", "other"])
def test_an_archive_that_is_not_the_proved_one_is_never_installed(stage: Stage, change: str) -> None:
    archive = stage.archived()
    whole = b"".join(stage.fleet.homes.pack(Path("/nothing"), no_beat))
    match change:
        case "sha256":
            archive = Archive(archive.key, archive.size_bytes, "0" * 64, archive.etag)
        case "size_bytes":
            archive = Archive(archive.key, archive.size_bytes - 1, archive.sha256, archive.etag)
        case "etag":
            archive = Archive(archive.key, archive.size_bytes, archive.sha256, "other")
        case "content":
            stage.stored.content = stage.stored.content[:-1] + b"!"
        case _:
            stage.stored.content = whole
            archive = Archive(archive.key, len(whole), archive.sha256, stage.stored.etag)
    with pytest.raises(OperationFailed, match="ArchiveCorrupted") as failed:
        stage.restore(archive)
    assert failed.value.is_terminal
    assert stage.home() is None


def test_an_object_that_is_altered_while_it_is_unpacked_is_never_installed(stage: Stage) -> None:
    archive = stage.archived()

    def alter(call: str) -> None:
        if call == "archives.read":
            stage.stored.content = stage.stored.content[:50] + b"!" + stage.stored.content[51:]

    stage.fleet.faults.before = alter
    with pytest.raises(OperationFailed, match="ArchiveCorrupted"):
        stage.restore(archive)
    assert stage.home() is None


def test_of_two_who_restore_at_once_the_later_installs_a_whole_home_and_the_other_none(stage: Stage) -> None:
    archive = stage.archived()
    other: list[Volume] = []

    def beat() -> None:
        if not other:
            other.append(Volume(stage.workspace_id, "", "", Path()))
            other[0] = stage.restore(archive)

    with pytest.raises(OperationFailed, match="HomeUnwritable"):
        stage.restore(archive, beat=beat)
    assert stage.restore(archive) == other[0]
    assert stage.home() == CONTENT


def test_who_lost_the_lease_when_all_was_unpacked_installs_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, unpacked = stage.archived(), list[Path]()
    unpack = stage.fleet.homes.unpack

    def then_lost(chunks: Iterator[bytes], into: Path, beat: Beat) -> None:
        unpack(chunks, into, beat)
        unpacked.append(into)

    def beat() -> None:
        if unpacked:
            raise LeaseLost

    monkeypatch.setattr(stage.fleet.homes, "unpack", then_lost)
    with pytest.raises(LeaseLost):
        stage.restore(archive, beat=beat)
    assert stage.home() is None


def test_who_lost_the_lease_installs_nothing(stage: Stage) -> None:
    archive = stage.archived()
    for allowed in range(8):
        left = iter(range(allowed))

        def beat(left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise LeaseLost

        with pytest.raises(LeaseLost):
            stage.restore(archive, beat=beat)
        assert stage.home() is None
