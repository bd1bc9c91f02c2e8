"""Collections over a bucket: only unprotected archives are deleted, after two hours (003 §9; WS-13)."""

import itertools

import pytest

from dpp.workspaces.archives import collect as collect_module
from dpp.workspaces.archives.garbage import GRACE_SECONDS, Verdict
from dpp.workspaces.errors import ProviderUnavailable
from dpp.workspaces.model import Phase
from tests.support.stored import existing
from tests.workspaces.environment import Environment
from tests.workspaces.memory_provider import MemoryProvider, StoredObject


def archives(fleet: MemoryProvider) -> list[str]:
    """The keys of all archives, without proofs."""
    return sorted(key for key in fleet.archives.objects if key.endswith("home.tar.zst"))


@pytest.fixture
def last_key(env: Environment, fleet: MemoryProvider) -> str:
    """A workspace that was archived three times; the key of its last archive."""
    workspace_id = env.create_in("ARCHIVED")
    for _ in range(2):
        env.move(workspace_id, "STANDBY", "ARCHIVED")
    assert len(archives(fleet)) == 3
    return existing(env.get(workspace_id).archive_key)


def test_all_but_the_last_archive_are_deleted_with_their_proofs(
    env: Environment, fleet: MemoryProvider, last_key: str
) -> None:
    """WS-13: after two hours."""
    env.pass_time(GRACE_SECONDS - 600)
    assert env.collect().deleted == 0
    env.pass_time(700)
    found = env.collect()
    assert (found.deleted, found.refused, found.capped, found.after) == (4, 0, False, None)
    assert found.by_verdict == {Verdict.GARBAGE: 4, Verdict.ARCHIVE_KEY: 2}
    assert archives(fleet) == [last_key]
    assert env.collect().deleted == 0


def test_dry_run_counts_and_deletes_nothing(env: Environment, fleet: MemoryProvider, last_key: str) -> None:
    env.pass_time(GRACE_SECONDS)
    found = env.collect(dry_run=True)
    assert (found.dry_run, found.deleted) == (True, 4)
    assert len(archives(fleet)) == 3


def test_object_that_s3_refuses_to_delete_is_retried(env: Environment, fleet: MemoryProvider, last_key: str) -> None:
    fleet.archives.undeletable = {next(key for key in archives(fleet) if key != last_key)}
    env.pass_time(GRACE_SECONDS)
    found = env.collect()
    assert (found.deleted, found.refused) == (3, 1)
    fleet.archives.undeletable = set()
    assert env.collect().deleted == 1


def test_deletions_are_limited_per_collection(
    env: Environment, fleet: MemoryProvider, last_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect_module, "MAX_DELETED", 3)
    env.pass_time(GRACE_SECONDS)
    found = env.collect()
    assert (found.deleted, found.capped, found.after) == (3, True, None)
    assert env.collect().deleted == 1


def test_all_pages_of_the_bucket_are_scanned(
    env: Environment, fleet: MemoryProvider, last_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect_module, "_PAGE", 2)
    env.pass_time(GRACE_SECONDS)
    assert env.collect().deleted == 4
    assert archives(fleet) == [last_key]


def test_next_collection_continues_after_the_time_limit(
    env: Environment, fleet: MemoryProvider, last_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect_module, "_PAGE", 2)
    env.pass_time(GRACE_SECONDS)
    ticks = itertools.count(0, 100)
    found = env.collect(elapsed=lambda: float(next(ticks)))
    assert found.after is not None
    rest = env.collect(after=found.after)
    assert rest.after is None
    assert found.deleted + rest.deleted == 4


def test_foreign_objects_are_kept(env: Environment, fleet: MemoryProvider, last_key: str) -> None:
    """Also of an unknown workspace: the database may have been restored to another time."""
    stranger = "99999999-9999-4999-8999-999999999999/99999999-9999-4999-8999-999999999999/home.tar.zst"
    for key in ("readme.txt", stranger, last_key.replace("home.tar.zst", "deep/home.tar.zst")):
        fleet.archives.objects[key] = StoredObject(b"x", env.clock())
    env.pass_time(30 * 86_400)
    found = env.collect()
    assert found.by_verdict[Verdict.FOREIGN] == 2
    assert found.by_verdict[Verdict.UNKNOWN_WORKSPACE] == 1
    assert stranger in fleet.archives.objects


def test_workspace_in_error_keeps_every_archive(env: Environment, fleet: MemoryProvider, last_key: str) -> None:
    """WS-13, rule 2: an operator may need an older one."""
    del fleet.archives.objects[last_key]
    env.run_ticks(25)
    (workspace,) = env.rows("SELECT phase FROM workspaces")
    assert workspace == ("ERROR",)
    env.pass_time(30 * 86_400)
    assert env.collect().deleted == 0


def test_deleted_workspace_keeps_no_archive(env: Environment, fleet: MemoryProvider, last_key: str) -> None:
    """WS-13, rule 1."""
    ((workspace_id,),) = env.rows("SELECT workspace_id FROM workspaces")
    env.delete(workspace_id)
    env.run_ticks(3)
    assert env.phase(workspace_id) is Phase.DELETED
    env.pass_time(GRACE_SECONDS)
    env.collect()
    assert fleet.archives.objects == {}


def test_archive_of_the_current_operation_is_kept(env: Environment, fleet: MemoryProvider) -> None:
    """WS-13, rule 3: however long the operation takes."""
    workspace_id = env.create_in("STANDBY")
    env.set_desired_state(workspace_id, "ARCHIVED")
    collected = []

    def three_hours_pass(call: str) -> None:
        if call == "archives.write_proof":
            fleet.faults.before = lambda _: None
            env.pass_time(3 * 3600)
            collected.append(env.collect())

    fleet.faults.before = three_hours_pass
    env.observe(workspace_id)
    assert collected[0].by_verdict[Verdict.OPERATION] == 1
    env.drive_to(workspace_id, "ARCHIVED")


def test_collection_is_repeated_after_an_outage(env: Environment, fleet: MemoryProvider, last_key: str) -> None:
    env.pass_time(GRACE_SECONDS)

    fleet.faults.fail("archives.delete", ProviderUnavailable)
    with pytest.raises(ProviderUnavailable):
        env.collect()
    fleet.faults.before = lambda _: None
    assert env.collect().deleted == 4
