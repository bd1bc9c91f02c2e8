"""The collector over a bucket: what nothing protects goes after two hours, and nothing else ever (003 §9; WS-13)."""

import itertools

import pytest

from dpp.workspaces.archives import collect as collector
from dpp.workspaces.archives.garbage import GRACE_SECONDS, Verdict
from dpp.workspaces.errors import ProviderUnavailable
from dpp.workspaces.model import Phase
from tests.workspaces.environment import Environment
from tests.workspaces.memory_provider import MemoryProvider, StoredObject


def archives(fleet: MemoryProvider) -> list[str]:
    """The archives that are there, without their proofs."""
    return sorted(key for key in fleet.archives.objects if key.endswith("home.tar.zst"))


@pytest.fixture
def round_trips(env: Environment, fleet: MemoryProvider) -> str:
    """A workspace that was archived three times; the key of its last archive."""
    workspace_id = env.create_in("ARCHIVED")
    for _ in range(2):
        for wanted in ("STANDBY", "ARCHIVED"):
            env.set_desired_state(workspace_id, wanted)
            env.drive_to(workspace_id, wanted)
    assert len(archives(fleet)) == 3
    key = env.get(workspace_id).archive_key
    assert key is not None
    return key


def test_the_last_archive_stays_and_the_others_go_with_their_proofs(
    env: Environment, fleet: MemoryProvider, round_trips: str
) -> None:
    """WS-13: two hours later."""
    env.pass_time(GRACE_SECONDS - 600)
    assert env.collect().deleted == 0
    env.pass_time(700)
    found = env.collect()
    assert (found.deleted, found.refused, found.capped, found.after) == (4, 0, False, None)
    assert found.by_verdict == {Verdict.GARBAGE: 4, Verdict.ARCHIVE_KEY: 2}
    assert archives(fleet) == [round_trips]
    assert env.collect().deleted == 0


def test_a_dry_run_tells_and_deletes_nothing(
    env: Environment, fleet: MemoryProvider, round_trips: str
) -> None:
    """What an operator sees first."""
    env.pass_time(GRACE_SECONDS)
    found = env.collect(dry_run=True)
    assert (found.dry_run, found.deleted) == (True, 4)
    assert len(archives(fleet)) == 3


def test_what_s3_refuses_is_tried_again(env: Environment, fleet: MemoryProvider, round_trips: str) -> None:
    """One object of a batch."""
    fleet.archives.undeletable = {next(key for key in archives(fleet) if key != round_trips)}
    env.pass_time(GRACE_SECONDS)
    found = env.collect()
    assert (found.deleted, found.refused) == (3, 1)
    fleet.archives.undeletable = set()
    assert env.collect().deleted == 1


def test_a_run_deletes_so_many_and_no_more(
    env: Environment, fleet: MemoryProvider, round_trips: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in a rule shows before the bucket is empty."""
    monkeypatch.setattr(collector, "MAX_DELETED", 3)
    env.pass_time(GRACE_SECONDS)
    found = env.collect()
    assert (found.deleted, found.capped, found.after) == (3, True, None)
    assert env.collect().deleted == 1


def test_pages_are_gone_through_to_the_end(
    env: Environment, fleet: MemoryProvider, round_trips: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket is larger than a page."""
    monkeypatch.setattr(collector, "_PAGE", 2)
    env.pass_time(GRACE_SECONDS)
    assert env.collect().deleted == 4
    assert archives(fleet) == [round_trips]


def test_what_is_not_reached_in_time_is_for_the_next(
    env: Environment, fleet: MemoryProvider, round_trips: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key to go on from, and the rest from there."""
    monkeypatch.setattr(collector, "_PAGE", 2)
    env.pass_time(GRACE_SECONDS)
    ticks = itertools.count(0, 100)
    found = env.collect(elapsed=lambda: float(next(ticks)))
    assert found.after is not None
    rest = env.collect(after=found.after)
    assert rest.after is None
    assert found.deleted + rest.deleted == 4


def test_what_lies_there_besides_is_left_alone(
    env: Environment, fleet: MemoryProvider, round_trips: str
) -> None:
    """Of no workspace, or of one that no row knows: the rows may be of another day."""
    stranger = "99999999-9999-4999-8999-999999999999/99999999-9999-4999-8999-999999999999/home.tar.zst"
    for key in ("readme.txt", stranger, round_trips.replace("home.tar.zst", "deep/home.tar.zst")):
        fleet.archives.objects[key] = StoredObject(b"x", env.clock())
    env.pass_time(30 * 86_400)
    found = env.collect()
    assert found.by_verdict[Verdict.FOREIGN] == 2
    assert found.by_verdict[Verdict.UNKNOWN_WORKSPACE] == 1
    assert stranger in fleet.archives.objects


def test_what_is_in_error_keeps_every_archive(
    env: Environment, fleet: MemoryProvider, round_trips: str
) -> None:
    """WS-13, rule 2: a person may need an older one."""
    del fleet.archives.objects[round_trips]
    env.run_ticks(25)
    (workspace,) = env.rows("SELECT phase FROM workspaces")
    assert workspace == ("ERROR",)
    env.pass_time(30 * 86_400)
    assert env.collect().deleted == 0


def test_what_is_deleted_keeps_none(env: Environment, fleet: MemoryProvider, round_trips: str) -> None:
    """WS-13, rule 1: whoever deletes it means it."""
    ((workspace_id,),) = env.rows("SELECT workspace_id FROM workspaces")
    env.delete(workspace_id)
    env.run_ticks(3)
    assert env.phase(workspace_id) is Phase.DELETED
    env.pass_time(GRACE_SECONDS)
    env.collect()
    assert fleet.archives.objects == {}


def test_an_archive_that_is_being_written_is_an_operations(env: Environment, fleet: MemoryProvider) -> None:
    """WS-13, rule 3: however long it takes."""
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


def test_an_outage_ends_the_run_and_the_next_goes_on(
    env: Environment, fleet: MemoryProvider, round_trips: str
) -> None:
    """Between the list and the deletion."""
    env.pass_time(GRACE_SECONDS)

    def away(call: str) -> None:
        if call == "archives.delete":
            raise ProviderUnavailable

    fleet.faults.before = away
    with pytest.raises(ProviderUnavailable):
        env.collect()
    fleet.faults.before = lambda _: None
    assert env.collect().deleted == 4
