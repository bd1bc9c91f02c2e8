"""From the desired state to the observed one: steps, outside changes, failures and races (WS-1 … WS-12)."""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from uuid import UUID, uuid4

import psycopg
import pytest

from dpp.workspaces import errors, store
from dpp.workspaces.api import owner as owner_api
from dpp.workspaces.api.create import NewWorkspace, create
from dpp.workspaces.control import lease, monitor
from dpp.workspaces.control.planner import LOSS_GRACE_SECONDS, SETTLE_SECONDS
from dpp.workspaces.control.reconcile import Outcome, reconcile
from dpp.workspaces.control.recover import Recovery, RecoveryMethod, recover
from dpp.workspaces.machine import REQUESTABLE_STATES
from dpp.workspaces.model import DesiredState, Operation, Phase
from dpp.workspaces.ports import Observation
from dpp.workspaces.store import Change, Writer
from tests.support.crash_points import Killed
from tests.support.stored import existing
from tests.workspaces.environment import LOOKS, STRANGER, WORKS, Environment
from tests.workspaces.memory_provider import MemoryProvider

CONTENT = b"all that a developer has"


def write(fleet: MemoryProvider, workspace_id: UUID, content: bytes = CONTENT) -> None:
    volume = existing(fleet.volumes.volumes[workspace_id])
    fleet.homes.contents[volume.home] = content


def home(fleet: MemoryProvider, workspace_id: UUID) -> bytes:
    volume = existing(fleet.volumes.volumes[workspace_id])
    return fleet.homes.contents[volume.home]


def observe_delayed(env: Environment, fleet: MemoryProvider, workspace_id: UUID, *, before: str, seconds: int) -> None:
    """Observe, and delay this process at one call for so long that another archives and restores the workspace."""
    delayed = False

    def delay(call: str) -> None:
        nonlocal delayed
        if call == before and not delayed:
            delayed = True
            env.pass_time(seconds)
            env.drive_to(workspace_id, "ARCHIVED")
            env.move(workspace_id, "STANDBY")

    fleet.faults.before = delay
    env.observe(workspace_id)
    assert delayed


class TestLifecycle:
    def test_new_workspace_runs_with_an_empty_home(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-8: by PROVISIONING, RESTORING and STARTING, in one call."""
        workspace_id = env.create("RUNNING")
        env.observe(workspace_id)
        assert env.phase(workspace_id) is Phase.RUNNING
        assert home(fleet, workspace_id) == b""
        begun = env.rows("SELECT to_value FROM workspace_events WHERE kind = 'STARTED' ORDER BY event_id")
        assert [row[0] for row in begun] == ["PROVISIONING", "RESTORING", "STARTING"]

    @pytest.mark.parametrize("end", REQUESTABLE_STATES)
    @pytest.mark.parametrize("start", REQUESTABLE_STATES)
    def test_home_survives_all_phases(self, env: Environment, fleet: MemoryProvider, start: str, end: str) -> None:
        """WS-8, WS-10: for every desired state, nothing is lost unless it is to be discarded."""
        workspace_id = env.create_in("RUNNING")
        write(fleet, workspace_id)
        env.move(workspace_id, start, end, "STANDBY")
        kept = "PENDING" not in {start, end}
        assert home(fleet, workspace_id) == (CONTENT if kept else b"")

    def test_long_work_is_handed_over(self, env: Environment) -> None:
        """Once a minute, not at each observation."""
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

    def test_new_desired_state_waits_for_the_operation(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-7: an operation is not interrupted; the next one reverses it."""
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

    def test_renaming_does_not_change_the_provider(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-9: the provider uses only ids."""
        workspace_id = env.create_in("RUNNING")
        calls: list[str] = []
        fleet.faults.before = calls.append
        owner_api.change(env.owner, str(workspace_id), Change(name="another"), env.clock())
        env.run_ticks(2)
        assert env.get(workspace_id).name == "another"
        assert {call.partition(".")[2] for call in calls} <= {"observe", "head"}
        assert "RENAMED" in env.kinds(workspace_id)


class TestOutsideChanges:
    def test_killed_container_is_started_again(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-1."""
        workspace_id = env.create_in("RUNNING")
        fleet.containers.running.clear()
        env.run_ticks(4)
        assert workspace_id in fleet.containers.running
        assert env.phase(workspace_id) is Phase.RUNNING

    def test_container_that_keeps_ending_is_restarted_with_backoff(
        self, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-14: a start every five minutes at most, not at each observation."""
        workspace_id = env.create_in("RUNNING")
        starts = 0
        for _ in range(900 // 5):
            if fleet.containers.running.pop(workspace_id, None) is not None:
                starts += 1
            env.observe(workspace_id)
            env.pass_time(5)
        assert 5 <= starts <= 12

    def test_foreign_container_is_stopped(self, env: Environment, fleet: MemoryProvider) -> None:
        """Level-triggered (WS-5)."""
        workspace_id = env.create_in("STANDBY")
        volume = existing(fleet.volumes.volumes[workspace_id])
        fleet.containers.running[workspace_id] = volume
        env.run_ticks(4)
        assert workspace_id not in fleet.containers.running

    @pytest.mark.parametrize("desired", ["STANDBY", "ARCHIVED", "PENDING"])
    def test_vanished_volume_is_never_replaced_without_an_order(
        self, env: Environment, fleet: MemoryProvider, desired: str
    ) -> None:
        """Neither by an empty home nor by an older one."""
        workspace_id = env.create_in("STANDBY")
        del fleet.volumes.volumes[workspace_id]
        env.set_desired_state(workspace_id, desired)
        env.run_ticks(20)
        found = env.get(workspace_id)
        assert found.phase is Phase.ERROR
        assert found.error_info is not None
        assert (found.error_info.reason, found.error_info.is_terminal) == ("DataLost", True)
        assert workspace_id not in fleet.volumes.volumes

    def test_vanished_volume_of_a_running_container_is_an_error(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-4: ContainerWithoutVolume; and DataLost once the container has ended, too."""
        workspace_id = env.create_in("RUNNING")
        del fleet.volumes.volumes[workspace_id]
        env.run_ticks(2)
        found = env.get(workspace_id)
        assert found.conditions["policy.healthy"].reason == "ContainerWithoutVolume"
        fleet.containers.running.clear()
        env.run_ticks(3)
        error = existing(env.get(workspace_id).error_info)
        assert error.reason == "DataLost"

    def test_volume_missing_for_a_moment_is_no_loss(self, env: Environment, fleet: MemoryProvider) -> None:
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
    def test_unavailable_archive_is_an_error(self, env: Environment, fleet: MemoryProvider, what: str) -> None:
        """WS-2, WS-4: before it is needed."""
        workspace_id = env.create_in("ARCHIVED")
        key = existing(env.get(workspace_id).archive_key)
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

    def test_operation_ends_after_an_outage_and_a_lost_archive(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-14: in ERROR the provider is not asked again, so what waits for that must end by its deadline.

        Else the operation is under way for ever: nobody may recover the workspace, and nobody delete it.
        """
        workspace_id = env.create_in("STANDBY")
        write(fleet, workspace_id)
        key = existing(env.get(workspace_id).archive_key)

        fleet.faults.fail("archives.write", errors.ProviderUnavailable)
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
        recovery = Recovery(RecoveryMethod.KEEP_VOLUME, "operator", "the archive is lost, and the home stands")
        recover(recovery, workspace_id, env.database, fleet.archives, env.clock())
        env.drive_to(workspace_id, "ARCHIVED")

    def test_foreign_volume_is_left_to_an_operator(self, env: Environment, fleet: MemoryProvider) -> None:
        """003 §7: without a marker no container starts on it, and nothing replaces it."""
        workspace_id = env.create_in("ARCHIVED")
        fleet.volumes.volumes[workspace_id] = None
        env.set_desired_state(workspace_id, "RUNNING")
        env.run_ticks(6)
        found = env.get(workspace_id)
        assert found.error_info is not None
        assert found.error_info.reason == "VolumeUnproven"
        assert workspace_id not in fleet.containers.running


class TestActions:
    def test_action_without_effect_is_repeated(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-1: success must be observed; finally the workspace is in ERROR."""
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
        error = existing(env.get(workspace_id).error_info)
        assert (error.reason, error.is_terminal, error.retry_count) == ("OperationTimeout", True, 3)
        assert real == {}

    def test_failed_action_with_effect_completes(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-1, WS-14: even at the third failure."""
        workspace_id = env.create_in("STANDBY")

        fleet.faults.fail("containers.start", errors.OperationFailed("Lied", "It says that it failed."), after=True)
        env.set_desired_state(workspace_id, "RUNNING")
        env.observe(workspace_id)
        assert env.phase(workspace_id) is Phase.RUNNING
        assert env.get(workspace_id).error_info is None

    def test_three_failures_are_an_error_at_once(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-14: retries are immediate; the operation is reset, its id stays (WS-7)."""
        workspace_id = env.create_in("STANDBY")
        calls = 0

        def fails(call: str) -> None:
            nonlocal calls
            if call == "containers.start":
                calls += 1
                raise errors.OperationFailed("ImageMissing", "There is no such image.")

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

    def test_terminal_failure_is_not_retried(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-14: is_terminal."""
        workspace_id = env.create_in("STANDBY")

        fleet.faults.fail("containers.start", errors.OperationFailed("NeverAgain", "No.", is_terminal=True))
        env.set_desired_state(workspace_id, "RUNNING")
        env.observe(workspace_id)
        error = existing(env.get(workspace_id).error_info)
        assert (error.reason, error.retry_count) == ("NeverAgain", 1)

    def test_outage_is_no_failure(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-14: 1 s, 2 s, 4 s … five minutes, without limit; it does not count as a failure."""
        workspace_id = env.create_in("STANDBY")
        asked: list[float] = []

        def away(call: str) -> None:
            if call == "containers.start":
                asked.append(env.clock.seconds)
                raise errors.ProviderUnavailable

        fleet.faults.before = away
        env.set_desired_state(workspace_id, "RUNNING")
        for _ in range(10):
            env.observe(workspace_id)
            until, calls = env.get(workspace_id).next_attempt_at, len(asked)
            assert until is not None
            env.pass_time((until - env.clock()).total_seconds() - 0.5)
            env.observe(workspace_id)
            assert len(asked) == calls  # not before its time
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

    def test_operation_that_was_not_tried_is_not_late(self, env: Environment) -> None:
        """WS-14: time in which no process ran does not count."""
        workspace_id = env.create("RUNNING")
        for _ in range(4):
            env.observe(workspace_id, does_long_work=False)
            env.pass_time(7_200)
        assert env.get(workspace_id).error_info is None
        env.run_ticks(4)
        assert env.phase(workspace_id) is Phase.RUNNING

    def test_action_that_dies_each_time_ends_in_error(self, env: Environment, fleet: MemoryProvider) -> None:
        """For example a home that is too large for the function that archives it; after three deadlines."""
        workspace_id = env.create_in("STANDBY")
        write(fleet, workspace_id)

        fleet.faults.fail("archives.write", Killed)
        env.set_desired_state(workspace_id, "ARCHIVED")
        for _ in range(16):
            with suppress(Killed):
                env.observe(workspace_id)
            env.pass_time(900)
        error = existing(env.get(workspace_id).error_info)
        assert (error.reason, error.is_terminal) == ("OperationTimeout", True)
        assert home(fleet, workspace_id) == CONTENT

    def test_conditions_stay_if_the_provider_does_not_answer(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-1."""
        workspace_id = env.create_in("RUNNING")
        before = env.get(workspace_id)

        def away(call: str) -> None:
            if call.endswith(".observe"):
                raise errors.ProviderUnavailable

        fleet.faults.before = away
        assert env.observe(workspace_id).outage == "workspace provider"
        env.tick()
        env.deliver()
        after = env.get(workspace_id)
        assert (after.conditions, after.phase) == (before.conditions, before.phase)

    def test_failed_cleanup_is_repeated(self, env: Environment, fleet: MemoryProvider) -> None:
        """The archive exists, and the volume stays until the next try."""
        workspace_id = env.create_in("RUNNING")
        write(fleet, workspace_id)
        failures = iter([errors.OperationFailed("VolumeInUse", "Not now."), None])

        def fails_once(call: str) -> None:
            if call == "volumes.delete" and (failure := next(failures, None)) is not None:
                raise failure

        fleet.faults.before = fails_once
        env.move(workspace_id, "ARCHIVED")
        assert workspace_id not in fleet.volumes.volumes
        env.move(workspace_id, "STANDBY")
        assert home(fleet, workspace_id) == CONTENT

    def test_truncated_archive_is_not_proved(self, env: Environment, fleet: MemoryProvider) -> None:
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
        error = existing(env.get(workspace_id).error_info)
        assert error.is_terminal
        assert env.get(workspace_id).home_ctx.restore_marker is not None


class TestConcurrency:
    def test_delayed_monitor_changes_nothing(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-6: a stale observation is refused."""
        workspace_id = env.create_in("ARCHIVED")
        late = env.clock()
        env.set_desired_state(workspace_id, "STANDBY")
        stale = env.get(workspace_id)
        env.drive_to(workspace_id, "STANDBY")
        with env.database.connection() as connection, store.writing(connection, Writer.MONITOR):
            written = store.record_observation(connection, stale, stale.conditions, stale.phase, late)
        assert written is None
        assert env.phase(workspace_id) is Phase.STANDBY

    def test_observation_judged_with_another_archive_is_refused(self, env: Environment) -> None:
        """WS-4, WS-6: the reconciler changed the row meanwhile."""
        workspace_id = env.create_in("ARCHIVED")
        judged = replace(env.get(workspace_id), archive_key=None)
        with env.database.connection() as connection, store.writing(connection, Writer.MONITOR):
            written = store.record_observation(connection, judged, judged.conditions, judged.phase, env.clock())
        assert written is None

    def test_one_of_two_reconcilers_begins(self, env: Environment) -> None:
        """WS-7: both read the same row."""
        workspace_id = env.create_in("STANDBY")
        env.set_desired_state(workspace_id, "RUNNING")
        monitor.observe(env.database, env.provider, workspace_id, env.clock())
        row = env.get(workspace_id)
        outcomes = [
            reconcile(env.database, env.provider, row, env.clock, does_long_work=True).outcome for _ in range(2)
        ]
        assert outcomes == [Outcome.MOVED, Outcome.OVERTAKEN]
        assert env.kinds(workspace_id).count("STARTED") == 3

    def test_one_of_two_reconcilers_acts(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-7: the second finds the lease of the first."""
        workspace_id = env.create_in("STANDBY")
        env.set_desired_state(workspace_id, "RUNNING")
        seen: list[str] = []

        def another_observes(call: str) -> None:
            if call == "containers.start":
                seen.append(call)
                assert env.observe(workspace_id).steps == []

        fleet.faults.before = another_observes
        env.observe(workspace_id)
        assert seen == ["containers.start"]
        assert env.phase(workspace_id) is Phase.RUNNING

    def test_process_without_its_lease_writes_nothing(self, env: Environment, fleet: MemoryProvider) -> None:
        """It was delayed for an hour, and another process has taken over."""
        workspace_id = env.create_in("STANDBY")
        write(fleet, workspace_id)
        env.set_desired_state(workspace_id, "ARCHIVED")
        observe_delayed(env, fleet, workspace_id, before="archives.write_proof", seconds=3_600)
        assert home(fleet, workspace_id) == CONTENT
        env.run_ticks(3)
        assert env.phase(workspace_id) is Phase.STANDBY
        assert home(fleet, workspace_id) == CONTENT

    def test_work_of_an_ended_operation_is_not_handed_over(self, env: Environment) -> None:
        """op_id stays after the operation has ended."""
        workspace_id = env.create("ARCHIVED")
        env.observe(workspace_id, does_long_work=False)
        decided_on = env.get(workspace_id)
        env.drive_to(workspace_id, "ARCHIVED")
        assert env.get(workspace_id).op_id == decided_on.op_id
        assert not lease.hand_over(env.database, decided_on, 60, env.clock())

    def test_late_deletion_keeps_a_later_volume(self, env: Environment, fleet: MemoryProvider) -> None:
        """WS-12: it names the generation that was archived."""
        workspace_id = env.create_in("STANDBY")
        write(fleet, workspace_id)
        env.set_desired_state(workspace_id, "ARCHIVED")
        observe_delayed(env, fleet, workspace_id, before="volumes.delete", seconds=600)
        assert home(fleet, workspace_id) == CONTENT

    @pytest.mark.parametrize("ends", [True, False])
    def test_late_start_keeps_what_its_container_wrote(
        self, env: Environment, fleet: MemoryProvider, ends: bool
    ) -> None:
        """WS-12: the home was archived before, so the volume stays; an operator has it retried."""
        workspace_id = env.create_in("STANDBY")
        write(fleet, workspace_id)
        volume = existing(fleet.volumes.volumes[workspace_id])
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
        error = existing(env.get(workspace_id).error_info)
        assert (error.reason, error.is_terminal) == ("HomeInUse", True)
        recovery = Recovery(RecoveryMethod.RETRY, "operator", "once more")
        recover(recovery, workspace_id, env.database, fleet.archives, env.clock())
        env.drive_to(workspace_id, "ARCHIVED")
        env.move(workspace_id, "STANDBY")
        assert home(fleet, workspace_id) == b"what the late one wrote"

    def test_outdated_desired_state_does_not_begin(self, env: Environment) -> None:
        """WS-8: the owner changed it after the row was read."""
        workspace_id = env.create_in("ARCHIVED")
        env.set_desired_state(workspace_id, "PENDING")
        row = existing(monitor.observe(env.database, env.provider, workspace_id, env.clock()))
        env.set_desired_state(workspace_id, "ARCHIVED")
        done = reconcile(env.database, env.provider, row, env.clock, does_long_work=True)
        assert (done.outcome, env.get(workspace_id).operation) == (Outcome.OVERTAKEN, Operation.NONE)

    def test_workspace_has_one_planned_observation(self, env: Environment, fleet: MemoryProvider) -> None:
        """D10: hints do not multiply."""
        workspace_id = env.create_in("STANDBY")

        fleet.faults.fail("containers.start", errors.ProviderUnavailable)
        env.set_desired_state(workspace_id, "RUNNING")
        for _ in range(20):
            env.set_desired_state(workspace_id, "RUNNING")
            env.deliver()
            env.pass_time(0.5)
        assert len(env.sqs.of(LOOKS)) <= 2


class TestDeleting:
    @pytest.mark.parametrize("phase", ["PENDING", "ARCHIVED"])
    def test_deletion_leaves_only_archives(self, env: Environment, fleet: MemoryProvider, phase: str) -> None:
        """WS-8; the archives are collected two hours later (WS-13)."""
        workspace_id = env.create_in(phase)
        deleted = env.delete(workspace_id)
        assert deleted.desired_state is DesiredState.DELETED
        env.run_ticks(3)
        found = env.get(workspace_id)
        assert (found.phase, found.archive_key) == (Phase.DELETED, None)
        assert found.cleaned_at is not None
        assert env.delete(workspace_id).deleted_at == deleted.deleted_at
        with pytest.raises(errors.WorkspaceDeleted):
            env.set_desired_state(workspace_id, "RUNNING")

    @pytest.mark.parametrize("phase", ["STANDBY", "RUNNING"])
    def test_workspace_with_a_volume_is_not_deletable(self, env: Environment, phase: str) -> None:
        """003 §5: RUNNING and STANDBY are not deletable; PENDING is."""
        workspace_id = env.create_in(phase)
        with pytest.raises(errors.NotDeletable, match=f"The workspace is {phase}: set desired_state"):
            env.delete(workspace_id)
        env.move(workspace_id, "PENDING")
        env.delete(workspace_id)
        env.run_ticks(3)
        assert env.get(workspace_id).cleaned_at is not None

    def test_deletion_during_an_operation_is_refused(self, env: Environment) -> None:
        """003 §5: operation = NONE."""
        workspace_id = env.create("ARCHIVED")
        env.observe(workspace_id, does_long_work=False)
        assert env.get(workspace_id).operation is Operation.PROVISIONING
        with pytest.raises(errors.NotDeletable, match="PROVISIONING is under way"):
            env.delete(workspace_id)

    def test_workspace_in_error_is_deleted_completely(self, env: Environment, fleet: MemoryProvider) -> None:
        """003 §5; container first, then volume (WS-12)."""
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
    def test_leftovers_of_a_restore_are_deleted_with_the_workspace(
        self, env: Environment, fleet: MemoryProvider, fails: str | None
    ) -> None:
        """WS-8: no observation shows them, so the provider deletes them in any case."""
        workspace_id = env.create_in("ARCHIVED")
        fleet.volumes.prepare(workspace_id, "of-a-restore")
        assert fleet.homes.contents

        def is_away(call: str) -> None:
            if call == "volumes.delete" and env.clock.seconds < 100:
                raise errors.ProviderUnavailable

        if fails:
            setattr(fleet.faults, fails, is_away)
        env.delete(workspace_id)
        env.run_ticks(8)
        assert env.get(workspace_id).cleaned_at is not None
        assert fleet.homes.contents == {}

    def test_cleanup_is_retried_without_limit(self, env: Environment, fleet: MemoryProvider) -> None:
        workspace_id = env.create_in("ARCHIVED")
        fleet.volumes.volumes[workspace_id] = None
        env.run_ticks(6)
        assert env.phase(workspace_id) is Phase.ERROR
        refuse = True

        def refuses(call: str) -> None:
            if call == "volumes.delete" and refuse:
                raise errors.OperationFailed("VolumeStuck", "No.", is_terminal=True)

        fleet.faults.before = refuses
        env.delete(workspace_id)
        env.run_ticks(20)
        assert env.get(workspace_id).cleaned_at is None
        refuse = False
        env.run_ticks(20)
        assert env.get(workspace_id).cleaned_at is not None
        assert fleet.volumes.volumes == {}


class TestOwners:
    def test_key_creates_one_workspace(self, env: Environment) -> None:
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
        with pytest.raises(errors.IdempotencyConflict):
            made("b")

    def test_limit_of_a_tenant(self, env: Environment) -> None:
        """Deleted workspaces do not count."""

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
        with pytest.raises(errors.TooManyWorkspaces):
            made()
        owner_api.delete(owner_api.Owner(STRANGER, env.database, env.queue(LOOKS)), str(first))
        assert made() != first

    @pytest.mark.parametrize("its_id", ["foreign", "unknown", "no id", "", "\x00"])
    def test_foreign_and_unknown_ids_get_the_same_answer(self, env: Environment, its_id: str) -> None:
        """D13, as for runs."""
        known = str(env.create())
        asked = {"foreign": known, "unknown": str(uuid4())}.get(its_id, its_id)
        stranger = owner_api.Owner(STRANGER, env.database, env.queue(LOOKS))
        for does in (owner_api.read, owner_api.connect, owner_api.delete, owner_api.list_events):
            with pytest.raises(errors.WorkspaceNotFound):
                does(stranger, asked)
        with pytest.raises(errors.WorkspaceNotFound):
            owner_api.change(stranger, asked, Change(name="mine"))
        assert owner_api.list_page(stranger, phase=None, below=None, limit=10).workspaces == []

    def test_connecting_wakes_it(self, env: Environment, fleet: MemoryProvider) -> None:
        """003 §3: auto-wake, through the API."""
        workspace_id = env.create_in("STANDBY")
        before = env.get(workspace_id).last_access_at
        woken = owner_api.connect(env.owner, str(workspace_id), env.clock())
        assert (woken.desired_state, woken.desired_by) == (DesiredState.RUNNING, "connect")
        assert woken.last_access_at > before
        env.deliver()
        assert workspace_id in fleet.containers.running

    def test_idle_workspace_is_lowered_step_by_step(self, env: Environment, fleet: MemoryProvider) -> None:
        """003 §3: the TTL manager, through the API; a day later only the archive is left."""
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

    def test_use_keeps_it_running(self, env: Environment) -> None:
        workspace_id = env.create("RUNNING", standby_ttl_seconds=600)
        for _ in range(10):
            env.run_ticks(5)
            owner_api.connect(env.owner, str(workspace_id), env.clock())
        assert env.get(workspace_id).desired_state is DesiredState.RUNNING

    def test_pages_list_each_workspace_once(self, env: Environment) -> None:
        made = [env.create("PENDING") for _ in range(7)]
        found, below = [], None
        for _ in range(4):
            page = owner_api.list_page(env.owner, phase=None, below=below, limit=2)
            found += [one.workspace_id for one in page.workspaces]
            below = page.below
        assert below is None
        assert found == made[::-1]


class TestClocks:
    def test_clock_of_a_process_is_not_used(self, env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
        """D1: a function whose clock is a day off takes the same steps."""
        monkeypatch.setattr("time.time", lambda: 0.0)
        workspace_id = env.create("RUNNING")
        env.observe(workspace_id)
        assert env.phase(workspace_id) is Phase.RUNNING
        assert env.get(workspace_id).observed_at is not None

    def test_every_change_has_an_event(self, env: Environment) -> None:
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


def test_conditions_have_the_documents_names_and_members(env: Environment) -> None:
    """WS-2."""
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


def test_database_refuses_another_writer(env: Environment) -> None:
    """WS-6: the monitor can't write the reconciler's columns."""
    env.create()
    with (
        env.database.connection() as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
        store.writing(connection, Writer.MONITOR),
    ):
        connection.execute("UPDATE workspaces SET operation = 'NONE'")


def test_container_without_volume_is_observed_twice(env: Environment, fleet: MemoryProvider) -> None:
    """WS-9: the two observations are not simultaneous."""
    workspace_id = env.create_in("RUNNING")
    real = fleet.volumes.observe
    answers = iter([{workspace_id: Observation(False, "VolumeNotFound", "")}])

    def first_away(ids: list[UUID]) -> object:
        return next(answers, None) or real(ids)

    fleet.volumes.observe = first_away  # type: ignore[method-assign,assignment]
    env.observe(workspace_id)
    assert env.phase(workspace_id) is Phase.RUNNING
    assert "ERROR" not in str(owner_api.list_events(env.owner, str(workspace_id)))
