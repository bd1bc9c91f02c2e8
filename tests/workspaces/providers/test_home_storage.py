"""Archiving, interrupted at every call: an incomplete archive is never valid (003 §7, WS-10)."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from dpp.platform.errors import StorageUnavailable
from dpp.workspaces.errors import LeaseLost, OperationFailed
from dpp.workspaces.model import Archive
from dpp.workspaces.ports import Heartbeat
from dpp.workspaces.providers.s3_archives import proof_key_of
from tests.support.crash_points import Killed
from tests.workspaces.home_environment import CONTENT, HomeEnvironment, fail_at_call
from tests.workspaces.homes import no_heartbeat
from tests.workspaces.memory_provider import MemoryArchives


@pytest.fixture
def env() -> HomeEnvironment:
    return HomeEnvironment()


def test_archive_is_proved_with_the_stored_bytes(env: HomeEnvironment) -> None:
    env.volume()
    archive = env.archive()
    assert archive.key == env.key
    assert env.fleet.archives.read_proof(env.key) == archive
    assert archive.size_bytes == len(env.stored.content)
    assert env.home() == CONTENT


def test_operation_uploads_once(env: HomeEnvironment) -> None:
    env.volume()
    archive = env.archive()
    env.calls.clear()
    assert env.archive() == archive
    assert env.calls == ["archives.head", "archives.read_proof"]


def test_another_operation_writes_another_archive(env: HomeEnvironment) -> None:
    env.volume()
    first = env.archive()
    env.op_id = uuid4()
    assert env.archive().key != first.key
    assert first.key in env.fleet.archives.objects


def test_proof_is_enough_without_a_volume(env: HomeEnvironment) -> None:
    """003 §8: after a crash between the deletion of the volume and its record."""
    archive = env.archived()
    assert env.archive() == archive


def test_neither_volume_nor_archive_is_data_lost(env: HomeEnvironment) -> None:
    with pytest.raises(OperationFailed, match="DataLost") as failed:
        env.archive()
    assert failed.value.is_terminal
    assert env.fleet.archives.objects == {}


def test_proof_without_its_object_is_no_archive(env: HomeEnvironment) -> None:
    env.archived()
    del env.fleet.archives.objects[env.key]
    with pytest.raises(OperationFailed, match="DataLost"):
        env.archive()


def test_unproven_volume_is_not_archived(env: HomeEnvironment) -> None:
    env.fleet.volumes.volumes[env.workspace_id] = None
    with pytest.raises(OperationFailed, match="VolumeUnproven"):
        env.archive()
    assert env.fleet.archives.objects == {}


@pytest.mark.parametrize("when", ["before", "after"])
def test_archiving_that_dies_at_any_call_is_finished_by_the_next_process(when: str) -> None:
    count, died = 1, True
    while died:
        env = HomeEnvironment()
        env.volume()
        lift = fail_at_call(env, count, when)
        try:
            env.archive()
            died = False
        except Killed:
            lift()
            proof = env.fleet.archives.read_proof(env.key)
            assert proof is None or proof.size_bytes == len(env.stored.content)
            archive = env.archive()
            env.fleet.volumes.delete(env.workspace_id, "g1")
            env.restore(archive)
            assert env.home() == CONTENT
        lift()
        count += 1
    assert count > 6


def test_object_of_a_dead_process_is_proved_and_not_sent_again(env: HomeEnvironment) -> None:
    env.volume()

    def die(call: str) -> None:
        if call == "archives.write":
            raise Killed

    env.fleet.faults.after = die
    with pytest.raises(Killed):
        env.archive()
    env.calls.clear()
    archive = env.archive()
    assert "archives.write" not in env.calls
    assert env.fleet.archives.read_proof(env.key) == archive


def test_complete_object_without_proof_is_proved_if_the_volume_is_gone(env: HomeEnvironment) -> None:
    archive = env.archived()
    del env.fleet.archives.objects[proof_key_of(env.key)]
    assert env.archive() == archive


class _WrongArchives(MemoryArchives):
    """Stores other bytes than it is given, and reports success."""

    __slots__ = ("store",)

    def __init__(self, real: MemoryArchives, store: Callable[[bytes], bytes]) -> None:
        super().__init__(real.faults, real.now, real.objects, real.undeletable)
        self.store = store

    def write(self, key: str, chunks: Iterator[bytes], heartbeat: Heartbeat, replaces: str | None = None) -> Archive:
        content = b"".join(chunks)
        self.objects.pop(key, None)
        stored = super().write(key, iter([self.store(content)]), heartbeat)
        head = super().head(key) if len(content) == stored.size_bytes else None
        return Archive(key, len(content), hashlib.sha256(content).hexdigest(), head.etag if head else stored.etag)


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
def test_wrongly_stored_object_is_not_proved(env: HomeEnvironment, store: Callable[[bytes], bytes]) -> None:
    env.volume()
    with pytest.raises(OperationFailed, match="ArchiveUnreadable") as failed:
        env.archive(archives=_WrongArchives(env.fleet.archives, store))
    assert not failed.value.is_terminal
    assert env.fleet.archives.read_proof(env.key) is None
    assert env.home() == CONTENT
    archive = env.archive()
    env.fleet.volumes.delete(env.workspace_id, "g1")
    env.restore(archive)
    assert env.home() == CONTENT


def test_archive_of_another_home_is_found_by_its_checksum(env: HomeEnvironment) -> None:
    env.volume()
    other = b"".join(env.fleet.homes.pack(Path("/nothing"), no_heartbeat))
    with pytest.raises(OperationFailed, match="ArchiveUnreadable"):
        env.archive(archives=_WrongArchives(env.fleet.archives, lambda _: other))
    assert env.fleet.archives.read_proof(env.key) is None
    archive = env.archive()
    env.fleet.volumes.delete(env.workspace_id, "g1")
    env.restore(archive)
    assert env.home() == CONTENT


def test_object_of_an_older_home_is_replaced(env: HomeEnvironment) -> None:
    volume = env.volume(b"older")
    older = env.archive()
    del env.fleet.archives.objects[proof_key_of(env.key)]
    env.fleet.homes.contents[volume.home] = CONTENT
    assert env.archive() != older
    assert b"older" not in env.stored.content


def test_altered_object_is_replaced_while_the_volume_exists(env: HomeEnvironment) -> None:
    env.volume()
    env.archive()
    env.stored.content = env.stored.content[:-1]
    archive = env.archive()
    assert archive.size_bytes == len(env.stored.content)
    env.fleet.volumes.delete(env.workspace_id, "g1")
    env.restore(archive)
    assert env.home() == CONTENT


def test_altered_object_is_kept_without_a_volume(env: HomeEnvironment) -> None:
    env.archived()
    env.stored.content = altered = env.stored.content[:-1]
    with pytest.raises(OperationFailed, match="DataLost"):
        env.archive()
    assert env.stored.content == altered


def test_volume_deleted_during_archiving_fails_it(env: HomeEnvironment) -> None:
    """A process that lost its lease reads while its successor removes the files."""
    volume = env.volume()
    heartbeats = iter(range(1000))

    def heartbeat() -> None:
        if next(heartbeats) == 3:
            env.fleet.volumes.delete(env.workspace_id, volume.generation)

    with pytest.raises(OperationFailed, match="HomeChanged"):
        env.archive(heartbeat)
    assert env.fleet.archives.objects == {}


def test_late_process_does_not_overwrite_a_proved_archive(env: HomeEnvironment) -> None:
    env.volume()
    successor: list[Archive] = []

    def heartbeat() -> None:
        if not successor:
            successor.append(Archive("", 0, "", ""))
            successor[0] = env.archive()

    with pytest.raises(OperationFailed, match="ArchiveExists"):
        env.archive(heartbeat)
    assert env.archive() == successor[0]


def test_outage_while_reading_back_is_an_outage(env: HomeEnvironment) -> None:
    env.volume()

    def outage(call: str) -> None:
        if call == "archives.read.chunk":
            raise StorageUnavailable

    env.fleet.faults.before = outage
    with pytest.raises(StorageUnavailable):
        env.archive()
    with pytest.raises(StorageUnavailable):
        env.archive()
    env.fleet.faults.before = lambda _: None
    assert env.archive() == env.fleet.archives.read_proof(env.key)


def test_late_process_accepts_the_archive_of_its_successor(env: HomeEnvironment) -> None:
    """The successor proves the archive and deletes the volume between two calls of this process."""
    env.volume()
    successor: list[Archive] = []

    def archive_and_delete(call: str) -> None:
        if call == "volumes.find" and not successor:
            env.fleet.faults.before = lambda _: None
            successor.append(env.archive())
            env.fleet.volumes.delete(env.workspace_id, "g1")

    env.fleet.faults.before = archive_and_delete
    assert env.archive() == successor[0]


def test_object_replaced_while_read_back_is_not_proved(env: HomeEnvironment) -> None:
    env.volume()

    def become_another(call: str) -> None:
        if call == "archives.read.chunk":
            env.fleet.faults.before = lambda _: None
            env.stored.content = env.stored.content[:-1]

    env.fleet.faults.before = become_another
    with pytest.raises(OperationFailed, match="ArchiveUnreadable"):
        env.archive()
    assert env.fleet.archives.read_proof(env.key) is None


def test_lease_lost_after_reading_back_proves_nothing(env: HomeEnvironment) -> None:
    env.volume()
    looks: list[str] = []

    def heartbeat() -> None:
        if len(looks) == 4:  # twice for what there is, once for what was stored, once for what was read
            raise LeaseLost

    env.fleet.faults.before = lambda call: looks.append(call) if call == "archives.head" else None
    with pytest.raises(LeaseLost):
        env.archive(heartbeat)
    assert env.fleet.archives.read_proof(env.key) is None


def test_lease_lost_proves_nothing(env: HomeEnvironment) -> None:
    env.volume()
    heartbeats, lasted = [0], False
    while not lasted:
        allowed, left = heartbeats[0], iter(range(heartbeats[0]))

        def heartbeat(left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise LeaseLost

        try:
            env.archive(heartbeat)
            lasted = True
        except LeaseLost:
            assert env.fleet.archives.read_proof(env.key) is None
        heartbeats[0] = allowed + 1
    assert heartbeats[0] > 10
