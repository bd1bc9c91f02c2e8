"""A person ends an ERROR, and says what takes the place of what is lost (003 §1, §10); what `explain` tells them."""

from uuid import UUID, uuid4

import pytest

from dpp.workspaces.api.explain import explain
from dpp.workspaces.control.recover import Recovery, RecoveryMethod, recover
from dpp.workspaces.errors import ArchiveUnknown, NotRecoverable, OperationFailed, WorkspaceNotFound
from dpp.workspaces.model import Phase, Workspace, archive_key_of
from tests.workspaces.environment import Environment
from tests.workspaces.memory_provider import MemoryProvider
from tests.workspaces.test_control import CONTENT, home, write


def recovered(
    env: Environment, workspace_id: UUID, way: RecoveryMethod, archive_key: str | None = None
) -> Workspace:
    """By an operator."""
    recovery = Recovery(way, "kim", "looked at it", archive_key)
    return recover(recovery, workspace_id, env.database, env.provider.archives, env.clock())


@pytest.fixture
def lost(env: Environment, fleet: MemoryProvider) -> UUID:
    """A workspace with an archive, whose volume vanished with what is newer."""
    workspace_id = env.create_in("STANDBY")
    write(fleet, workspace_id)
    for wanted in ("ARCHIVED", "STANDBY"):
        env.set_desired_state(workspace_id, wanted)
        env.drive_to(workspace_id, wanted)
    write(fleet, workspace_id, b"what is newer")
    del fleet.volumes.volumes[workspace_id]
    env.run_ticks(3)
    assert env.phase(workspace_id) is Phase.ERROR
    return workspace_id


def test_a_lost_home_goes_on_from_its_archive(env: Environment, fleet: MemoryProvider, lost: UUID) -> None:
    """What is newer than it is given up, and a person said so."""
    recovered(env, lost, RecoveryMethod.FROM_ARCHIVE)
    env.run_ticks(3)
    env.drive_to(lost, "STANDBY")
    assert home(fleet, lost) == CONTENT
    (event,) = env.rows("SELECT actor, reason, message FROM workspace_events WHERE kind = 'RECOVERED'")
    assert event == ("kim", "DataLost", "FROM_ARCHIVE: looked at it")


def test_a_lost_home_may_begin_empty(env: Environment, fleet: MemoryProvider, lost: UUID) -> None:
    """Where a person wants that."""
    recovered(env, lost, RecoveryMethod.EMPTY)
    env.run_ticks(3)
    env.drive_to(lost, "STANDBY")
    assert home(fleet, lost) == b""


def test_a_lost_home_is_not_just_tried_again(env: Environment, lost: UUID) -> None:
    """Each answer gives something up, so there is no answer by default."""
    with pytest.raises(NotRecoverable, match="recover it from an archive"):
        recovered(env, lost, RecoveryMethod.RETRY)


def test_an_archive_that_was_put_back_is_tried_again(env: Environment, fleet: MemoryProvider) -> None:
    """003 §1: ArchiveAccessError ends by itself once the archive can be had, without anybody's saying so."""
    workspace_id = env.create_in("ARCHIVED")
    key = env.get(workspace_id).archive_key
    assert key is not None
    kept = fleet.archives.objects.pop(key)
    env.observe(workspace_id)
    assert env.phase(workspace_id) is Phase.ERROR
    fleet.archives.objects[key] = kept
    env.observe(workspace_id)
    assert env.phase(workspace_id) is Phase.ARCHIVED


def test_another_archive_may_be_named_if_it_was_proved_and_is_its_own(
    env: Environment, fleet: MemoryProvider, lost: UUID
) -> None:
    """An older one; not a foreign one, not one that nobody read back."""
    foreign = env.get(env.create_in("ARCHIVED")).archive_key
    unproved = archive_key_of(lost, uuid4())
    for key in (foreign, unproved, "../x", "home.tar.zst"):
        with pytest.raises(ArchiveUnknown):
            recovered(env, lost, RecoveryMethod.FROM_ARCHIVE, key)
    own = sorted(
        key for key in fleet.archives.objects if key.startswith(str(lost)) and key.endswith("home.tar.zst")
    )
    older = next(key for key in own if key != env.get(lost).archive_key)
    recovered(env, lost, RecoveryMethod.FROM_ARCHIVE, older)
    env.run_ticks(3)
    env.drive_to(lost, "STANDBY")
    assert home(fleet, lost) == b""  # it was made before anything was written


def test_a_home_on_its_volume_goes_on_without_the_archive_that_is_gone(
    env: Environment, fleet: MemoryProvider
) -> None:
    """003 §1: archive_key is reset; what stands on the volume is all there is, and whole."""
    workspace_id = env.create_in("STANDBY")
    write(fleet, workspace_id)
    fleet.archives.objects.clear()
    env.observe(workspace_id)
    assert env.phase(workspace_id) is Phase.ERROR
    for way in (RecoveryMethod.EMPTY, RecoveryMethod.FROM_ARCHIVE):
        with pytest.raises(NotRecoverable, match="has a volume"):
            recovered(env, workspace_id, way)
    recovered(env, workspace_id, RecoveryMethod.KEEP_VOLUME)
    env.drive_to(workspace_id, "STANDBY")
    assert home(fleet, workspace_id) == CONTENT
    env.set_desired_state(workspace_id, "ARCHIVED")
    env.drive_to(workspace_id, "ARCHIVED")
    env.set_desired_state(workspace_id, "STANDBY")
    env.drive_to(workspace_id, "STANDBY")
    assert home(fleet, workspace_id) == CONTENT


def test_a_container_without_its_volume_is_stopped_when_a_person_says_so(
    env: Environment, fleet: MemoryProvider
) -> None:
    """WS-4, WS-9: then the loss is told, and the person says what takes the home's place."""
    workspace_id = env.create_in("RUNNING")
    with pytest.raises(NotRecoverable, match="no container"):
        recovered(env, workspace_id, RecoveryMethod.STOP_CONTAINER)
    fleet.volumes.volumes.clear()
    env.run_ticks(3)
    assert workspace_id in fleet.containers.running
    assert env.tick().stats.lost == 1
    recovered(env, workspace_id, RecoveryMethod.STOP_CONTAINER)
    env.run_ticks(4)
    assert fleet.containers.running == {}
    error = env.get(workspace_id).error_info
    assert error is not None
    assert error.reason == "DataLost"
    (event,) = env.rows("SELECT actor, message FROM workspace_events WHERE to_value = 'STOPPING'")
    assert event == ("kim", "STOP_CONTAINER: looked at it")
    recovered(env, workspace_id, RecoveryMethod.FROM_ARCHIVE)
    env.drive_to(workspace_id, "RUNNING")


def test_keeping_a_volume_that_is_not_there_is_refused(env: Environment, lost: UUID) -> None:
    """There is nothing to keep."""
    with pytest.raises(NotRecoverable, match="no volume"):
        recovered(env, lost, RecoveryMethod.KEEP_VOLUME)


def test_an_operation_that_failed_for_good_is_tried_again(env: Environment, fleet: MemoryProvider) -> None:
    """WS-14: once what was wrong is mended."""
    workspace_id = env.create_in("STANDBY")

    def fails(call: str) -> None:
        if call == "containers.start":
            raise OperationFailed("ImageMissing", "There is no such image.")

    fleet.faults.before = fails
    env.set_desired_state(workspace_id, "RUNNING")
    env.observe(workspace_id)
    assert env.phase(workspace_id) is Phase.ERROR
    fleet.faults.before = lambda _: None
    recovered(env, workspace_id, RecoveryMethod.RETRY)
    env.drive_to(workspace_id, "RUNNING")
    assert env.get(workspace_id).error_info is None


def test_what_is_well_is_not_recovered(env: Environment) -> None:
    """Nor what isn't there."""
    workspace_id = env.create_in("STANDBY")
    with pytest.raises(NotRecoverable):
        recovered(env, workspace_id, RecoveryMethod.RETRY)
    with pytest.raises(WorkspaceNotFound):
        recovered(env, uuid4(), RecoveryMethod.RETRY)


def test_of_two_operators_one_recovers_it(env: Environment, lost: UUID) -> None:
    """The second finds that it stands otherwise."""
    recovered(env, lost, RecoveryMethod.FROM_ARCHIVE)
    with pytest.raises(NotRecoverable):
        recovered(env, lost, RecoveryMethod.EMPTY)


def test_explain_tells_what_blocks(env: Environment, lost: UUID) -> None:
    """In the planner's own words."""
    told = explain(env.get(lost), env.clock())
    assert told.blocked
    assert told.desired == "STANDBY, requested by owner"
    assert told.observed == "ERROR"
    assert told.next_step.why.startswith("DataLost: The volume that held the home is gone")
    assert [name for name, _, _ in told.conditions] == [
        "infra.memory.container_ready",
        "policy.healthy",
        "storage.archive_ready",
        "storage.volume_ready",
    ]


def test_explain_tells_what_is_under_way_and_what_comes_next(env: Environment, fleet: MemoryProvider) -> None:
    """Before anything was looked at, while something is done, and at rest."""
    workspace_id = env.create("RUNNING")
    told = explain(env.get(workspace_id), env.clock())
    assert (told.observed_seconds_ago, told.under_way, told.blocked) == (None, "nothing", False)
    assert told.next_step.why == "The workspace has not been observed yet."

    def looks_from_the_side(call: str) -> None:
        if call == "containers.start":
            aside = explain(env.get(workspace_id), env.clock())
            assert aside.under_way == "STARTING for 0 s"
            assert aside.next_step.why == "A process is working on the operation."

    fleet.faults.before = looks_from_the_side
    env.observe(workspace_id)
    told = explain(env.get(workspace_id), env.clock())
    assert told.next_step.why == "The workspace is RUNNING, as desired."
