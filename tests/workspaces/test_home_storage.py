"""Archiving, cut off at every call: what counts is whole, and what is not whole never counts (003 §7, WS-10)."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from dpp.platform.errors import StorageUnavailable
from dpp.workspaces.errors import LeaseLost, OperationFailed
from dpp.workspaces.model import Archive
from dpp.workspaces.ports import Beat
from dpp.workspaces.providers.s3_archives import proof_key_of
from tests.workspaces.homes import no_beat
from tests.workspaces.memory import MemoryArchives
from tests.workspaces.stage import CONTENT, Killed, Stage, deadline


@pytest.fixture
def stage() -> Stage:
    """A stage of its own."""
    return Stage()


def test_an_archive_is_proved_with_what_was_stored(stage: Stage) -> None:
    stage.volume()
    archive = stage.archive()
    assert archive.key == stage.key
    assert stage.fleet.archives.proof(stage.key) == archive
    assert archive.size_bytes == len(stage.stored.content)
    assert stage.home() == CONTENT


def test_the_same_operation_uploads_once(stage: Stage) -> None:
    stage.volume()
    archive = stage.archive()
    stage.calls.clear()
    assert stage.archive() == archive
    assert stage.calls == ["archives.look", "archives.proof"]


def test_another_operation_makes_another_archive(stage: Stage) -> None:
    stage.volume()
    first = stage.archive()
    stage.op_id = uuid4()
    assert stage.archive().key != first.key
    assert first.key in stage.fleet.archives.objects


def test_the_proof_is_enough_when_the_volume_is_gone(stage: Stage) -> None:
    """003 §8: a crash after the volume was deleted, before that was noted."""
    archive = stage.archived()
    assert stage.archive() == archive


def test_neither_volume_nor_archive_is_loss_and_is_told_at_once(stage: Stage) -> None:
    with pytest.raises(OperationFailed, match="DataLost") as failed:
        stage.archive()
    assert failed.value.is_terminal
    assert stage.fleet.archives.objects == {}


def test_a_proof_without_its_object_is_no_archive(stage: Stage) -> None:
    stage.archived()
    del stage.fleet.archives.objects[stage.key]
    with pytest.raises(OperationFailed, match="DataLost"):
        stage.archive()


def test_an_unproven_volume_is_not_archived(stage: Stage) -> None:
    stage.fleet.volumes.volumes[stage.workspace_id] = None
    with pytest.raises(OperationFailed, match="VolumeUnproven"):
        stage.archive()
    assert stage.fleet.archives.objects == {}


@pytest.mark.parametrize("when", ["before", "after"])
def test_archiving_that_dies_at_any_call_is_finished_by_the_next(when: str) -> None:
    count, died = 1, True
    while died:
        stage = Stage()
        stage.volume()
        lift = deadline(stage, count, when)
        try:
            stage.archive()
            died = False
        except Killed:
            lift()
            proof = stage.fleet.archives.proof(stage.key)
            assert proof is None or proof.size_bytes == len(stage.stored.content)
            archive = stage.archive()
            stage.fleet.volumes.delete(stage.workspace_id, "g1")
            stage.restore(archive)
            assert stage.home() == CONTENT
        lift()
        count += 1
    assert count > 6


def test_an_object_whose_uploader_died_is_read_and_proved_and_not_sent_again(stage: Stage) -> None:
    stage.volume()

    def die(call: str) -> None:
        if call == "archives.write":
            raise Killed

    stage.fleet.faults.after = die
    with pytest.raises(Killed):
        stage.archive()
    stage.calls.clear()
    archive = stage.archive()
    assert "archives.write" not in stage.calls
    assert stage.fleet.archives.proof(stage.key) == archive


def test_a_whole_object_without_proof_saves_a_home_whose_volume_is_gone(stage: Stage) -> None:
    archive = stage.archived()
    del stage.fleet.archives.objects[proof_key_of(stage.key)]
    assert stage.archive() == archive


class _Careless(MemoryArchives):
    """Stores something else than what it is given, and says that all is well."""

    __slots__ = ("store",)

    def __init__(self, real: MemoryArchives, store: Callable[[bytes], bytes]) -> None:
        super().__init__(real.faults, real.now, real.objects, real.undeletable)
        self.store = store

    def write(self, key: str, chunks: Iterator[bytes], beat: Beat, replaces: str | None = None) -> Archive:
        content = b"".join(chunks)
        self.objects.pop(key, None)
        stored = super().write(key, iter([self.store(content)]), beat)
        said = super().look(key) if len(content) == stored.size_bytes else None
        return Archive(
            key, len(content), hashlib.sha256(content).hexdigest(), said.etag if said else stored.etag
        )


@pytest.mark.parametrize(
    "store",
    [
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:],
        lambda content: content + b"x",
    ],
    ids=["one byte less", "half", "nothing", "another bit", "one byte more"],
)
def test_what_was_stored_otherwise_than_sent_is_found_before_anything_trusts_it(
    stage: Stage, store: Callable[[bytes], bytes]
) -> None:
    stage.volume()
    with pytest.raises(OperationFailed, match="ArchiveUnreadable") as failed:
        stage.archive(archives=_Careless(stage.fleet.archives, store))
    assert not failed.value.is_terminal
    assert stage.fleet.archives.proof(stage.key) is None
    assert stage.home() == CONTENT
    archive = stage.archive()
    stage.fleet.volumes.delete(stage.workspace_id, "g1")
    stage.restore(archive)
    assert stage.home() == CONTENT


def test_a_whole_archive_of_something_else_is_found_by_its_sum(stage: Stage) -> None:
    stage.volume()
    other = b"".join(stage.fleet.homes.pack(Path("/nothing"), no_beat))
    with pytest.raises(OperationFailed, match="ArchiveUnreadable"):
        stage.archive(archives=_Careless(stage.fleet.archives, lambda _: other))
    assert stage.fleet.archives.proof(stage.key) is None
    archive = stage.archive()
    stage.fleet.volumes.delete(stage.workspace_id, "g1")
    stage.restore(archive)
    assert stage.home() == CONTENT


def test_an_object_of_an_older_state_of_the_home_is_replaced(stage: Stage) -> None:
    volume = stage.volume(b"older")
    older = stage.archive()
    del stage.fleet.archives.objects[proof_key_of(stage.key)]
    stage.fleet.homes.contents[volume.home] = CONTENT
    assert stage.archive() != older
    assert b"older" not in stage.stored.content


def test_an_altered_object_is_replaced_while_the_home_stands(stage: Stage) -> None:
    stage.volume()
    stage.archive()
    stage.stored.content = stage.stored.content[:-1]
    archive = stage.archive()
    assert archive.size_bytes == len(stage.stored.content)
    stage.fleet.volumes.delete(stage.workspace_id, "g1")
    stage.restore(archive)
    assert stage.home() == CONTENT


def test_an_altered_object_is_not_touched_when_nothing_else_is_left(stage: Stage) -> None:
    stage.archived()
    stage.stored.content = altered = stage.stored.content[:-1]
    with pytest.raises(OperationFailed, match="DataLost"):
        stage.archive()
    assert stage.stored.content == altered


def test_a_volume_that_was_deleted_while_it_was_read_makes_no_archive(stage: Stage) -> None:
    """A process that lost its lease reads on while its successor removes the files."""
    volume = stage.volume()
    beats = iter(range(1000))

    def beat() -> None:
        if next(beats) == 3:
            stage.fleet.volumes.delete(stage.workspace_id, volume.generation)

    with pytest.raises(OperationFailed, match="HomeChanged"):
        stage.archive(beat)
    assert stage.fleet.archives.objects == {}


def test_who_comes_late_does_not_cover_what_was_proved_meanwhile(stage: Stage) -> None:
    stage.volume()
    successor: list[Archive] = []

    def beat() -> None:
        if not successor:
            successor.append(Archive("", 0, "", ""))
            successor[0] = stage.archive()

    with pytest.raises(OperationFailed, match="ArchiveExists"):
        stage.archive(beat)
    assert stage.archive() == successor[0]


def test_an_outage_while_reading_back_is_an_outage(stage: Stage) -> None:
    stage.volume()

    def outage(call: str) -> None:
        if call == "archives.read.chunk":
            raise StorageUnavailable

    stage.fleet.faults.before = outage
    with pytest.raises(StorageUnavailable):
        stage.archive()
    with pytest.raises(StorageUnavailable):
        stage.archive()
    stage.fleet.faults.before = lambda _: None
    assert stage.archive() == stage.fleet.archives.proof(stage.key)


def test_who_comes_late_loses_nothing_by_what_its_successor_did_meanwhile(stage: Stage) -> None:
    """The successor proves the archive and deletes the volume between this one's looks at the two."""
    stage.volume()
    successor: list[Archive] = []

    def archive_and_delete(call: str) -> None:
        if call == "volumes.find" and not successor:
            stage.fleet.faults.before = lambda _: None
            successor.append(stage.archive())
            stage.fleet.volumes.delete(stage.workspace_id, "g1")

    stage.fleet.faults.before = archive_and_delete
    assert stage.archive() == successor[0]


def test_an_object_that_became_another_while_it_was_read_is_not_proved(stage: Stage) -> None:
    stage.volume()

    def become_another(call: str) -> None:
        if call == "archives.read.chunk":
            stage.fleet.faults.before = lambda _: None
            stage.stored.content = stage.stored.content[:-1]

    stage.fleet.faults.before = become_another
    with pytest.raises(OperationFailed, match="ArchiveUnreadable"):
        stage.archive()
    assert stage.fleet.archives.proof(stage.key) is None


def test_who_lost_the_lease_when_all_was_read_back_proves_nothing(stage: Stage) -> None:
    stage.volume()
    looks: list[str] = []

    def beat() -> None:
        if len(looks) == 4:  # twice for what there is, once for what was stored, once for what was read
            raise LeaseLost

    stage.fleet.faults.before = lambda call: looks.append(call) if call == "archives.look" else None
    with pytest.raises(LeaseLost):
        stage.archive(beat)
    assert stage.fleet.archives.proof(stage.key) is None


def test_who_lost_the_lease_proves_nothing(stage: Stage) -> None:
    stage.volume()
    beats, lasted = [0], False
    while not lasted:
        allowed, left = beats[0], iter(range(beats[0]))

        def beat(left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise LeaseLost

        try:
            stage.archive(beat)
            lasted = True
        except LeaseLost:
            assert stage.fleet.archives.proof(stage.key) is None
        beats[0] = allowed + 1
    assert beats[0] > 10
