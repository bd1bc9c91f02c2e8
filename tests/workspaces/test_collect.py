"""The collector over a bucket: what nothing protects goes after two hours, and nothing else ever (003 §9; WS-13)."""

import itertools

import pytest

from dpp.workspaces.archives import collect as collector
from dpp.workspaces.archives.garbage import GRACE_SECONDS, Verdict
from dpp.workspaces.errors import ProviderUnavailable
from dpp.workspaces.model import Phase
from tests.workspaces.desk import Desk
from tests.workspaces.memory import MemoryProvider, StoredObject


def archives(fleet: MemoryProvider) -> list[str]:
    """The archives that are there, without their proofs."""
    return sorted(key for key in fleet.archives.objects if key.endswith("home.tar.zst"))


@pytest.fixture
def round_trips(desk: Desk, fleet: MemoryProvider) -> str:
    """A workspace that was archived three times; the key of its last archive."""
    workspace_id = desk.made("ARCHIVED")
    for _ in range(2):
        for wanted in ("STANDBY", "ARCHIVED"):
            desk.want(workspace_id, wanted)
            desk.reach(workspace_id, wanted)
    assert len(archives(fleet)) == 3
    key = desk.get(workspace_id).archive_key
    assert key is not None
    return key


def test_the_last_archive_stays_and_the_others_go_with_their_proofs(
    desk: Desk, fleet: MemoryProvider, round_trips: str
) -> None:
    """WS-13: two hours later."""
    desk.pass_time(GRACE_SECONDS - 600)
    assert desk.collect().deleted == 0
    desk.pass_time(700)
    found = desk.collect()
    assert (found.deleted, found.refused, found.capped, found.after) == (4, 0, False, None)
    assert found.by_verdict == {Verdict.GARBAGE: 4, Verdict.ARCHIVE_KEY: 2}
    assert archives(fleet) == [round_trips]
    assert desk.collect().deleted == 0


def test_a_dry_run_tells_and_deletes_nothing(desk: Desk, fleet: MemoryProvider, round_trips: str) -> None:
    """What an operator sees first."""
    desk.pass_time(GRACE_SECONDS)
    found = desk.collect(dry_run=True)
    assert (found.dry_run, found.deleted) == (True, 4)
    assert len(archives(fleet)) == 3


def test_what_s3_refuses_is_tried_again(desk: Desk, fleet: MemoryProvider, round_trips: str) -> None:
    """One object of a batch."""
    fleet.archives.undeletable = {next(key for key in archives(fleet) if key != round_trips)}
    desk.pass_time(GRACE_SECONDS)
    found = desk.collect()
    assert (found.deleted, found.refused) == (3, 1)
    fleet.archives.undeletable = set()
    assert desk.collect().deleted == 1


def test_a_run_deletes_so_many_and_no_more(
    desk: Desk, fleet: MemoryProvider, round_trips: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in a rule shows before the bucket is empty."""
    monkeypatch.setattr(collector, "MAX_DELETED", 3)
    desk.pass_time(GRACE_SECONDS)
    found = desk.collect()
    assert (found.deleted, found.capped, found.after) == (3, True, None)
    assert desk.collect().deleted == 1


def test_pages_are_gone_through_to_the_end(
    desk: Desk, fleet: MemoryProvider, round_trips: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket is larger than a page."""
    monkeypatch.setattr(collector, "_PAGE", 2)
    desk.pass_time(GRACE_SECONDS)
    assert desk.collect().deleted == 4
    assert archives(fleet) == [round_trips]


def test_what_is_not_reached_in_time_is_for_the_next(
    desk: Desk, fleet: MemoryProvider, round_trips: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key to go on from, and the rest from there."""
    monkeypatch.setattr(collector, "_PAGE", 2)
    desk.pass_time(GRACE_SECONDS)
    ticks = itertools.count(0, 100)
    found = desk.collect(elapsed=lambda: float(next(ticks)))
    assert found.after is not None
    rest = desk.collect(after=found.after)
    assert rest.after is None
    assert found.deleted + rest.deleted == 4


def test_what_lies_there_besides_is_left_alone(desk: Desk, fleet: MemoryProvider, round_trips: str) -> None:
    """Of no workspace, or of one that no row knows: the rows may be of another day."""
    stranger = "99999999-9999-4999-8999-999999999999/99999999-9999-4999-8999-999999999999/home.tar.zst"
    for key in ("readme.txt", stranger, round_trips.replace("home.tar.zst", "deep/home.tar.zst")):
        fleet.archives.objects[key] = StoredObject(b"x", desk.clock())
    desk.pass_time(30 * 86_400)
    found = desk.collect()
    assert found.by_verdict[Verdict.FOREIGN] == 2
    assert found.by_verdict[Verdict.UNKNOWN_WORKSPACE] == 1
    assert stranger in fleet.archives.objects


def test_what_is_in_error_keeps_every_archive(desk: Desk, fleet: MemoryProvider, round_trips: str) -> None:
    """WS-13, rule 2: a person may need an older one."""
    del fleet.archives.objects[round_trips]
    desk.settle(25)
    (workspace,) = desk.rows("SELECT phase FROM workspaces")
    assert workspace == ("ERROR",)
    desk.pass_time(30 * 86_400)
    assert desk.collect().deleted == 0


def test_what_is_deleted_keeps_none(desk: Desk, fleet: MemoryProvider, round_trips: str) -> None:
    """WS-13, rule 1: whoever deletes it means it."""
    ((workspace_id,),) = desk.rows("SELECT workspace_id FROM workspaces")
    desk.delete(workspace_id)
    desk.settle(3)
    assert desk.phase(workspace_id) is Phase.DELETED
    desk.pass_time(GRACE_SECONDS)
    desk.collect()
    assert fleet.archives.objects == {}


def test_an_archive_that_is_being_written_is_an_operations(desk: Desk, fleet: MemoryProvider) -> None:
    """WS-13, rule 3: however long it takes."""
    workspace_id = desk.made("STANDBY")
    desk.want(workspace_id, "ARCHIVED")
    collected = []

    def three_hours_pass(call: str) -> None:
        if call == "archives.prove":
            fleet.faults.before = lambda _: None
            desk.pass_time(3 * 3600)
            collected.append(desk.collect())

    fleet.faults.before = three_hours_pass
    desk.look(workspace_id)
    assert collected[0].by_verdict[Verdict.OPERATION] == 1
    desk.reach(workspace_id, "ARCHIVED")


def test_an_outage_ends_the_run_and_the_next_goes_on(
    desk: Desk, fleet: MemoryProvider, round_trips: str
) -> None:
    """Between the list and the deletion."""
    desk.pass_time(GRACE_SECONDS)

    def away(call: str) -> None:
        if call == "archives.delete":
            raise ProviderUnavailable

    fleet.faults.before = away
    with pytest.raises(ProviderUnavailable):
        desk.collect()
    fleet.faults.before = lambda _: None
    assert desk.collect().deleted == 4
