"""Archiving, cut off at every call: what counts is whole, and what is not whole never counts (003 §7, WS-10)."""

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
    """A stage of its own."""
    return HomeEnvironment()


def test_an_archive_is_proved_with_what_was_stored(env: HomeEnvironment) -> None:
    env.volume()
    archive = env.archive()
    assert archive.key == env.key
    assert env.fleet.archives.read_proof(env.key) == archive
    assert archive.size_bytes == len(env.stored.content)
    assert env.home() == CONTENT


def test_the_same_operation_uploads_once(env: HomeEnvironment) -> None:
    env.volume()
    archive = env.archive()
    env.calls.clear()
    assert env.archive() == archive
    assert env.calls == ["archives.head", "archives.read_proof"]


def test_another_operation_makes_another_archive(env: HomeEnvironment) -> None:
    env.volume()
    first = env.archive()
    env.op_id = uuid4()
    assert env.archive().key != first.key
    assert first.key in env.fleet.archives.objects


def test_the_proof_is_enough_when_the_volume_is_gone(env: HomeEnvironment) -> None:
    """003 §8: a crash after the volume was deleted, before that was noted."""
    archive = env.archived()
    assert env.archive() == archive


def test_neither_volume_nor_archive_is_loss_and_is_told_at_once(env: HomeEnvironment) -> None:
    with pytest.raises(OperationFailed, match="DataLost") as failed:
        env.archive()
    assert failed.value.is_terminal
    assert env.fleet.archives.objects == {}


def test_a_proof_without_its_object_is_no_archive(env: HomeEnvironment) -> None:
    env.archived()
    del env.fleet.archives.objects[env.key]
    with pytest.raises(OperationFailed, match="DataLost"):
        env.archive()


def test_an_unproven_volume_is_not_archived(env: HomeEnvironment) -> None:
    env.fleet.volumes.volumes[env.workspace_id] = None
    with pytest.raises(OperationFailed, match="VolumeUnproven"):
        env.archive()
    assert env.fleet.archives.objects == {}


@pytest.mark.parametrize("when", ["before", "after"])
def test_archiving_that_dies_at_any_call_is_finished_by_the_next(when: str) -> None:
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


def test_an_object_whose_uploader_died_is_read_and_proved_and_not_sent_again(env: HomeEnvironment) -> None:
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


def test_a_whole_object_without_proof_saves_a_home_whose_volume_is_gone(env: HomeEnvironment) -> None:
    archive = env.archived()
    del env.fleet.archives.objects[proof_key_of(env.key)]
    assert env.archive() == archive


class _Careless(MemoryArchives):
    """Stores something else than what it is given, and says that all is well."""

    __slots__ = ("store",)

    def __init__(self, real: MemoryArchives, store: Callable[[bytes], bytes]) -> None:
        super().__init__(real.faults, real.now, real.objects, real.undeletable)
        self.store = store

    def write(
        self, key: str, chunks: Iterator[bytes], heartbeat: Heartbeat, replaces: str | None = None
    ) -> Archive:
        content = b"".join(chunks)
        self.objects.pop(key, None)
        stored = super().write(key, iter([self.store(content)]), heartbeat)
        said = super().head(key) if len(content) == stored.size_bytes else None
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
    env: HomeEnvironment, store: Callable[[bytes], bytes]
) -> None:
    env.volume()
    with pytest.raises(OperationFailed, match="ArchiveUnreadable") as failed:
        env.archive(archives=_Careless(env.fleet.archives, store))
    assert not failed.value.is_terminal
    assert env.fleet.archives.read_proof(env.key) is None
    assert env.home() == CONTENT
    archive = env.archive()
    env.fleet.volumes.delete(env.workspace_id, "g1")
    env.restore(archive)
    assert env.home() == CONTENT


def test_a_whole_archive_of_something_else_is_found_by_its_sum(env: HomeEnvironment) -> None:
    env.volume()
    other = b"".join(env.fleet.homes.pack(Path("/nothing"), no_heartbeat))
    with pytest.raises(OperationFailed, match="ArchiveUnreadable"):
        env.archive(archives=_Careless(env.fleet.archives, lambda _: other))
    assert env.fleet.archives.read_proof(env.key) is None
    archive = env.archive()
    env.fleet.volumes.delete(env.workspace_id, "g1")
    env.restore(archive)
    assert env.home() == CONTENT


def test_an_object_of_an_older_state_of_the_home_is_replaced(env: HomeEnvironment) -> None:
    volume = env.volume(b"older")
    older = env.archive()
    del env.fleet.archives.objects[proof_key_of(env.key)]
    env.fleet.homes.contents[volume.home] = CONTENT
    assert env.archive() != older
    assert b"older" not in env.stored.content


def test_an_altered_object_is_replaced_while_the_home_stands(env: HomeEnvironment) -> None:
    env.volume()
    env.archive()
    env.stored.content = env.stored.content[:-1]
    archive = env.archive()
    assert archive.size_bytes == len(env.stored.content)
    env.fleet.volumes.delete(env.workspace_id, "g1")
    env.restore(archive)
    assert env.home() == CONTENT


def test_an_altered_object_is_not_touched_when_nothing_else_is_left(env: HomeEnvironment) -> None:
    env.archived()
    env.stored.content = altered = env.stored.content[:-1]
    with pytest.raises(OperationFailed, match="DataLost"):
        env.archive()
    assert env.stored.content == altered


def test_a_volume_that_was_deleted_while_it_was_read_makes_no_archive(env: HomeEnvironment) -> None:
    """A process that lost its lease reads on while its successor removes the files."""
    volume = env.volume()
    beats = iter(range(1000))

    def heartbeat() -> None:
        if next(beats) == 3:
            env.fleet.volumes.delete(env.workspace_id, volume.generation)

    with pytest.raises(OperationFailed, match="HomeChanged"):
        env.archive(heartbeat)
    assert env.fleet.archives.objects == {}


def test_who_comes_late_does_not_cover_what_was_proved_meanwhile(env: HomeEnvironment) -> None:
    env.volume()
    successor: list[Archive] = []

    def heartbeat() -> None:
        if not successor:
            successor.append(Archive("", 0, "", ""))
            successor[0] = env.archive()

    with pytest.raises(OperationFailed, match="ArchiveExists"):
        env.archive(heartbeat)
    assert env.archive() == successor[0]


def test_an_outage_while_reading_back_is_an_outage(env: HomeEnvironment) -> None:
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


def test_who_comes_late_loses_nothing_by_what_its_successor_did_meanwhile(env: HomeEnvironment) -> None:
    """The successor proves the archive and deletes the volume between this one's looks at the two."""
    env.volume()
    successor: list[Archive] = []

    def archive_and_delete(call: str) -> None:
        if call == "volumes.find" and not successor:
            env.fleet.faults.before = lambda _: None
            successor.append(env.archive())
            env.fleet.volumes.delete(env.workspace_id, "g1")

    env.fleet.faults.before = archive_and_delete
    assert env.archive() == successor[0]


def test_an_object_that_became_another_while_it_was_read_is_not_proved(env: HomeEnvironment) -> None:
    env.volume()

    def become_another(call: str) -> None:
        if call == "archives.read.chunk":
            env.fleet.faults.before = lambda _: None
            env.stored.content = env.stored.content[:-1]

    env.fleet.faults.before = become_another
    with pytest.raises(OperationFailed, match="ArchiveUnreadable"):
        env.archive()
    assert env.fleet.archives.read_proof(env.key) is None


def test_who_lost_the_lease_when_all_was_read_back_proves_nothing(env: HomeEnvironment) -> None:
    env.volume()
    looks: list[str] = []

    def heartbeat() -> None:
        if len(looks) == 4:  # twice for what there is, once for what was stored, once for what was read
            raise LeaseLost

    env.fleet.faults.before = lambda call: looks.append(call) if call == "archives.head" else None
    with pytest.raises(LeaseLost):
        env.archive(heartbeat)
    assert env.fleet.archives.read_proof(env.key) is None


def test_who_lost_the_lease_proves_nothing(env: HomeEnvironment) -> None:
    env.volume()
    beats, lasted = [0], False
    while not lasted:
        allowed, left = beats[0], iter(range(beats[0]))

        def heartbeat(left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise LeaseLost

        try:
            env.archive(heartbeat)
            lasted = True
        except LeaseLost:
            assert env.fleet.archives.read_proof(env.key) is None
        beats[0] = allowed + 1
    assert beats[0] > 10
