"""From what is wanted to what is there: looks, steps, faults from outside, and what is told of them (WS-1 … WS-12)."""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from uuid import UUID, uuid4

import psycopg
import pytest

from dpp.workspaces import store
from dpp.workspaces.api import own
from dpp.workspaces.api.create import NewWorkspace, create
from dpp.workspaces.control import lease, monitor
from dpp.workspaces.control.planner import LOSS_GRACE_SECONDS, SETTLE_SECONDS
from dpp.workspaces.control.reconcile import Outcome, reconcile
from dpp.workspaces.control.recover import Recovery, Way, recover
from dpp.workspaces.errors import (
    IdempotencyConflict,
    NotDeletable,
    OperationFailed,
    ProviderUnavailable,
    TooManyWorkspaces,
    WorkspaceDeleted,
    WorkspaceNotFound,
)
from dpp.workspaces.machine import WISHES
from dpp.workspaces.model import DesiredState, Operation, Phase
from dpp.workspaces.ports import Seen
from dpp.workspaces.store import Change, Writer
from tests.crash.points import Killed
from tests.workspaces.desk import LOOKS, STRANGER, WORKS, Desk
from tests.workspaces.memory import MemoryProvider

CONTENT = b"all that a developer has"


def write(fleet: MemoryProvider, workspace_id: UUID, content: bytes = CONTENT) -> None:
    """What somebody works on in the home."""
    volume = fleet.volumes.volumes[workspace_id]
    assert volume is not None
    fleet.homes.contents[volume.home] = content


def home(fleet: MemoryProvider, workspace_id: UUID) -> bytes:
    """What is in the home."""
    volume = fleet.volumes.volumes[workspace_id]
    assert volume is not None
    return fleet.homes.contents[volume.home]


class TestTheWay:
    def test_a_new_workspace_runs_with_an_empty_home(self, desk: Desk, fleet: MemoryProvider) -> None:
        """WS-8: by PROVISIONING, RESTORING, STARTING, each a neighbour further, in one look."""
        workspace_id = desk.create("RUNNING")
        desk.look(workspace_id)
        assert desk.phase(workspace_id) is Phase.RUNNING
        assert home(fleet, workspace_id) == b""
        begun = desk.rows("SELECT to_value FROM workspace_events WHERE kind = 'STARTED' ORDER BY event_id")
        assert [row[0] for row in begun] == ["PROVISIONING", "RESTORING", "STARTING"]

    @pytest.mark.parametrize("end", WISHES)
    @pytest.mark.parametrize("start", WISHES)
    def test_a_home_goes_the_whole_way_and_back(
        self, desk: Desk, fleet: MemoryProvider, start: str, end: str
    ) -> None:
        """WS-8, WS-10: whatever is wanted, and nothing of it is lost unless it is to be."""
        workspace_id = desk.made("RUNNING")
        write(fleet, workspace_id)
        for wanted in (start, end):
            desk.want(workspace_id, wanted)
            desk.reach(workspace_id, wanted)
        desk.want(workspace_id, "STANDBY")
        desk.reach(workspace_id, "STANDBY")
        kept = "PENDING" not in {start, end}
        assert home(fleet, workspace_id) == (CONTENT if kept else b"")

    def test_long_work_is_done_by_who_has_the_time(self, desk: Desk) -> None:
        """And handed over once a minute, not at each look."""
        workspace_id = desk.create("ARCHIVED")
        for _ in range(3):
            desk.look(workspace_id, does_long=False)
            desk.pass_time(2)
        assert desk.phase(workspace_id) is Phase.PENDING
        assert len(desk.sqs.of(WORKS)) == 1
        desk.pass_time(60)
        desk.look(workspace_id, does_long=False)
        assert len(desk.sqs.of(WORKS)) == 2
        desk.deliver()
        assert desk.phase(workspace_id) is Phase.ARCHIVED

    def test_a_wish_that_changes_in_the_middle_waits_for_the_end(
        self, desk: Desk, fleet: MemoryProvider
    ) -> None:
        """WS-7: an operation is not cut off; the next one goes the other way."""
        workspace_id = desk.made("RUNNING")
        write(fleet, workspace_id)
        desk.want(workspace_id, "ARCHIVED")

        def changes_its_mind(call: str) -> None:
            if call == "archives.write":
                fleet.faults.before = lambda _: None
                desk.want(workspace_id, "RUNNING")

        fleet.faults.before = changes_its_mind
        desk.look(workspace_id)
        desk.reach(workspace_id, "RUNNING")
        assert home(fleet, workspace_id) == CONTENT
        ended = desk.rows(
            "SELECT from_value FROM workspace_events WHERE kind = 'COMPLETED' ORDER BY event_id"
        )
        assert [row[0] for row in ended][-4:] == ["STOPPING", "ARCHIVING", "RESTORING", "STARTING"]

    def test_a_rename_touches_nothing_that_is_named_by_the_id(
        self, desk: Desk, fleet: MemoryProvider
    ) -> None:
        """WS-9: names of people are none of the provider's."""
        workspace_id = desk.made("RUNNING")
        calls: list[str] = []
        fleet.faults.before = calls.append
        own.change(desk.owner, str(workspace_id), Change(name="another"), desk.clock())
        desk.settle(2)
        assert desk.get(workspace_id).name == "another"
        assert {call.partition(".")[2] for call in calls} <= {"observe", "look"}
        assert "RENAMED" in desk.kinds(workspace_id)


class TestFromOutside:
    def test_a_container_that_was_killed_is_started_again(self, desk: Desk, fleet: MemoryProvider) -> None:
        """WS-1: what is there counts, not what was done once."""
        workspace_id = desk.made("RUNNING")
        fleet.containers.running.clear()
        desk.settle(4)
        assert workspace_id in fleet.containers.running
        assert desk.phase(workspace_id) is Phase.RUNNING

    def test_a_container_that_keeps_ending_is_started_ever_later(
        self, desk: Desk, fleet: MemoryProvider
    ) -> None:
        """WS-14: a condition that flaps costs a start in five minutes, not one each look."""
        workspace_id = desk.made("RUNNING")
        starts = 0
        for _ in range(900 // 5):
            if fleet.containers.running.pop(workspace_id, None) is not None:
                starts += 1
            desk.look(workspace_id)
            desk.pass_time(5)
        assert 5 <= starts <= 12

    def test_a_container_started_by_somebody_is_stopped(self, desk: Desk, fleet: MemoryProvider) -> None:
        """Level-triggered (WS-5): wherever it comes from."""
        workspace_id = desk.made("STANDBY")
        volume = fleet.volumes.volumes[workspace_id]
        assert volume is not None
        fleet.containers.running[workspace_id] = volume
        desk.settle(4)
        assert workspace_id not in fleet.containers.running

    @pytest.mark.parametrize("wanted", ["STANDBY", "ARCHIVED", "PENDING"])
    def test_a_volume_that_vanished_is_never_replaced_unasked(
        self, desk: Desk, fleet: MemoryProvider, wanted: str
    ) -> None:
        """The issue's first fear: an empty home, or an older one, where a home was."""
        workspace_id = desk.made("STANDBY")
        del fleet.volumes.volumes[workspace_id]
        desk.want(workspace_id, wanted)
        desk.settle(20)
        found = desk.get(workspace_id)
        assert found.phase is Phase.ERROR
        assert found.error_info is not None
        assert (found.error_info.reason, found.error_info.is_terminal) == ("DataLost", True)
        assert workspace_id not in fleet.volumes.volumes

    def test_a_volume_that_vanished_from_under_a_container_is_an_error(
        self, desk: Desk, fleet: MemoryProvider
    ) -> None:
        """WS-4: ContainerWithoutVolume; and once the container is gone, too, the home is lost."""
        workspace_id = desk.made("RUNNING")
        del fleet.volumes.volumes[workspace_id]
        desk.settle(2)
        found = desk.get(workspace_id)
        assert found.conditions["policy.healthy"].reason == "ContainerWithoutVolume"
        fleet.containers.running.clear()
        desk.settle(3)
        error = desk.get(workspace_id).error_info
        assert error is not None
        assert error.reason == "DataLost"

    def test_a_volume_that_is_not_seen_for_a_moment_is_no_loss(
        self, desk: Desk, fleet: MemoryProvider
    ) -> None:
        """A condition that flaps."""
        workspace_id = desk.made("STANDBY")
        volume = fleet.volumes.volumes.pop(workspace_id)
        for _ in range(4):
            desk.look(workspace_id)
            desk.pass_time(LOSS_GRACE_SECONDS / 5)
        fleet.volumes.volumes[workspace_id] = volume
        desk.settle(3)
        assert desk.phase(workspace_id) is Phase.STANDBY
        assert desk.get(workspace_id).error_info is None

    @pytest.mark.parametrize("what", ["gone", "altered", "cut", "expired"])
    def test_an_archive_that_can_not_be_had_is_an_error(
        self, desk: Desk, fleet: MemoryProvider, what: str
    ) -> None:
        """WS-2, WS-4: before anybody asks for it."""
        workspace_id = desk.made("ARCHIVED")
        key = desk.get(workspace_id).archive_key
        assert key is not None
        stored = fleet.archives.objects[key]
        match what:
            case "gone":
                del fleet.archives.objects[key]
            case "altered":
                stored.content = bytes([stored.content[0] ^ 1]) + stored.content[1:]
            case "cut":
                stored.content = stored.content[:-1]
            case _:
                stored.expires_at = desk.clock() - timedelta(seconds=1)
        desk.look(workspace_id)
        found = desk.get(workspace_id)
        reasons = {
            "gone": "ArchiveNotFound",
            "altered": "ArchiveCorrupted",
            "cut": "ArchiveCorrupted",
            "expired": "ArchiveExpired",
        }
        assert found.phase is Phase.ERROR
        assert found.conditions["storage.archive_ready"].reason == reasons[what]
        assert found.conditions["policy.healthy"].reason == "ArchiveAccessError"
        desk.want(workspace_id, "RUNNING")
        desk.settle(4)
        assert workspace_id not in fleet.volumes.volumes

    def test_an_operation_ends_where_its_provider_was_away_and_its_archive_is_lost(
        self, desk: Desk, fleet: MemoryProvider
    ) -> None:
        """WS-14: in ERROR nobody asks the provider again, so what waits for that must end by its deadline.

        Else the operation is under way for ever: nobody may recover the workspace, and nobody delete it.
        """
        workspace_id = desk.made("STANDBY")
        write(fleet, workspace_id)
        key = desk.get(workspace_id).archive_key
        assert key is not None

        def is_away(call: str) -> None:
            if call == "archives.write":
                raise ProviderUnavailable

        fleet.faults.before = is_away
        desk.want(workspace_id, "ARCHIVED")
        desk.look(workspace_id)
        assert desk.get(workspace_id).next_attempt_at is not None
        del fleet.archives.objects[key]
        desk.settle(4)
        assert desk.get(workspace_id).operation is Operation.ARCHIVING
        desk.pass_time(3_600)
        desk.settle(2)
        found = desk.get(workspace_id)
        assert (found.operation, found.phase) == (Operation.NONE, Phase.ERROR)
        assert home(fleet, workspace_id) == CONTENT
        fleet.faults.before = lambda _: None
        recovery = Recovery(Way.KEEP_VOLUME, "operator", "the archive is lost, and the home stands")
        recover(recovery, workspace_id, desk.database, fleet.archives, desk.clock())
        desk.reach(workspace_id, "ARCHIVED")

    def test_a_volume_that_nobody_made_is_left_for_a_person(self, desk: Desk, fleet: MemoryProvider) -> None:
        """003 §7: no marker, no start, and nothing covers it."""
        workspace_id = desk.made("ARCHIVED")
        fleet.volumes.volumes[workspace_id] = None
        desk.want(workspace_id, "RUNNING")
        desk.settle(6)
        found = desk.get(workspace_id)
        assert found.error_info is not None
        assert found.error_info.reason == "VolumeUnproven"
        assert workspace_id not in fleet.containers.running


class TestActuators:
    def test_one_that_says_so_and_does_nothing_is_asked_again(
        self, desk: Desk, fleet: MemoryProvider
    ) -> None:
        """WS-1: success that can't be seen is none; and it ends in ERROR, not in a lie."""
        workspace_id = desk.made("STANDBY")
        asked = 0
        real = fleet.containers.running

        class Forgetful(dict[UUID, object]):
            def __setitem__(self, key: UUID, value: object) -> None:
                nonlocal asked
                asked += 1

        fleet.containers.running = Forgetful()  # type: ignore[assignment]
        desk.want(workspace_id, "RUNNING")
        for _ in range(20):
            desk.look(workspace_id)
            desk.pass_time(2)
        assert 2 <= asked <= 40 / SETTLE_SECONDS + 1
        assert desk.get(workspace_id).operation is Operation.STARTING
        for _ in range(60):
            desk.look(workspace_id)
            desk.pass_time(20)
        error = desk.get(workspace_id).error_info
        assert error is not None
        assert (error.reason, error.is_terminal, error.retry_count) == ("OperationTimeout", True, 3)
        assert real == {}

    def test_one_that_fails_and_does_it_is_believed_by_what_is_seen(
        self, desk: Desk, fleet: MemoryProvider
    ) -> None:
        """WS-1, WS-14: even the third time."""
        workspace_id = desk.made("STANDBY")

        def lies(call: str) -> None:
            if call == "containers.start":
                raise OperationFailed("Lied", "It says that it failed.")

        fleet.faults.after = lies
        desk.want(workspace_id, "RUNNING")
        desk.look(workspace_id)
        assert desk.phase(workspace_id) is Phase.RUNNING
        assert desk.get(workspace_id).error_info is None

    def test_one_that_fails_three_times_is_an_error_at_once(self, desk: Desk, fleet: MemoryProvider) -> None:
        """WS-14: short retries are immediate; the operation is reset, its id stays (WS-7)."""
        workspace_id = desk.made("STANDBY")
        calls = 0

        def fails(call: str) -> None:
            nonlocal calls
            if call == "containers.start":
                calls += 1
                raise OperationFailed("ImageMissing", "There is no such image.")

        fleet.faults.before = fails
        desk.want(workspace_id, "RUNNING")
        desk.look(workspace_id)
        found = desk.get(workspace_id)
        assert calls == 3
        assert found.phase is Phase.ERROR
        assert found.operation is Operation.NONE
        assert found.op_id is not None
        assert found.conditions["policy.healthy"].reason == "ImageMissing"
        assert found.volume_ready  # 003 §4: conditions are not frozen
        assert desk.kinds(workspace_id)[-4:] == ["RETRYING", "RETRYING", "FAILED", "PHASE"]

    def test_one_that_says_that_it_never_will_is_not_asked_again(
        self, desk: Desk, fleet: MemoryProvider
    ) -> None:
        """WS-14: is_terminal."""
        workspace_id = desk.made("STANDBY")

        def fails(call: str) -> None:
            if call == "containers.start":
                raise OperationFailed("NeverAgain", "No.", is_terminal=True)

        fleet.faults.before = fails
        desk.want(workspace_id, "RUNNING")
        desk.look(workspace_id)
        error = desk.get(workspace_id).error_info
        assert error is not None
        assert (error.reason, error.retry_count) == ("NeverAgain", 1)

    def test_an_outage_is_no_failure(self, desk: Desk, fleet: MemoryProvider) -> None:
        """WS-14: 1 s, 2 s, 4 s … five minutes, for as long as it takes; nothing is held against the operation."""
        workspace_id = desk.made("STANDBY")
        asked: list[float] = []

        def away(call: str) -> None:
            if call == "containers.start":
                asked.append(desk.seconds)
                raise ProviderUnavailable

        fleet.faults.before = away
        desk.want(workspace_id, "RUNNING")
        while desk.seconds < 1_500:
            desk.look(workspace_id)
            desk.pass_time(1)
        waits = [after - before for before, after in pairwise(asked)]
        for wait, expected in zip(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300], strict=False):
            assert expected <= wait <= expected + 3
        assert len(waits) >= 8
        assert desk.get(workspace_id).error_info is None
        desk.pass_time(300)
        assert desk.look(workspace_id).outage == "workspace provider"  # which is measured
        fleet.faults.before = lambda _: None
        desk.settle(12)
        assert desk.phase(workspace_id) is Phase.RUNNING
        assert desk.get(workspace_id).error_count == 0

    def test_what_nobody_tried_is_not_late(self, desk: Desk) -> None:
        """WS-14: the platform's own hours of silence are not held against an operation."""
        workspace_id = desk.create("RUNNING")
        for _ in range(4):
            desk.look(workspace_id, does_long=False)
            desk.pass_time(7_200)
        assert desk.get(workspace_id).error_info is None
        desk.settle(4)
        assert desk.phase(workspace_id) is Phase.RUNNING

    def test_one_that_dies_at_it_each_time_ends_in_error(self, desk: Desk, fleet: MemoryProvider) -> None:
        """A home that is too large for the function that archives it: killed, never heard of, three deadlines long."""
        workspace_id = desk.made("STANDBY")
        write(fleet, workspace_id)

        def dies(call: str) -> None:
            if call == "archives.write":
                raise Killed

        fleet.faults.before = dies
        desk.want(workspace_id, "ARCHIVED")
        for _ in range(16):
            with suppress(Killed):
                desk.look(workspace_id)
            desk.pass_time(900)
        error = desk.get(workspace_id).error_info
        assert error is not None
        assert (error.reason, error.is_terminal) == ("OperationTimeout", True)
        assert home(fleet, workspace_id) == CONTENT

    def test_a_provider_that_can_not_be_looked_at_has_shown_nothing(
        self, desk: Desk, fleet: MemoryProvider
    ) -> None:
        """WS-1: conditions stay as they are."""
        workspace_id = desk.made("RUNNING")
        before = desk.get(workspace_id)

        def away(call: str) -> None:
            if call.endswith(".observe"):
                raise ProviderUnavailable

        fleet.faults.before = away
        assert desk.look(workspace_id).outage == "workspace provider"
        desk.beat()
        desk.deliver()
        after = desk.get(workspace_id)
        assert (after.conditions, after.phase) == (before.conditions, before.phase)

    def test_cleaning_up_that_fails_once_is_done_the_next_time(
        self, desk: Desk, fleet: MemoryProvider
    ) -> None:
        """The archive is there, its volume stays for one try more: nothing is lost, nothing is left."""
        workspace_id = desk.made("RUNNING")
        write(fleet, workspace_id)
        failures = iter([OperationFailed("VolumeInUse", "Not now."), None])

        def fails_once(call: str) -> None:
            if call == "volumes.delete" and (failure := next(failures, None)) is not None:
                raise failure

        fleet.faults.before = fails_once
        desk.want(workspace_id, "ARCHIVED")
        desk.reach(workspace_id, "ARCHIVED")
        assert workspace_id not in fleet.volumes.volumes
        desk.want(workspace_id, "STANDBY")
        desk.reach(workspace_id, "STANDBY")
        assert home(fleet, workspace_id) == CONTENT

    def test_an_archive_that_arrives_cut_is_not_believed(self, desk: Desk, fleet: MemoryProvider) -> None:
        """WS-10: it is read back before anything is deleted."""
        workspace_id = desk.made("STANDBY")
        write(fleet, workspace_id)
        known = set(fleet.archives.objects)

        def cuts(call: str) -> None:
            if call == "archives.write":
                (key,) = [key for key in fleet.archives.objects if key not in known]
                fleet.archives.objects[key].content = fleet.archives.objects[key].content[:-1]

        fleet.faults.after = cuts
        desk.want(workspace_id, "ARCHIVED")
        for _ in range(10):
            desk.look(workspace_id)
            desk.pass_time(20)
        assert home(fleet, workspace_id) == CONTENT
        error = desk.get(workspace_id).error_info
        assert error is not None
        assert error.is_terminal
        assert desk.get(workspace_id).home_ctx.restore_marker is not None


class TestTwoAtOnce:
    def test_a_monitor_that_was_held_up_changes_nothing(self, desk: Desk, fleet: MemoryProvider) -> None:
        """WS-6: a stale look is refused, so that nobody decides by it."""
        workspace_id = desk.made("ARCHIVED")
        late = desk.clock()
        desk.want(workspace_id, "STANDBY")
        stale = desk.get(workspace_id)
        desk.reach(workspace_id, "STANDBY")
        with desk.database.connection() as connection, store.writing(connection, Writer.MONITOR):
            written = store.observe(connection, stale, stale.conditions, stale.phase, late)
        assert written is None
        assert desk.phase(workspace_id) is Phase.STANDBY

    def test_a_look_that_was_judged_with_another_archive_is_not_written(self, desk: Desk) -> None:
        """WS-4, WS-6: the reconciler changed what the look was judged with."""
        workspace_id = desk.made("ARCHIVED")
        judged = replace(desk.get(workspace_id), archive_key=None)
        with desk.database.connection() as connection, store.writing(connection, Writer.MONITOR):
            written = store.observe(connection, judged, judged.conditions, judged.phase, desk.clock())
        assert written is None

    def test_of_two_reconcilers_one_begins(self, desk: Desk) -> None:
        """WS-7: both read the same row."""
        workspace_id = desk.made("STANDBY")
        desk.want(workspace_id, "RUNNING")
        monitor.look(desk.database, desk.provider, workspace_id, desk.clock())
        row = desk.get(workspace_id)
        outcomes = [
            reconcile(desk.database, desk.provider, row, desk.clock, does_long=True).outcome for _ in range(2)
        ]
        assert outcomes == [Outcome.MOVED, Outcome.OVERTAKEN]
        assert desk.kinds(workspace_id).count("STARTED") == 3

    def test_of_two_reconcilers_one_acts(self, desk: Desk, fleet: MemoryProvider) -> None:
        """WS-7: a second one in the middle of the first finds the lease."""
        workspace_id = desk.made("STANDBY")
        desk.want(workspace_id, "RUNNING")
        seen: list[str] = []

        def another_looks(call: str) -> None:
            if call == "containers.start":
                seen.append(call)
                assert desk.look(workspace_id).steps == []

        fleet.faults.before = another_looks
        desk.look(workspace_id)
        assert seen == ["containers.start"]
        assert desk.phase(workspace_id) is Phase.RUNNING

    def test_one_whose_lease_is_over_writes_nothing(self, desk: Desk, fleet: MemoryProvider) -> None:
        """A process that was held up for a minute: another has done it by then."""
        workspace_id = desk.made("STANDBY")
        write(fleet, workspace_id)
        desk.want(workspace_id, "ARCHIVED")
        held_up = False

        def sleeps(call: str) -> None:
            nonlocal held_up
            if call == "archives.prove" and not held_up:
                held_up = True
                desk.pass_time(3_600)
                desk.reach(workspace_id, "ARCHIVED")
                desk.want(workspace_id, "STANDBY")
                desk.reach(workspace_id, "STANDBY")

        fleet.faults.before = sleeps
        desk.look(workspace_id)
        assert held_up
        assert home(fleet, workspace_id) == CONTENT
        desk.settle(3)
        assert desk.phase(workspace_id) is Phase.STANDBY
        assert home(fleet, workspace_id) == CONTENT

    def test_work_is_not_handed_over_once_the_operation_has_ended(self, desk: Desk) -> None:
        """Decided on a row that went on meanwhile: op_id stays, the operation doesn't."""
        workspace_id = desk.create("ARCHIVED")
        desk.look(workspace_id, does_long=False)
        decided_on = desk.get(workspace_id)
        desk.reach(workspace_id, "ARCHIVED")
        assert desk.get(workspace_id).op_id == decided_on.op_id
        assert not lease.hand_over(desk.database, decided_on, 60, desk.clock())

    def test_a_deletion_that_comes_late_takes_no_later_volume(
        self, desk: Desk, fleet: MemoryProvider
    ) -> None:
        """WS-12: it was meant for the generation that was archived, and another stands by now."""
        workspace_id = desk.made("STANDBY")
        write(fleet, workspace_id)
        desk.want(workspace_id, "ARCHIVED")
        held_up = False

        def sleeps(call: str) -> None:
            nonlocal held_up
            if call == "volumes.delete" and not held_up:
                held_up = True
                desk.pass_time(600)
                desk.reach(workspace_id, "ARCHIVED")
                desk.want(workspace_id, "STANDBY")
                desk.reach(workspace_id, "STANDBY")

        fleet.faults.before = sleeps
        desk.look(workspace_id)
        assert held_up
        assert home(fleet, workspace_id) == CONTENT

    @pytest.mark.parametrize("ends", [True, False])
    def test_a_start_that_comes_late_never_costs_what_its_container_wrote(
        self, desk: Desk, fleet: MemoryProvider, ends: bool
    ) -> None:
        """WS-12: the home was archived before it, so the volume stays; a person has it tried again."""
        workspace_id = desk.made("STANDBY")
        write(fleet, workspace_id)
        volume = fleet.volumes.volumes[workspace_id]
        assert volume is not None
        desk.want(workspace_id, "ARCHIVED")

        def starts_late(call: str) -> None:
            if call == "archives.prove":
                fleet.containers.running[workspace_id] = volume

        fleet.faults.after = starts_late
        desk.look(workspace_id)
        fleet.faults.after = lambda _: None
        write(fleet, workspace_id, b"what the late one wrote")
        if ends:
            fleet.containers.running.clear()
        desk.settle(4)
        error = desk.get(workspace_id).error_info
        assert error is not None
        assert (error.reason, error.is_terminal) == ("HomeInUse", True)
        recovery = Recovery(Way.RETRY, "operator", "once more")
        recover(recovery, workspace_id, desk.database, fleet.archives, desk.clock())
        desk.reach(workspace_id, "ARCHIVED")
        desk.want(workspace_id, "STANDBY")
        desk.reach(workspace_id, "STANDBY")
        assert home(fleet, workspace_id) == b"what the late one wrote"

    def test_what_is_wanted_no_more_does_not_begin(self, desk: Desk) -> None:
        """WS-8: its owner thought better of it after the row was read."""
        workspace_id = desk.made("ARCHIVED")
        desk.want(workspace_id, "PENDING")
        row = monitor.look(desk.database, desk.provider, workspace_id, desk.clock())
        assert row is not None
        desk.want(workspace_id, "ARCHIVED")
        done = reconcile(desk.database, desk.provider, row, desk.clock, does_long=True)
        assert (done.outcome, desk.get(workspace_id).operation) == (Outcome.OVERTAKEN, Operation.NONE)

    def test_a_workspace_has_one_look_under_way(self, desk: Desk, fleet: MemoryProvider) -> None:
        """D10: hints and chains don't multiply."""
        workspace_id = desk.made("STANDBY")

        def away(call: str) -> None:
            if call == "containers.start":
                raise ProviderUnavailable

        fleet.faults.before = away
        desk.want(workspace_id, "RUNNING")
        for _ in range(20):
            desk.want(workspace_id, "RUNNING")
            desk.deliver()
            desk.pass_time(0.5)
        assert len(desk.sqs.of(LOOKS)) <= 2


class TestDeleting:
    @pytest.mark.parametrize("phase", ["PENDING", "ARCHIVED"])
    def test_what_is_deleted_leaves_nothing_but_its_archives(
        self, desk: Desk, fleet: MemoryProvider, phase: str
    ) -> None:
        """WS-8; the archives go two hours later (WS-13)."""
        workspace_id = desk.made(phase)
        deleted = desk.delete(workspace_id)
        assert deleted.desired_state is DesiredState.DELETED
        desk.settle(3)
        found = desk.get(workspace_id)
        assert (found.phase, found.archive_key) == (Phase.DELETED, None)
        assert found.cleaned_at is not None
        assert desk.delete(workspace_id).deleted_at == deleted.deleted_at
        with pytest.raises(WorkspaceDeleted):
            desk.want(workspace_id, "RUNNING")

    @pytest.mark.parametrize("phase", ["STANDBY", "RUNNING"])
    def test_what_has_a_volume_is_stepped_down_first(self, desk: Desk, phase: str) -> None:
        """003 §5: RUNNING and STANDBY are not deleted; PENDING is, once it is there."""
        workspace_id = desk.made(phase)
        with pytest.raises(NotDeletable, match=f"It is {phase}: set desired_state"):
            desk.delete(workspace_id)
        desk.want(workspace_id, "PENDING")
        desk.reach(workspace_id, "PENDING")
        desk.delete(workspace_id)
        desk.settle(3)
        assert desk.get(workspace_id).cleaned_at is not None

    def test_nothing_is_deleted_while_something_is_done(self, desk: Desk) -> None:
        """003 §5: operation = NONE."""
        workspace_id = desk.create("ARCHIVED")
        desk.look(workspace_id, does_long=False)
        assert desk.get(workspace_id).operation is Operation.PROVISIONING
        with pytest.raises(NotDeletable, match="PROVISIONING is under way"):
            desk.delete(workspace_id)

    def test_error_is_deleted_with_all_that_is_there(self, desk: Desk, fleet: MemoryProvider) -> None:
        """003 §5: the way out of a stuck workspace; container first, volume second (WS-12)."""
        workspace_id = desk.made("RUNNING")
        with desk.database.connection() as connection, store.writing(connection, Writer.RECONCILER):
            connection.execute(
                'UPDATE workspaces SET error_info = \'{"reason": "Broken", "message": "",'
                ' "is_terminal": true, "retry_count": 3, "operation": "NONE",'
                ' "failed_at": "2026-01-01T00:00:00+00:00", "context": {}}\''
            )
        desk.settle(1)
        assert desk.phase(workspace_id) is Phase.ERROR
        calls: list[str] = []
        fleet.faults.before = calls.append
        desk.delete(workspace_id)
        desk.settle(4)
        assert desk.get(workspace_id).cleaned_at is not None
        assert (fleet.containers.running, fleet.volumes.volumes) == ({}, {})
        assert calls.index("containers.stop") < calls.index("volumes.delete")

    @pytest.mark.parametrize("fails", [None, "before", "after"])
    def test_what_an_interrupted_restore_left_goes_with_the_workspace(
        self, desk: Desk, fleet: MemoryProvider, fails: str | None
    ) -> None:
        """WS-8: it is no volume, so no look ever sees it; the provider is told to delete, seen or not."""
        workspace_id = desk.made("ARCHIVED")
        fleet.volumes.prepare(workspace_id, "of-a-restore")
        assert fleet.homes.contents

        def is_away(call: str) -> None:
            if call == "volumes.delete" and desk.seconds < 100:
                raise ProviderUnavailable

        if fails:
            setattr(fleet.faults, fails, is_away)
        desk.delete(workspace_id)
        desk.settle(8)
        assert desk.get(workspace_id).cleaned_at is not None
        assert fleet.homes.contents == {}

    def test_removing_goes_on_however_often_it_fails(self, desk: Desk, fleet: MemoryProvider) -> None:
        """Nobody looks at the error of what is deleted."""
        workspace_id = desk.made("ARCHIVED")
        fleet.volumes.volumes[workspace_id] = None
        desk.settle(6)
        assert desk.phase(workspace_id) is Phase.ERROR
        refuse = True

        def refuses(call: str) -> None:
            if call == "volumes.delete" and refuse:
                raise OperationFailed("VolumeStuck", "No.", is_terminal=True)

        fleet.faults.before = refuses
        desk.delete(workspace_id)
        desk.settle(20)
        assert desk.get(workspace_id).cleaned_at is None
        refuse = False
        desk.settle(20)
        assert desk.get(workspace_id).cleaned_at is not None
        assert fleet.volumes.volumes == {}


class TestOwners:
    def test_a_key_makes_one_workspace(self, desk: Desk) -> None:
        """A client that heard nothing sends it again."""

        def made(name: str, tenant_id: str = "t_owner") -> UUID:
            return create(
                NewWorkspace(name),
                tenant_id=tenant_id,
                request_key="the-same-key",
                limit=10,
                database=desk.database,
                looks=desk.queue(LOOKS),
            ).workspace.workspace_id

        assert made("a") == made("a")
        assert made("a") != made("a", STRANGER)
        with pytest.raises(IdempotencyConflict):
            made("b")

    def test_a_tenant_has_so_many(self, desk: Desk) -> None:
        """And those that are deleted don't count."""

        def made() -> UUID:
            return create(
                NewWorkspace("x", DesiredState.PENDING),
                tenant_id=STRANGER,
                request_key=f"key-{uuid4()}",
                limit=2,
                database=desk.database,
                looks=desk.queue(LOOKS),
            ).workspace.workspace_id

        first, _ = made(), made()
        with pytest.raises(TooManyWorkspaces):
            made()
        own.delete(own.Owner(STRANGER, desk.database, desk.queue(LOOKS)), str(first))
        assert made() != first

    @pytest.mark.parametrize("its_id", ["foreign", "unknown", "no id", "", "\x00"])
    def test_what_is_not_the_callers_has_one_answer(self, desk: Desk, its_id: str) -> None:
        """D13, as for runs."""
        known = str(desk.create())
        asked = {"foreign": known, "unknown": str(uuid4())}.get(its_id, its_id)
        stranger = own.Owner(STRANGER, desk.database, desk.queue(LOOKS))
        for does in (own.read, own.connect, own.delete, own.events):
            with pytest.raises(WorkspaceNotFound):
                does(stranger, asked)
        with pytest.raises(WorkspaceNotFound):
            own.change(stranger, asked, Change(name="mine"))
        assert own.page(stranger, phase=None, below=None, limit=10).workspaces == []

    def test_whoever_connects_wakes_it(self, desk: Desk, fleet: MemoryProvider) -> None:
        """003 §3: auto-wake, through the API."""
        workspace_id = desk.made("STANDBY")
        before = desk.get(workspace_id).last_access_at
        woken = own.connect(desk.owner, str(workspace_id), desk.clock())
        assert (woken.desired_state, woken.desired_by) == (DesiredState.RUNNING, "connect")
        assert woken.last_access_at > before
        desk.deliver()
        assert workspace_id in fleet.containers.running

    def test_what_nobody_uses_is_lowered_step_by_step(self, desk: Desk, fleet: MemoryProvider) -> None:
        """003 §3: the TTL manager, through the API; a day later nothing but the archive is left."""
        workspace_id = desk.create("RUNNING", standby_ttl_seconds=600, archive_ttl_seconds=1_200)
        desk.settle(10)
        assert desk.phase(workspace_id) is Phase.RUNNING
        write(fleet, workspace_id)
        desk.settle(20)
        found = desk.get(workspace_id)
        assert (found.phase, found.desired_by) == (Phase.STANDBY, "ttl")
        desk.settle(50)
        assert desk.phase(workspace_id) is Phase.ARCHIVED
        own.connect(desk.owner, str(workspace_id), desk.clock())
        desk.settle(3)
        assert desk.phase(workspace_id) is Phase.RUNNING
        assert home(fleet, workspace_id) == CONTENT

    def test_whoever_uses_it_keeps_it_running(self, desk: Desk) -> None:
        """The clock begins anew with each use."""
        workspace_id = desk.create("RUNNING", standby_ttl_seconds=600)
        for _ in range(10):
            desk.settle(5)
            own.connect(desk.owner, str(workspace_id), desk.clock())
        assert desk.get(workspace_id).desired_state is DesiredState.RUNNING

    def test_pages_go_through_all_of_them_once(self, desk: Desk) -> None:
        """The newest first, by cursor."""
        made = [desk.create("PENDING") for _ in range(7)]
        found, below = [], None
        for _ in range(4):
            page = own.page(desk.owner, phase=None, below=below, limit=2)
            found += [one.workspace_id for one in page.workspaces]
            below = page.below
        assert below is None
        assert found == made[::-1]


class TestClocks:
    def test_no_process_s_own_clock_decides(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        """D1: a function whose clock is a day off takes the same steps."""
        monkeypatch.setattr("time.time", lambda: 0.0)
        workspace_id = desk.create("RUNNING")
        desk.look(workspace_id)
        assert desk.phase(workspace_id) is Phase.RUNNING
        assert desk.get(workspace_id).observed_at is not None

    def test_everything_is_written_down(self, desk: Desk) -> None:
        """Events: who, what, from where to where."""
        workspace_id = desk.made("STANDBY")
        found = [
            (one.actor, one.kind, one.from_value, one.to_value)
            for one in reversed(own.events(desk.owner, str(workspace_id)))
        ]
        assert found == [
            ("owner", "CREATED", None, "STANDBY"),
            ("reconciler", "STARTED", None, "PROVISIONING"),
            ("monitor", "PHASE", "PENDING", "ARCHIVED"),
            ("reconciler", "COMPLETED", "PROVISIONING", None),
            ("reconciler", "STARTED", None, "RESTORING"),
            ("monitor", "PHASE", "ARCHIVED", "STANDBY"),
            ("reconciler", "COMPLETED", "RESTORING", None),
        ]


def test_conditions_are_the_documents(desk: Desk) -> None:
    """WS-2: names, members, and nothing else."""
    workspace_id = desk.made("RUNNING")
    ((conditions,),) = desk.rows("SELECT conditions FROM workspaces")
    assert set(conditions) == {
        "storage.volume_ready",
        "storage.archive_ready",
        "infra.memory.container_ready",
        "policy.healthy",
    }
    for one in conditions.values():
        assert set(one) == {"status", "reason", "message", "last_transition_time"}
    assert conditions["storage.volume_ready"]["reason"] == "VolumeProvisioned"
    assert desk.get(workspace_id).archive_ready


def test_a_writer_that_is_not_one_is_met_by_the_database(desk: Desk) -> None:
    """WS-6: the monitor's own module can't write what is the reconciler's."""
    desk.create()
    with (
        desk.database.connection() as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
        store.writing(connection, Writer.MONITOR),
    ):
        connection.execute("UPDATE workspaces SET operation = 'NONE'")


def test_a_look_needs_an_answer_for_each_workspace(desk: Desk, fleet: MemoryProvider) -> None:
    """Contradictions are looked at once more: the two looks are not one (WS-9)."""
    workspace_id = desk.made("RUNNING")
    real = fleet.volumes.observe
    answers = iter([{workspace_id: Seen(False, "VolumeNotFound", "")}])

    def first_away(ids: list[UUID]) -> object:
        return next(answers, None) or real(ids)

    fleet.volumes.observe = first_away  # type: ignore[method-assign,assignment]
    desk.look(workspace_id)
    assert desk.phase(workspace_id) is Phase.RUNNING
    assert "ERROR" not in str(own.events(desk.owner, str(workspace_id)))
