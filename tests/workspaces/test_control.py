"""From what is wanted to what is there: looks, steps, faults from outside, and what is told of them (WS-1 … WS-12)."""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from uuid import UUID, uuid4

import psycopg
import pytest

from dpp.workspaces import store
from dpp.workspaces.api import owner as owner_api
from dpp.workspaces.api.create import NewWorkspace, create
from dpp.workspaces.control import lease, monitor
from dpp.workspaces.control.planner import LOSS_GRACE_SECONDS, SETTLE_SECONDS
from dpp.workspaces.control.reconcile import Outcome, reconcile
from dpp.workspaces.control.recover import Recovery, RecoveryMethod, recover
from dpp.workspaces.errors import (
    IdempotencyConflict,
    NotDeletable,
    OperationFailed,
    ProviderUnavailable,
    TooManyWorkspaces,
    WorkspaceDeleted,
    WorkspaceNotFound,
)
from dpp.workspaces.machine import REQUESTABLE_STATES
from dpp.workspaces.model import DesiredState, Operation, Phase
from dpp.workspaces.ports import Observation
from dpp.workspaces.store import Change, Writer
from tests.support.crash_points import Killed
from tests.workspaces.environment import LOOKS, STRANGER, WORKS, Environment
from tests.workspaces.memory_provider import MemoryProvider

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
    def test_a_new_workspace_runs_with_an_empty_home(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-8: by PROVISIONING, RESTORING, STARTING, each a neighbour further, in one look."""
        workspace_id = env.create("RUNNING")
        env.observe(workspace_id)
        assert env.phase(workspace_id) is Phase.RUNNING
        assert home(fleet, workspace_id) == b""
        begun = env.rows("SELECT to_value FROM workspace_events WHERE kind = 'STARTED' ORDER BY event_id")
        assert [row[0] for row in begun] == ["PROVISIONING", "RESTORING", "STARTING"]

    @pytest.mark.parametrize("end", REQUESTABLE_STATES)
    @pytest.mark.parametrize("start", REQUESTABLE_STATES)
    def test_a_home_goes_the_whole_way_and_back(
        self, env: Environment, fleet: MemoryProvider, start: str, end: str
    ) -> None:
        """WS-8, WS-10: whatever is wanted, and nothing of it is lost unless it is to be."""
        workspace_id = env.create_in("RUNNING")
        write(fleet, workspace_id)
        for wanted in (start, end):
            env.set_desired_state(workspace_id, wanted)
            env.drive_to(workspace_id, wanted)
        env.set_desired_state(workspace_id, "STANDBY")
        env.drive_to(workspace_id, "STANDBY")
        kept = "PENDING" not in {start, end}
        assert home(fleet, workspace_id) == (CONTENT if kept else b"")

    def test_long_work_is_done_by_who_has_the_time(self, env: Environment) -> None:
        """And handed over once a minute, not at each look."""
        workspace_id = env.create("ARCHIVED")
        for _ in range(3):
            env.observe(workspace_id, does_long_work=False)
            env.pass_time(2)
        assert env.phase(workspace_id) is Phase.PENDING
        assert len(env.sqs.of(WORKS)) == 1
        env.pass_time(60)
        env.observe(workspace_id, does_long_work=False)
        assert len(env.sqs.of(WORKS)) == 2
        env.deliver()
        assert env.phase(workspace_id) is Phase.ARCHIVED

    def test_a_wish_that_changes_in_the_middle_waits_for_the_end(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-7: an operation is not cut off; the next one goes the other way."""
        workspace_id = env.create_in("RUNNING")
        write(fleet, workspace_id)
        env.set_desired_state(workspace_id, "ARCHIVED")

        def changes_its_mind(call: str) -> None:
            if call == "archives.write":
                fleet.faults.before = lambda _: None
                env.set_desired_state(workspace_id, "RUNNING")

        fleet.faults.before = changes_its_mind
        env.observe(workspace_id)
        env.drive_to(workspace_id, "RUNNING")
        assert home(fleet, workspace_id) == CONTENT
        ended = env.rows("SELECT from_value FROM workspace_events WHERE kind = 'COMPLETED' ORDER BY event_id")
        assert [row[0] for row in ended][-4:] == ["STOPPING", "ARCHIVING", "RESTORING", "STARTING"]

    def test_a_rename_touches_nothing_that_is_named_by_the_id(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-9: names of people are none of the provider's."""
        workspace_id = env.create_in("RUNNING")
        calls: list[str] = []
        fleet.faults.before = calls.append
        owner_api.change(env.owner, str(workspace_id), Change(name="another"), env.clock())
        env.run_ticks(2)
        assert env.get(workspace_id).name == "another"
        assert {call.partition(".")[2] for call in calls} <= {"observe", "head"}
        assert "RENAMED" in env.kinds(workspace_id)


class TestFromOutside:
    def test_a_container_that_was_killed_is_started_again(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-1: what is there counts, not what was done once."""
        workspace_id = env.create_in("RUNNING")
        fleet.containers.running.clear()
        env.run_ticks(4)
        assert workspace_id in fleet.containers.running
        assert env.phase(workspace_id) is Phase.RUNNING

    def test_container_that_keeps_ending_is_restarted_with_backoff(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-14: a condition that flaps costs a start in five minutes, not one each look."""
        workspace_id = env.create_in("RUNNING")
        starts = 0
        for _ in range(900 // 5):
            if fleet.containers.running.pop(workspace_id, None) is not None:
                starts += 1
            env.observe(workspace_id)
            env.pass_time(5)
        assert 5 <= starts <= 12

    def test_a_container_started_by_somebody_is_stopped(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """Level-triggered (WS-5): wherever it comes from."""
        workspace_id = env.create_in("STANDBY")
        volume = fleet.volumes.volumes[workspace_id]
        assert volume is not None
        fleet.containers.running[workspace_id] = volume
        env.run_ticks(4)
        assert workspace_id not in fleet.containers.running

    @pytest.mark.parametrize("wanted", ["STANDBY", "ARCHIVED", "PENDING"])
    def test_a_volume_that_vanished_is_never_replaced_unasked(
        self, env: Environment, fleet: MemoryProvider, wanted: str
    ) -> None:
        """The issue's first fear: an empty home, or an older one, where a home was."""
        workspace_id = env.create_in("STANDBY")
        del fleet.volumes.volumes[workspace_id]
        env.set_desired_state(workspace_id, wanted)
        env.run_ticks(20)
        found = env.get(workspace_id)
        assert found.phase is Phase.ERROR
        assert found.error_info is not None
        assert (found.error_info.reason, found.error_info.is_terminal) == ("DataLost", True)
        assert workspace_id not in fleet.volumes.volumes

    def test_a_volume_that_vanished_from_under_a_container_is_an_error(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-4: ContainerWithoutVolume; and once the container is gone, too, the home is lost."""
        workspace_id = env.create_in("RUNNING")
        del fleet.volumes.volumes[workspace_id]
        env.run_ticks(2)
        found = env.get(workspace_id)
        assert found.conditions["policy.healthy"].reason == "ContainerWithoutVolume"
        fleet.containers.running.clear()
        env.run_ticks(3)
        error = env.get(workspace_id).error_info
        assert error is not None
        assert error.reason == "DataLost"

    def test_a_volume_that_is_not_seen_for_a_moment_is_no_loss(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """A condition that flaps."""
        workspace_id = env.create_in("STANDBY")
        volume = fleet.volumes.volumes.pop(workspace_id)
        for _ in range(4):
            env.observe(workspace_id)
            env.pass_time(LOSS_GRACE_SECONDS / 5)
        fleet.volumes.volumes[workspace_id] = volume
        env.run_ticks(3)
        assert env.phase(workspace_id) is Phase.STANDBY
        assert env.get(workspace_id).error_info is None

    @pytest.mark.parametrize("what", ["gone", "altered", "cut", "expired"])
    def test_an_archive_that_can_not_be_had_is_an_error(
        self, env: Environment, fleet: MemoryProvider, what: str
    ) -> None:
        """WS-2, WS-4: before anybody asks for it."""
        workspace_id = env.create_in("ARCHIVED")
        key = env.get(workspace_id).archive_key
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
                stored.expires_at = env.clock() - timedelta(seconds=1)
        env.observe(workspace_id)
        found = env.get(workspace_id)
        reasons = {
            "gone": "ArchiveNotFound",
            "altered": "ArchiveCorrupted",
            "cut": "ArchiveCorrupted",
            "expired": "ArchiveExpired",
        }
        assert found.phase is Phase.ERROR
        assert found.conditions["storage.archive_ready"].reason == reasons[what]
        assert found.conditions["policy.healthy"].reason == "ArchiveAccessError"
        env.set_desired_state(workspace_id, "RUNNING")
        env.run_ticks(4)
        assert workspace_id not in fleet.volumes.volumes

    def test_an_operation_ends_where_its_provider_was_away_and_its_archive_is_lost(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-14: in ERROR nobody asks the provider again, so what waits for that must end by its deadline.

        Else the operation is under way for ever: nobody may recover the workspace, and nobody delete it.
        """
        workspace_id = env.create_in("STANDBY")
        write(fleet, workspace_id)
        key = env.get(workspace_id).archive_key
        assert key is not None

        def is_away(call: str) -> None:
            if call == "archives.write":
                raise ProviderUnavailable

        fleet.faults.before = is_away
        env.set_desired_state(workspace_id, "ARCHIVED")
        env.observe(workspace_id)
        assert env.get(workspace_id).next_attempt_at is not None
        del fleet.archives.objects[key]
        env.run_ticks(4)
        assert env.get(workspace_id).operation is Operation.ARCHIVING
        env.pass_time(3_600)
        env.run_ticks(2)
        found = env.get(workspace_id)
        assert (found.operation, found.phase) == (Operation.NONE, Phase.ERROR)
        assert home(fleet, workspace_id) == CONTENT
        fleet.faults.before = lambda _: None
        recovery = Recovery(
            RecoveryMethod.KEEP_VOLUME, "operator", "the archive is lost, and the home stands"
        )
        recover(recovery, workspace_id, env.database, fleet.archives, env.clock())
        env.drive_to(workspace_id, "ARCHIVED")

    def test_a_volume_that_nobody_made_is_left_for_a_person(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """003 §7: no marker, no start, and nothing covers it."""
        workspace_id = env.create_in("ARCHIVED")
        fleet.volumes.volumes[workspace_id] = None
        env.set_desired_state(workspace_id, "RUNNING")
        env.run_ticks(6)
        found = env.get(workspace_id)
        assert found.error_info is not None
        assert found.error_info.reason == "VolumeUnproven"
        assert workspace_id not in fleet.containers.running


class TestActuators:
    def test_one_that_says_so_and_does_nothing_is_asked_again(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-1: success that can't be seen is none; and it ends in ERROR, not in a lie."""
        workspace_id = env.create_in("STANDBY")
        asked = 0
        real = fleet.containers.running

        class Forgetful(dict[UUID, object]):
            def __setitem__(self, key: UUID, value: object) -> None:
                nonlocal asked
                asked += 1

        fleet.containers.running = Forgetful()  # type: ignore[assignment]
        env.set_desired_state(workspace_id, "RUNNING")
        for _ in range(20):
            env.observe(workspace_id)
            env.pass_time(2)
        assert 2 <= asked <= 40 / SETTLE_SECONDS + 1
        assert env.get(workspace_id).operation is Operation.STARTING
        for _ in range(60):
            env.observe(workspace_id)
            env.pass_time(20)
        error = env.get(workspace_id).error_info
        assert error is not None
        assert (error.reason, error.is_terminal, error.retry_count) == ("OperationTimeout", True, 3)
        assert real == {}

    def test_one_that_fails_and_does_it_is_believed_by_what_is_seen(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-1, WS-14: even the third time."""
        workspace_id = env.create_in("STANDBY")

        def lies(call: str) -> None:
            if call == "containers.start":
                raise OperationFailed("Lied", "It says that it failed.")

        fleet.faults.after = lies
        env.set_desired_state(workspace_id, "RUNNING")
        env.observe(workspace_id)
        assert env.phase(workspace_id) is Phase.RUNNING
        assert env.get(workspace_id).error_info is None

    def test_one_that_fails_three_times_is_an_error_at_once(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-14: short retries are immediate; the operation is reset, its id stays (WS-7)."""
        workspace_id = env.create_in("STANDBY")
        calls = 0

        def fails(call: str) -> None:
            nonlocal calls
            if call == "containers.start":
                calls += 1
                raise OperationFailed("ImageMissing", "There is no such image.")

        fleet.faults.before = fails
        env.set_desired_state(workspace_id, "RUNNING")
        env.observe(workspace_id)
        found = env.get(workspace_id)
        assert calls == 3
        assert found.phase is Phase.ERROR
        assert found.operation is Operation.NONE
        assert found.op_id is not None
        assert found.conditions["policy.healthy"].reason == "ImageMissing"
        assert found.volume_ready  # 003 §4: conditions are not frozen
        assert env.kinds(workspace_id)[-4:] == ["RETRYING", "RETRYING", "FAILED", "PHASE"]

    def test_one_that_says_that_it_never_will_is_not_asked_again(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-14: is_terminal."""
        workspace_id = env.create_in("STANDBY")

        def fails(call: str) -> None:
            if call == "containers.start":
                raise OperationFailed("NeverAgain", "No.", is_terminal=True)

        fleet.faults.before = fails
        env.set_desired_state(workspace_id, "RUNNING")
        env.observe(workspace_id)
        error = env.get(workspace_id).error_info
        assert error is not None
        assert (error.reason, error.retry_count) == ("NeverAgain", 1)

    def test_an_outage_is_no_failure(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-14: 1 s, 2 s, 4 s … five minutes, for as long as it takes; nothing is held against the operation."""
        workspace_id = env.create_in("STANDBY")
        asked: list[float] = []

        def away(call: str) -> None:
            if call == "containers.start":
                asked.append(env.clock.seconds)
                raise ProviderUnavailable

        fleet.faults.before = away
        env.set_desired_state(workspace_id, "RUNNING")
        while env.clock.seconds < 1_500:
            env.observe(workspace_id)
            env.pass_time(1)
        waits = [after - before for before, after in pairwise(asked)]
        for wait, expected in zip(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300], strict=False):
            assert expected <= wait <= expected + 3
        assert len(waits) >= 8
        assert env.get(workspace_id).error_info is None
        env.pass_time(300)
        assert env.observe(workspace_id).outage == "workspace provider"  # which is measured
        fleet.faults.before = lambda _: None
        env.run_ticks(12)
        assert env.phase(workspace_id) is Phase.RUNNING
        assert env.get(workspace_id).error_count == 0

    def test_what_nobody_tried_is_not_late(self, env: Environment) -> None:
        """WS-14: the platform's own hours of silence are not held against an operation."""
        workspace_id = env.create("RUNNING")
        for _ in range(4):
            env.observe(workspace_id, does_long_work=False)
            env.pass_time(7_200)
        assert env.get(workspace_id).error_info is None
        env.run_ticks(4)
        assert env.phase(workspace_id) is Phase.RUNNING

    def test_one_that_dies_at_it_each_time_ends_in_error(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """A home that is too large for the function that archives it: killed, never heard of, three deadlines long."""
        workspace_id = env.create_in("STANDBY")
        write(fleet, workspace_id)

        def dies(call: str) -> None:
            if call == "archives.write":
                raise Killed

        fleet.faults.before = dies
        env.set_desired_state(workspace_id, "ARCHIVED")
        for _ in range(16):
            with suppress(Killed):
                env.observe(workspace_id)
            env.pass_time(900)
        error = env.get(workspace_id).error_info
        assert error is not None
        assert (error.reason, error.is_terminal) == ("OperationTimeout", True)
        assert home(fleet, workspace_id) == CONTENT

    def test_a_provider_that_can_not_be_looked_at_has_shown_nothing(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-1: conditions stay as they are."""
        workspace_id = env.create_in("RUNNING")
        before = env.get(workspace_id)

        def away(call: str) -> None:
            if call.endswith(".observe"):
                raise ProviderUnavailable

        fleet.faults.before = away
        assert env.observe(workspace_id).outage == "workspace provider"
        env.tick()
        env.deliver()
        after = env.get(workspace_id)
        assert (after.conditions, after.phase) == (before.conditions, before.phase)

    def test_cleaning_up_that_fails_once_is_done_the_next_time(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """The archive is there, its volume stays for one try more: nothing is lost, nothing is left."""
        workspace_id = env.create_in("RUNNING")
        write(fleet, workspace_id)
        failures = iter([OperationFailed("VolumeInUse", "Not now."), None])

        def fails_once(call: str) -> None:
            if call == "volumes.delete" and (failure := next(failures, None)) is not None:
                raise failure

        fleet.faults.before = fails_once
        env.set_desired_state(workspace_id, "ARCHIVED")
        env.drive_to(workspace_id, "ARCHIVED")
        assert workspace_id not in fleet.volumes.volumes
        env.set_desired_state(workspace_id, "STANDBY")
        env.drive_to(workspace_id, "STANDBY")
        assert home(fleet, workspace_id) == CONTENT

    def test_an_archive_that_arrives_cut_is_not_believed(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-10: it is read back before anything is deleted."""
        workspace_id = env.create_in("STANDBY")
        write(fleet, workspace_id)
        known = set(fleet.archives.objects)

        def cuts(call: str) -> None:
            if call == "archives.write":
                (key,) = [key for key in fleet.archives.objects if key not in known]
                fleet.archives.objects[key].content = fleet.archives.objects[key].content[:-1]

        fleet.faults.after = cuts
        env.set_desired_state(workspace_id, "ARCHIVED")
        for _ in range(10):
            env.observe(workspace_id)
            env.pass_time(20)
        assert home(fleet, workspace_id) == CONTENT
        error = env.get(workspace_id).error_info
        assert error is not None
        assert error.is_terminal
        assert env.get(workspace_id).home_ctx.restore_marker is not None


class TestTwoAtOnce:
    def test_a_monitor_that_was_held_up_changes_nothing(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-6: a stale look is refused, so that nobody decides by it."""
        workspace_id = env.create_in("ARCHIVED")
        late = env.clock()
        env.set_desired_state(workspace_id, "STANDBY")
        stale = env.get(workspace_id)
        env.drive_to(workspace_id, "STANDBY")
        with env.database.connection() as connection, store.writing(connection, Writer.MONITOR):
            written = store.record_observation(connection, stale, stale.conditions, stale.phase, late)
        assert written is None
        assert env.phase(workspace_id) is Phase.STANDBY

    def test_a_look_that_was_judged_with_another_archive_is_not_written(self, env: Environment) -> None:
        """WS-4, WS-6: the reconciler changed what the look was judged with."""
        workspace_id = env.create_in("ARCHIVED")
        judged = replace(env.get(workspace_id), archive_key=None)
        with env.database.connection() as connection, store.writing(connection, Writer.MONITOR):
            written = store.record_observation(
                connection, judged, judged.conditions, judged.phase, env.clock()
            )
        assert written is None

    def test_of_two_reconcilers_one_begins(self, env: Environment) -> None:
        """WS-7: both read the same row."""
        workspace_id = env.create_in("STANDBY")
        env.set_desired_state(workspace_id, "RUNNING")
        monitor.observe(env.database, env.provider, workspace_id, env.clock())
        row = env.get(workspace_id)
        outcomes = [
            reconcile(env.database, env.provider, row, env.clock, does_long_work=True).outcome
            for _ in range(2)
        ]
        assert outcomes == [Outcome.MOVED, Outcome.OVERTAKEN]
        assert env.kinds(workspace_id).count("STARTED") == 3

    def test_of_two_reconcilers_one_acts(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-7: a second one in the middle of the first finds the lease."""
        workspace_id = env.create_in("STANDBY")
        env.set_desired_state(workspace_id, "RUNNING")
        seen: list[str] = []

        def another_looks(call: str) -> None:
            if call == "containers.start":
                seen.append(call)
                assert env.observe(workspace_id).steps == []

        fleet.faults.before = another_looks
        env.observe(workspace_id)
        assert seen == ["containers.start"]
        assert env.phase(workspace_id) is Phase.RUNNING

    def test_one_whose_lease_is_over_writes_nothing(self, env: Environment, fleet: MemoryProvider) -> None:
        """A process that was held up for a minute: another has done it by then."""
        workspace_id = env.create_in("STANDBY")
        write(fleet, workspace_id)
        env.set_desired_state(workspace_id, "ARCHIVED")
        held_up = False

        def sleeps(call: str) -> None:
            nonlocal held_up
            if call == "archives.write_proof" and not held_up:
                held_up = True
                env.pass_time(3_600)
                env.drive_to(workspace_id, "ARCHIVED")
                env.set_desired_state(workspace_id, "STANDBY")
                env.drive_to(workspace_id, "STANDBY")

        fleet.faults.before = sleeps
        env.observe(workspace_id)
        assert held_up
        assert home(fleet, workspace_id) == CONTENT
        env.run_ticks(3)
        assert env.phase(workspace_id) is Phase.STANDBY
        assert home(fleet, workspace_id) == CONTENT

    def test_work_is_not_handed_over_once_the_operation_has_ended(self, env: Environment) -> None:
        """Decided on a row that went on meanwhile: op_id stays, the operation doesn't."""
        workspace_id = env.create("ARCHIVED")
        env.observe(workspace_id, does_long_work=False)
        decided_on = env.get(workspace_id)
        env.drive_to(workspace_id, "ARCHIVED")
        assert env.get(workspace_id).op_id == decided_on.op_id
        assert not lease.hand_over(env.database, decided_on, 60, env.clock())

    def test_a_deletion_that_comes_late_takes_no_later_volume(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-12: it was meant for the generation that was archived, and another stands by now."""
        workspace_id = env.create_in("STANDBY")
        write(fleet, workspace_id)
        env.set_desired_state(workspace_id, "ARCHIVED")
        held_up = False

        def sleeps(call: str) -> None:
            nonlocal held_up
            if call == "volumes.delete" and not held_up:
                held_up = True
                env.pass_time(600)
                env.drive_to(workspace_id, "ARCHIVED")
                env.set_desired_state(workspace_id, "STANDBY")
                env.drive_to(workspace_id, "STANDBY")

        fleet.faults.before = sleeps
        env.observe(workspace_id)
        assert held_up
        assert home(fleet, workspace_id) == CONTENT

    @pytest.mark.parametrize("ends", [True, False])
    def test_a_start_that_comes_late_never_costs_what_its_container_wrote(
        self, env: Environment, fleet: MemoryProvider, ends: bool
    ) -> None:
        """WS-12: the home was archived before it, so the volume stays; a person has it tried again."""
        workspace_id = env.create_in("STANDBY")
        write(fleet, workspace_id)
        volume = fleet.volumes.volumes[workspace_id]
        assert volume is not None
        env.set_desired_state(workspace_id, "ARCHIVED")

        def starts_late(call: str) -> None:
            if call == "archives.write_proof":
                fleet.containers.running[workspace_id] = volume

        fleet.faults.after = starts_late
        env.observe(workspace_id)
        fleet.faults.after = lambda _: None
        write(fleet, workspace_id, b"what the late one wrote")
        if ends:
            fleet.containers.running.clear()
        env.run_ticks(4)
        error = env.get(workspace_id).error_info
        assert error is not None
        assert (error.reason, error.is_terminal) == ("HomeInUse", True)
        recovery = Recovery(RecoveryMethod.RETRY, "operator", "once more")
        recover(recovery, workspace_id, env.database, fleet.archives, env.clock())
        env.drive_to(workspace_id, "ARCHIVED")
        env.set_desired_state(workspace_id, "STANDBY")
        env.drive_to(workspace_id, "STANDBY")
        assert home(fleet, workspace_id) == b"what the late one wrote"

    def test_what_is_wanted_no_more_does_not_begin(self, env: Environment) -> None:
        """WS-8: its owner thought better of it after the row was read."""
        workspace_id = env.create_in("ARCHIVED")
        env.set_desired_state(workspace_id, "PENDING")
        row = monitor.observe(env.database, env.provider, workspace_id, env.clock())
        assert row is not None
        env.set_desired_state(workspace_id, "ARCHIVED")
        done = reconcile(env.database, env.provider, row, env.clock, does_long_work=True)
        assert (done.outcome, env.get(workspace_id).operation) == (Outcome.OVERTAKEN, Operation.NONE)

    def test_a_workspace_has_one_look_under_way(self, env: Environment, fleet: MemoryProvider) -> None:
        """D10: hints and chains don't multiply."""
        workspace_id = env.create_in("STANDBY")

        def away(call: str) -> None:
            if call == "containers.start":
                raise ProviderUnavailable

        fleet.faults.before = away
        env.set_desired_state(workspace_id, "RUNNING")
        for _ in range(20):
            env.set_desired_state(workspace_id, "RUNNING")
            env.deliver()
            env.pass_time(0.5)
        assert len(env.sqs.of(LOOKS)) <= 2


class TestDeleting:
    @pytest.mark.parametrize("phase", ["PENDING", "ARCHIVED"])
    def test_what_is_deleted_leaves_nothing_but_its_archives(
        self, env: Environment, fleet: MemoryProvider, phase: str
    ) -> None:
        """WS-8; the archives go two hours later (WS-13)."""
        workspace_id = env.create_in(phase)
        deleted = env.delete(workspace_id)
        assert deleted.desired_state is DesiredState.DELETED
        env.run_ticks(3)
        found = env.get(workspace_id)
        assert (found.phase, found.archive_key) == (Phase.DELETED, None)
        assert found.cleaned_at is not None
        assert env.delete(workspace_id).deleted_at == deleted.deleted_at
        with pytest.raises(WorkspaceDeleted):
            env.set_desired_state(workspace_id, "RUNNING")

    @pytest.mark.parametrize("phase", ["STANDBY", "RUNNING"])
    def test_what_has_a_volume_is_stepped_down_first(self, env: Environment, phase: str) -> None:
        """003 §5: RUNNING and STANDBY are not deleted; PENDING is, once it is there."""
        workspace_id = env.create_in(phase)
        with pytest.raises(NotDeletable, match=f"The workspace is {phase}: set desired_state"):
            env.delete(workspace_id)
        env.set_desired_state(workspace_id, "PENDING")
        env.drive_to(workspace_id, "PENDING")
        env.delete(workspace_id)
        env.run_ticks(3)
        assert env.get(workspace_id).cleaned_at is not None

    def test_nothing_is_deleted_while_something_is_done(self, env: Environment) -> None:
        """003 §5: operation = NONE."""
        workspace_id = env.create("ARCHIVED")
        env.observe(workspace_id, does_long_work=False)
        assert env.get(workspace_id).operation is Operation.PROVISIONING
        with pytest.raises(NotDeletable, match="PROVISIONING is under way"):
            env.delete(workspace_id)

    def test_error_is_deleted_with_all_that_is_there(self, env: Environment, fleet: MemoryProvider) -> None:
        """003 §5: the way out of a stuck workspace; container first, volume second (WS-12)."""
        workspace_id = env.create_in("RUNNING")
        with env.database.connection() as connection, store.writing(connection, Writer.RECONCILER):
            connection.execute(
                'UPDATE workspaces SET error_info = \'{"reason": "Broken", "message": "",'
                ' "is_terminal": true, "retry_count": 3, "operation": "NONE",'
                ' "failed_at": "2026-01-01T00:00:00+00:00", "context": {}}\''
            )
        env.run_ticks(1)
        assert env.phase(workspace_id) is Phase.ERROR
        calls: list[str] = []
        fleet.faults.before = calls.append
        env.delete(workspace_id)
        env.run_ticks(4)
        assert env.get(workspace_id).cleaned_at is not None
        assert (fleet.containers.running, fleet.volumes.volumes) == ({}, {})
        assert calls.index("containers.stop") < calls.index("volumes.delete")

    @pytest.mark.parametrize("fails", [None, "before", "after"])
    def test_what_an_interrupted_restore_left_goes_with_the_workspace(
        self, env: Environment, fleet: MemoryProvider, fails: str | None
    ) -> None:
        """WS-8: it is no volume, so no look ever sees it; the provider is told to delete, seen or not."""
        workspace_id = env.create_in("ARCHIVED")
        fleet.volumes.prepare(workspace_id, "of-a-restore")
        assert fleet.homes.contents

        def is_away(call: str) -> None:
            if call == "volumes.delete" and env.clock.seconds < 100:
                raise ProviderUnavailable

        if fails:
            setattr(fleet.faults, fails, is_away)
        env.delete(workspace_id)
        env.run_ticks(8)
        assert env.get(workspace_id).cleaned_at is not None
        assert fleet.homes.contents == {}

    def test_removing_goes_on_however_often_it_fails(self, env: Environment, fleet: MemoryProvider) -> None:
        """Nobody looks at the error of what is deleted."""
        workspace_id = env.create_in("ARCHIVED")
        fleet.volumes.volumes[workspace_id] = None
        env.run_ticks(6)
        assert env.phase(workspace_id) is Phase.ERROR
        refuse = True

        def refuses(call: str) -> None:
            if call == "volumes.delete" and refuse:
                raise OperationFailed("VolumeStuck", "No.", is_terminal=True)

        fleet.faults.before = refuses
        env.delete(workspace_id)
        env.run_ticks(20)
        assert env.get(workspace_id).cleaned_at is None
        refuse = False
        env.run_ticks(20)
        assert env.get(workspace_id).cleaned_at is not None
        assert fleet.volumes.volumes == {}


class TestOwners:
    def test_a_key_makes_one_workspace(self, env: Environment) -> None:
        """A client that heard nothing sends it again."""

        def made(name: str, tenant_id: str = "t_owner") -> UUID:
            return create(
                NewWorkspace(name),
                tenant_id=tenant_id,
                request_key="the-same-key",
                limit=10,
                database=env.database,
                observe_queue=env.queue(LOOKS),
            ).workspace.workspace_id

        assert made("a") == made("a")
        assert made("a") != made("a", STRANGER)
        with pytest.raises(IdempotencyConflict):
            made("b")

    def test_a_tenant_has_so_many(self, env: Environment) -> None:
        """And those that are deleted don't count."""

        def made() -> UUID:
            return create(
                NewWorkspace("x", DesiredState.PENDING),
                tenant_id=STRANGER,
                request_key=f"key-{uuid4()}",
                limit=2,
                database=env.database,
                observe_queue=env.queue(LOOKS),
            ).workspace.workspace_id

        first, _ = made(), made()
        with pytest.raises(TooManyWorkspaces):
            made()
        owner_api.delete(owner_api.Owner(STRANGER, env.database, env.queue(LOOKS)), str(first))
        assert made() != first

    @pytest.mark.parametrize("its_id", ["foreign", "unknown", "no id", "", "\x00"])
    def test_what_is_not_the_callers_has_one_answer(self, env: Environment, its_id: str) -> None:
        """D13, as for runs."""
        known = str(env.create())
        asked = {"foreign": known, "unknown": str(uuid4())}.get(its_id, its_id)
        stranger = owner_api.Owner(STRANGER, env.database, env.queue(LOOKS))
        for does in (owner_api.read, owner_api.connect, owner_api.delete, owner_api.list_events):
            with pytest.raises(WorkspaceNotFound):
                does(stranger, asked)
        with pytest.raises(WorkspaceNotFound):
            owner_api.change(stranger, asked, Change(name="mine"))
        assert owner_api.list_page(stranger, phase=None, below=None, limit=10).workspaces == []

    def test_whoever_connects_wakes_it(self, env: Environment, fleet: MemoryProvider) -> None:
        """003 §3: auto-wake, through the API."""
        workspace_id = env.create_in("STANDBY")
        before = env.get(workspace_id).last_access_at
        woken = owner_api.connect(env.owner, str(workspace_id), env.clock())
        assert (woken.desired_state, woken.desired_by) == (DesiredState.RUNNING, "connect")
        assert woken.last_access_at > before
        env.deliver()
        assert workspace_id in fleet.containers.running

    def test_what_nobody_uses_is_lowered_step_by_step(self, env: Environment, fleet: MemoryProvider) -> None:
        """003 §3: the TTL manager, through the API; a day later nothing but the archive is left."""
        workspace_id = env.create("RUNNING", standby_ttl_seconds=600, archive_ttl_seconds=1_200)
        env.run_ticks(10)
        assert env.phase(workspace_id) is Phase.RUNNING
        write(fleet, workspace_id)
        env.run_ticks(20)
        found = env.get(workspace_id)
        assert (found.phase, found.desired_by) == (Phase.STANDBY, "ttl")
        env.run_ticks(50)
        assert env.phase(workspace_id) is Phase.ARCHIVED
        owner_api.connect(env.owner, str(workspace_id), env.clock())
        env.run_ticks(3)
        assert env.phase(workspace_id) is Phase.RUNNING
        assert home(fleet, workspace_id) == CONTENT

    def test_whoever_uses_it_keeps_it_running(self, env: Environment) -> None:
        """The clock begins anew with each use."""
        workspace_id = env.create("RUNNING", standby_ttl_seconds=600)
        for _ in range(10):
            env.run_ticks(5)
            owner_api.connect(env.owner, str(workspace_id), env.clock())
        assert env.get(workspace_id).desired_state is DesiredState.RUNNING

    def test_pages_go_through_all_of_them_once(self, env: Environment) -> None:
        """The newest first, by cursor."""
        made = [env.create("PENDING") for _ in range(7)]
        found, below = [], None
        for _ in range(4):
            page = owner_api.list_page(env.owner, phase=None, below=below, limit=2)
            found += [one.workspace_id for one in page.workspaces]
            below = page.below
        assert below is None
        assert found == made[::-1]


class TestClocks:
    def test_no_process_s_own_clock_decides(self, env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
        """D1: a function whose clock is a day off takes the same steps."""
        monkeypatch.setattr("time.time", lambda: 0.0)
        workspace_id = env.create("RUNNING")
        env.observe(workspace_id)
        assert env.phase(workspace_id) is Phase.RUNNING
        assert env.get(workspace_id).observed_at is not None

    def test_everything_is_written_down(self, env: Environment) -> None:
        """Events: who, what, from where to where."""
        workspace_id = env.create_in("STANDBY")
        found = [
            (one.actor, one.kind, one.from_value, one.to_value)
            for one in reversed(owner_api.list_events(env.owner, str(workspace_id)))
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


def test_conditions_are_the_documents(env: Environment) -> None:
    """WS-2: names, members, and nothing else."""
    workspace_id = env.create_in("RUNNING")
    ((conditions,),) = env.rows("SELECT conditions FROM workspaces")
    assert set(conditions) == {
        "storage.volume_ready",
        "storage.archive_ready",
        "infra.memory.container_ready",
        "policy.healthy",
    }
    for one in conditions.values():
        assert set(one) == {"status", "reason", "message", "last_transition_time"}
    assert conditions["storage.volume_ready"]["reason"] == "VolumeProvisioned"
    assert env.get(workspace_id).archive_ready


def test_a_writer_that_is_not_one_is_met_by_the_database(env: Environment) -> None:
    """WS-6: the monitor's own module can't write what is the reconciler's."""
    env.create()
    with (
        env.database.connection() as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
        store.writing(connection, Writer.MONITOR),
    ):
        connection.execute("UPDATE workspaces SET operation = 'NONE'")


def test_a_look_needs_an_answer_for_each_workspace(env: Environment, fleet: MemoryProvider) -> None:
    """Contradictions are looked at once more: the two looks are not one (WS-9)."""
    workspace_id = env.create_in("RUNNING")
    real = fleet.volumes.observe
    answers = iter([{workspace_id: Observation(False, "VolumeNotFound", "")}])

    def first_away(ids: list[UUID]) -> object:
        return next(answers, None) or real(ids)

    fleet.volumes.observe = first_away  # type: ignore[method-assign,assignment]
    env.observe(workspace_id)
    assert env.phase(workspace_id) is Phase.RUNNING
    assert "ERROR" not in str(owner_api.list_events(env.owner, str(workspace_id)))
