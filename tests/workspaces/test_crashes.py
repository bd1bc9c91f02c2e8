"""Every call that workspaces make to Postgres, SQS and the provider, failed in every way (WS-1 … WS-13).

After each crash the workspace is in its desired state, its home is what was written to it, no two operations were
under way at once, and nothing at the provider is left without an owner.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

import pytest

from dpp.workspaces import store
from dpp.workspaces.api import owner as owner_api
from dpp.workspaces.api.create import NewWorkspace, create
from dpp.workspaces.archives.collect import collect
from dpp.workspaces.control import planner
from dpp.workspaces.control.act import _ACTIONS, _Recorded
from dpp.workspaces.control.message import ObservePage
from dpp.workspaces.control.observe import ControlEffects
from dpp.workspaces.control.planner import Kind as StepKind
from dpp.workspaces.control.planner import Step
from dpp.workspaces.control.tick import observe_fleet_page, tick
from dpp.workspaces.machine import RULES, Action, OperationRule
from dpp.workspaces.model import DesiredState, Operation, Workspace
from dpp.workspaces.store import Change, Writer
from tests.support.crash_matrix import Plant
from tests.support.crash_points import FaultInjector
from tests.workspaces.crash_environment import HOURS, KEY, Act, Process, WorkspaceCrashes
from tests.workspaces.environment import TENANT, open_environment
from tests.workspaces.memory_provider import MemoryProvider, provider_of


def _request_creation(crashes: WorkspaceCrashes, effects: ControlEffects) -> None:
    create(
        NewWorkspace("home", DesiredState.RUNNING),
        tenant_id=TENANT,
        request_key=KEY,
        limit=10,
        database=effects.database,
        observe_queue=effects.observe_queue,
        now=crashes.env.clock(),
    )


def _create(process: Process) -> None:
    _request_creation(process.crashes, process.effects)
    process.observe()


def _change_to(desired: str) -> Callable[[Process], None]:
    def perform(process: Process) -> None:
        change, now = Change(desired_state=DesiredState(desired)), process.crashes.env.clock()
        process.request(lambda owner, workspace_id: owner_api.change(owner, workspace_id, change, now))

    return perform


def _connect(process: Process) -> None:
    process.request(lambda owner, workspace_id: owner_api.connect(owner, workspace_id, process.crashes.env.clock()))


def _delete(process: Process) -> None:
    process.request(lambda owner, workspace_id: owner_api.delete(owner, workspace_id, process.crashes.env.clock()))


def _hand_over(process: Process) -> None:
    """Control leaves long work to storage."""
    process.crashes.env.set_desired_state(process.crashes.only, "ARCHIVED")
    process.observe(does_long_work=False)
    process.observe(does_long_work=True)


def _tick(process: Process) -> None:
    tick(process.effects)
    process.observe()


def _page(process: Process) -> None:
    observe_fleet_page(ObservePage(0, 0), process.effects)
    process.observe()


def _collect(process: Process) -> None:
    effects = process.effects
    collect(effects.database, effects.provider.archives, now=process.crashes.env.clock())


def _nothing(_crashes: WorkspaceCrashes) -> None:
    """There is no workspace."""


def _in(phase: str) -> Callable[[WorkspaceCrashes], object]:
    return lambda crashes: crashes.create_in(phase)


def _in_error(crashes: WorkspaceCrashes) -> None:
    """There are a container, a volume, an archive, and what an interrupted restore left."""
    workspace_id = crashes.create_in("RUNNING")
    with crashes.env.database.connection() as connection, store.writing(connection, Writer.RECONCILER):
        connection.execute(
            'UPDATE workspaces SET error_info = \'{"reason": "Broken", "message": "",'
            ' "is_terminal": true, "retry_count": 3, "operation": "NONE",'
            ' "failed_at": "2026-01-01T00:00:00+00:00", "context": {}}\''
        )
    crashes.env.observe(workspace_id)
    crashes.fleet.volumes.prepare(workspace_id, "left-by-a-restore")


def _half_restored(crashes: WorkspaceCrashes) -> None:
    """It is ARCHIVED, and an abandoned restore left half a home."""
    workspace_id = crashes.create_in("ARCHIVED")
    crashes.fleet.volumes.prepare(workspace_id, "left-by-a-restore")


def _idle(crashes: WorkspaceCrashes) -> None:
    crashes.create_in("RUNNING", standby_ttl_seconds=600)
    crashes.env.pass_time(700)


def _killed_outside(crashes: WorkspaceCrashes) -> None:
    workspace_id = crashes.create_in("RUNNING")
    crashes.env.pass_time(700)
    crashes.env.observe(workspace_id)
    del crashes.fleet.containers.running[workspace_id]


def _archived_often(crashes: WorkspaceCrashes) -> None:
    """Three archives, of which two are garbage."""
    workspace_id = crashes.create_in("ARCHIVED")
    for desired in ("STANDBY", "ARCHIVED"):
        crashes.env.set_desired_state(workspace_id, desired)
        crashes.env.drive_to(workspace_id, desired)
    crashes.env.pass_time(HOURS)


def _create_again(crashes: WorkspaceCrashes) -> None:
    _request_creation(crashes, crashes.env.effects())
    crashes.env.observe(crashes.only)


def _change_again(desired: str) -> Callable[[WorkspaceCrashes], object]:
    return lambda crashes: crashes.env.set_desired_state(crashes.only, desired)


def _connect_again(crashes: WorkspaceCrashes) -> None:
    owner_api.connect(crashes.env.owner, str(crashes.only), crashes.env.clock())


def _delete_again(crashes: WorkspaceCrashes) -> None:
    crashes.env.delete(crashes.only)


_OBSERVING = {"provider.containers.observe", "provider.volumes.observe", "postgres.record_observation"}
_RESTORING = {"provider.volumes.prepare", "provider.volumes.install", "provider.archives.read"}
_PROVING = {"provider.archives.write", "provider.archives.write_proof", "provider.archives.head"}
_REMOVING = {"provider.volumes.delete", "postgres.note_action", "postgres.acquire_lease", "postgres.complete"}
ACTS = {
    "create": Act(
        _create,
        _nothing,
        "RUNNING",
        frozenset(_OBSERVING | _RESTORING | _PROVING | {"postgres.insert", "sqs.send_message_batch", "postgres.begin"}),
        home=b"",
        repeat=_create_again,
    ),
    "archive": Act(
        _change_to("ARCHIVED"),
        _in("RUNNING"),
        "ARCHIVED",
        frozenset(_OBSERVING | _PROVING | _REMOVING | {"provider.containers.stop", "sqs.send_message_batch"}),
        repeat=_change_again("ARCHIVED"),
    ),
    "hand-over": Act(
        _hand_over,
        _in("STANDBY"),
        "ARCHIVED",
        frozenset(_PROVING | _REMOVING | {"postgres.hand_over", "postgres.plan_observation", "sqs.send_message"}),
        repeat=_change_again("ARCHIVED"),
    ),
    "wake": Act(
        _connect,
        _in("ARCHIVED"),
        "RUNNING",
        frozenset(_OBSERVING | _RESTORING | {"provider.containers.start", "postgres.wake"}),
        repeat=_connect_again,
    ),
    "discard": Act(
        _change_to("PENDING"),
        _in("ARCHIVED"),
        "PENDING",
        frozenset(_OBSERVING | {"postgres.note_action", "postgres.complete"}),
        home=None,
        repeat=_change_again("PENDING"),
    ),
    "delete": Act(
        _delete,
        _half_restored,
        "DELETED",
        frozenset(_OBSERVING | _REMOVING | {"postgres.delete"}),
        repeat=_delete_again,
    ),
    "delete-error": Act(
        _delete,
        _in_error,
        "DELETED",
        frozenset(_OBSERVING | _REMOVING | {"provider.containers.stop"}),
        repeat=_delete_again,
    ),
    "tick": Act(
        _tick,
        _idle,
        "STANDBY",
        frozenset({"postgres.lower_idle", "postgres.claim_unsettled", "postgres.unsettled", "sqs.send_message"}),
    ),
    "page": Act(
        _page, _killed_outside, "RUNNING", frozenset(_OBSERVING | {"postgres.fleet_page", "provider.containers.start"})
    ),
    "collect": Act(
        _collect,
        _archived_often,
        "ARCHIVED",
        frozenset({"provider.archives.page", "provider.archives.delete", "postgres.find_many"}),
    ),
}


@pytest.fixture(scope="module")
def crashes(shared_database: str) -> Iterator[WorkspaceCrashes]:
    """One for the whole module."""
    fleet = MemoryProvider()
    with open_environment(shared_database, provider_of(fleet)) as env:
        fleet.archives.now = env.clock
        yield WorkspaceCrashes(env, fleet, ACTS)


@pytest.mark.parametrize("act", list(ACTS))
def test_every_port_is_among_the_points(crashes: WorkspaceCrashes, act: str) -> None:
    """A recording that misses calls would pass, too."""
    assert ACTS[act].calls <= {point.name for point in crashes.record(act)}
    assert crashes.is_at_end(act)


@pytest.mark.parametrize("act", list(ACTS))
def test_crash_at_any_call_loses_no_home_and_leaves_nothing(crashes: WorkspaceCrashes, act: str) -> None:
    """WS-1 … WS-13: all calls of this act, one after the other."""
    assert list(crashes.crash_everywhere(act)) == []


def _forget_the_proof(patch: pytest.MonkeyPatch) -> None:
    """The archive is recorded without its proof, so that its volume is never deleted."""
    real = _ACTIONS[Action.ARCHIVE_HOME]

    def archive(*args: Any) -> _Recorded:
        done = real(*args)
        return _Recorded(done.archive_key, replace(done.home, archive=None))

    patch.setitem(_ACTIONS, Action.ARCHIVE_HOME, archive)


def _delete_unproved(patch: pytest.MonkeyPatch) -> None:
    """The volume goes once its container has, with the archive still to be made."""
    rule = RULES[Operation.ARCHIVING]
    early = replace(rule, action=lambda row: Action.DELETE_VOLUME if row.volume_ready else rule.action(row))
    patch.setitem(cast(dict[Operation, OperationRule], RULES), Operation.ARCHIVING, early)


def _complete_unobserved(patch: pytest.MonkeyPatch) -> None:
    """An operation completes without an observation (WS-1)."""
    real = planner.next_step

    def step(row: Workspace, now: datetime) -> Step:
        found = real(row, now)
        starts = row.operation is Operation.STARTING
        return replace(found, kind=StepKind.COMPLETE, operation=row.operation) if starts else found

    patch.setattr("dpp.workspaces.control.reconcile.next_step", step)


def _keep_leftovers(patch: pytest.MonkeyPatch) -> None:
    """Leftovers of restores are not deleted."""
    patch.setattr("dpp.workspaces.machine._is_cleaned_up", lambda _: True)


@pytest.mark.parametrize(
    ("plant", "act", "violation"),
    [
        (_forget_the_proof, "archive", "it is Workspace"),
        (_delete_unproved, "archive", "has lost its home"),
        (_complete_unobserved, "wake", "it is complete and was not observed"),
        (_keep_leftovers, "delete", "homes are left"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_planted_fault_is_found(
    crashes: WorkspaceCrashes, monkeypatch: pytest.MonkeyPatch, plant: Plant, act: str, violation: str
) -> None:
    """Without these the matrix could pass by finding nothing."""
    crashes.arrange(act)
    plant(monkeypatch)
    crashes.play(act, FaultInjector(act))
    crashes.recover(act)
    found = list(crashes.violations(act))
    assert any(violation in one for one in found), found
