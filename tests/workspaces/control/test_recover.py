"""An operator ends an ERROR, and chooses what replaces a lost home (003 §1, §10); `explain`."""

from uuid import UUID, uuid4

import pytest

from dpp.workspaces.api.explain import explain
from dpp.workspaces.control.recover import Recovery, RecoveryMethod, recover
from dpp.workspaces.errors import ArchiveUnknown, NotRecoverable, OperationFailed, WorkspaceNotFound
from dpp.workspaces.model import Phase, Workspace, archive_key_of
from tests.support.stored import existing
from tests.workspaces.control.test_control import CONTENT, home, write
from tests.workspaces.environment import Environment
from tests.workspaces.memory_provider import MemoryProvider


def recover_as_operator(
    env: Environment, workspace_id: UUID, method: RecoveryMethod, archive_key: str | None = None
) -> Workspace:
    recovery = Recovery(method, "kim", "inspected it", archive_key)
    return recover(recovery, workspace_id, env.database, env.provider.archives, env.clock())


@pytest.fixture
def lost(env: Environment, fleet: MemoryProvider) -> UUID:
    """A workspace with an archive, whose volume vanished with newer content."""
    workspace_id = env.create_in("STANDBY")
    write(fleet, workspace_id)
    env.move(workspace_id, "ARCHIVED", "STANDBY")
    write(fleet, workspace_id, b"newer content")
    del fleet.volumes.volumes[workspace_id]
    env.run_ticks(3)
    assert env.phase(workspace_id) is Phase.ERROR
    return workspace_id


def test_lost_home_continues_from_its_archive(env: Environment, fleet: MemoryProvider, lost: UUID) -> None:
    recover_as_operator(env, lost, RecoveryMethod.FROM_ARCHIVE)
    env.run_ticks(3)
    env.drive_to(lost, "STANDBY")
    assert home(fleet, lost) == CONTENT
    (event,) = env.rows("SELECT actor, reason, message FROM workspace_events WHERE kind = 'RECOVERED'")
    assert event == ("kim", "DataLost", "FROM_ARCHIVE: inspected it")


def test_lost_home_may_continue_empty(env: Environment, fleet: MemoryProvider, lost: UUID) -> None:
    recover_as_operator(env, lost, RecoveryMethod.EMPTY)
    env.run_ticks(3)
    env.drive_to(lost, "STANDBY")
    assert home(fleet, lost) == b""


def test_lost_home_is_not_retried(env: Environment, lost: UUID) -> None:
    """Every method gives something up, so there is no default."""
    with pytest.raises(NotRecoverable, match="recover it from an archive"):
        recover_as_operator(env, lost, RecoveryMethod.RETRY)


def test_archive_access_error_ends_when_the_archive_is_back(env: Environment, fleet: MemoryProvider) -> None:
    """003 §1: without an order."""
    workspace_id = env.create_in("ARCHIVED")
    key = existing(env.get(workspace_id).archive_key)
    kept = fleet.archives.objects.pop(key)
    env.observe(workspace_id)
    assert env.phase(workspace_id) is Phase.ERROR
    fleet.archives.objects[key] = kept
    env.observe(workspace_id)
    assert env.phase(workspace_id) is Phase.ARCHIVED


def test_other_archive_may_be_chosen_if_it_is_proved_and_its_own(
    env: Environment, fleet: MemoryProvider, lost: UUID
) -> None:
    foreign = env.get(env.create_in("ARCHIVED")).archive_key
    unproved = archive_key_of(lost, uuid4())
    for key in (foreign, unproved, "../x", "home.tar.zst"):
        with pytest.raises(ArchiveUnknown):
            recover_as_operator(env, lost, RecoveryMethod.FROM_ARCHIVE, key)
    own = sorted(key for key in fleet.archives.objects if key.startswith(str(lost)) and key.endswith("home.tar.zst"))
    older = next(key for key in own if key != env.get(lost).archive_key)
    recover_as_operator(env, lost, RecoveryMethod.FROM_ARCHIVE, older)
    env.run_ticks(3)
    env.drive_to(lost, "STANDBY")
    assert home(fleet, lost) == b""  # it was archived before anything was written


def test_home_on_its_volume_continues_without_its_lost_archive(env: Environment, fleet: MemoryProvider) -> None:
    """003 §1: archive_key is cleared; the volume has the complete home."""
    workspace_id = env.create_in("STANDBY")
    write(fleet, workspace_id)
    fleet.archives.objects.clear()
    env.observe(workspace_id)
    assert env.phase(workspace_id) is Phase.ERROR
    for method in (RecoveryMethod.EMPTY, RecoveryMethod.FROM_ARCHIVE):
        with pytest.raises(NotRecoverable, match="has a volume"):
            recover_as_operator(env, workspace_id, method)
    recover_as_operator(env, workspace_id, RecoveryMethod.KEEP_VOLUME)
    env.drive_to(workspace_id, "STANDBY")
    assert home(fleet, workspace_id) == CONTENT
    env.move(workspace_id, "ARCHIVED", "STANDBY")
    assert home(fleet, workspace_id) == CONTENT


def test_container_without_its_volume_is_stopped_on_order(env: Environment, fleet: MemoryProvider) -> None:
    """WS-4, WS-9: then the loss is reported, and the operator chooses what replaces the home."""
    workspace_id = env.create_in("RUNNING")
    with pytest.raises(NotRecoverable, match="no container"):
        recover_as_operator(env, workspace_id, RecoveryMethod.STOP_CONTAINER)
    fleet.volumes.volumes.clear()
    env.run_ticks(3)
    assert workspace_id in fleet.containers.running
    assert env.tick().stats.lost == 1
    recover_as_operator(env, workspace_id, RecoveryMethod.STOP_CONTAINER)
    env.run_ticks(4)
    assert fleet.containers.running == {}
    error = existing(env.get(workspace_id).error_info)
    assert error.reason == "DataLost"
    (event,) = env.rows("SELECT actor, message FROM workspace_events WHERE to_value = 'STOPPING'")
    assert event == ("kim", "STOP_CONTAINER: inspected it")
    recover_as_operator(env, workspace_id, RecoveryMethod.FROM_ARCHIVE)
    env.drive_to(workspace_id, "RUNNING")


def test_keep_volume_is_refused_without_a_volume(env: Environment, lost: UUID) -> None:
    with pytest.raises(NotRecoverable, match="no volume"):
        recover_as_operator(env, lost, RecoveryMethod.KEEP_VOLUME)


def test_terminally_failed_operation_is_retried_on_order(env: Environment, fleet: MemoryProvider) -> None:
    """WS-14."""
    workspace_id = env.create_in("STANDBY")

    fleet.faults.fail("containers.start", OperationFailed("ImageMissing", "There is no such image."))
    env.set_desired_state(workspace_id, "RUNNING")
    env.observe(workspace_id)
    assert env.phase(workspace_id) is Phase.ERROR
    fleet.faults.before = lambda _: None
    recover_as_operator(env, workspace_id, RecoveryMethod.RETRY)
    env.drive_to(workspace_id, "RUNNING")
    assert env.get(workspace_id).error_info is None


def test_healthy_or_unknown_workspace_is_not_recover_as_operator(env: Environment) -> None:
    workspace_id = env.create_in("STANDBY")
    with pytest.raises(NotRecoverable):
        recover_as_operator(env, workspace_id, RecoveryMethod.RETRY)
    with pytest.raises(WorkspaceNotFound):
        recover_as_operator(env, uuid4(), RecoveryMethod.RETRY)


def test_only_one_of_two_operators_recovers_it(env: Environment, lost: UUID) -> None:
    recover_as_operator(env, lost, RecoveryMethod.FROM_ARCHIVE)
    with pytest.raises(NotRecoverable):
        recover_as_operator(env, lost, RecoveryMethod.EMPTY)


def test_explain_shows_why_it_is_blocked(env: Environment, lost: UUID) -> None:
    explained = explain(env.get(lost), env.clock())
    assert explained.blocked
    assert explained.desired == "STANDBY, requested by owner"
    assert explained.observed == "ERROR"
    assert explained.next_step.why.startswith("DataLost: The volume that held the home is gone")
    assert [name for name, _, _ in explained.conditions] == [
        "infra.memory.container_ready",
        "policy.healthy",
        "storage.archive_ready",
        "storage.volume_ready",
    ]


def test_explain_shows_the_operation_and_the_next_step(env: Environment, fleet: MemoryProvider) -> None:
    """Before the first observation, during an action, and in the desired state."""
    workspace_id = env.create("RUNNING")
    explained = explain(env.get(workspace_id), env.clock())
    assert (explained.observed_seconds_ago, explained.under_way, explained.blocked) == (None, "nothing", False)
    assert explained.next_step.why == "The workspace has not been observed yet."

    def explain_meanwhile(call: str) -> None:
        if call == "containers.start":
            explained = explain(env.get(workspace_id), env.clock())
            assert explained.under_way == "STARTING for 0 s"
            assert explained.next_step.why == "A process is working on the operation."

    fleet.faults.before = explain_meanwhile
    env.observe(workspace_id)
    explained = explain(env.get(workspace_id), env.clock())
    assert explained.next_step.why == "The workspace is RUNNING, as desired."
