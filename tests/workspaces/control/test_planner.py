"""The planner: only neighbours, one operation, no volume deleted before its archive is proved (WS-5, WS-7, WS-8)."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.workspaces.control import planner
from dpp.workspaces.control.conditions import calculate_phase
from dpp.workspaces.machine import DOWN, LONG_ACTIONS, OPERATIONS, REQUESTABLE_STATES, RULES, UP, Action
from dpp.workspaces.model import (
    ARCHIVE_READY,
    LEVELS,
    VOLUME_READY,
    Condition,
    DesiredState,
    HomeContext,
    Operation,
    Phase,
    Workspace,
)
from tests.workspaces import rows

JUST_NOW = rows.NOON - timedelta(seconds=1)
ORDER = (Phase.PENDING, Phase.ARCHIVED, Phase.STANDBY, Phase.RUNNING)

# 003 §5, "전이 규칙": phase, desired state, the operation of the next step, and its target.
STEPS = [
    (Phase.PENDING, "ARCHIVED", Operation.PROVISIONING, Phase.ARCHIVED),
    (Phase.PENDING, "STANDBY", Operation.PROVISIONING, Phase.ARCHIVED),
    (Phase.PENDING, "RUNNING", Operation.PROVISIONING, Phase.ARCHIVED),
    (Phase.ARCHIVED, "STANDBY", Operation.RESTORING, Phase.STANDBY),
    (Phase.ARCHIVED, "RUNNING", Operation.RESTORING, Phase.STANDBY),
    (Phase.STANDBY, "RUNNING", Operation.STARTING, Phase.RUNNING),
    (Phase.RUNNING, "STANDBY", Operation.STOPPING, Phase.STANDBY),
    (Phase.RUNNING, "ARCHIVED", Operation.STOPPING, Phase.STANDBY),
    (Phase.RUNNING, "PENDING", Operation.STOPPING, Phase.STANDBY),
    (Phase.STANDBY, "ARCHIVED", Operation.ARCHIVING, Phase.ARCHIVED),
    (Phase.STANDBY, "PENDING", Operation.ARCHIVING, Phase.ARCHIVED),
    (Phase.ARCHIVED, "PENDING", Operation.DISCARDING, Phase.PENDING),
]


@pytest.mark.parametrize(("phase", "desired", "operation", "target"), STEPS)
def test_next_step_leads_to_a_neighbour(phase: Phase, desired: str, operation: Operation, target: Phase) -> None:
    """WS-8: never from RUNNING to PENDING directly."""
    step = planner.next_step(rows.at_rest(phase, DesiredState(desired)), rows.NOON)
    assert (step.kind, step.operation) == (planner.Kind.BEGIN, operation)
    assert RULES[operation].target is target
    assert abs(ORDER.index(phase) - ORDER.index(target)) == 1


@pytest.mark.parametrize("phase", ORDER)
def test_workspace_in_its_desired_state_rests(phase: Phase) -> None:
    """WS-5: it is observed every half minute."""
    step = planner.next_step(rows.at_rest(phase, DesiredState(phase.value)), rows.NOON)
    assert (step.kind, step.observe_in_seconds) == (planner.Kind.REST, planner.OBSERVE_WHEN_STABLE_SECONDS)


def test_every_operation_but_deleting_leads_to_a_neighbour() -> None:
    """WS-8: DELETING starts in any phase."""
    for operation in (*UP.values(), *DOWN.values()):
        rule = RULES[operation]
        assert rule.source is not None
        assert abs(ORDER.index(rule.source) - ORDER.index(rule.target)) == 1
    assert {rule.operation for rule in OPERATIONS} - {*UP.values(), *DOWN.values()} == {Operation.DELETING}
    assert {RULES[op].target for op in UP.values()} == set(ORDER[1:])
    assert {RULES[op].target for op in DOWN.values()} == set(ORDER[:-1])


def test_intervals_of_observations_are_the_documents() -> None:
    """003 §2: 2 s in an operation, 5 s to converge, 30 s when stable (WS-5)."""
    found = (
        planner.OBSERVE_IN_OPERATION_SECONDS,
        planner.OBSERVE_TO_CONVERGE_SECONDS,
        planner.OBSERVE_WHEN_STABLE_SECONDS,
    )
    assert found == (2, 5, 30)


@pytest.mark.parametrize("operation", [rule.operation for rule in OPERATIONS])
@pytest.mark.parametrize("desired", REQUESTABLE_STATES)
@pytest.mark.parametrize("phase", ORDER)
def test_nothing_begins_while_an_operation_is_under_way(
    operation: Operation, desired: DesiredState, phase: Phase
) -> None:
    """WS-7: even if the desired state changes meanwhile, the operation continues to its end."""
    step = planner.next_step(rows.at_rest(phase, desired, operation=operation), rows.NOON)
    assert step.kind is not planner.Kind.BEGIN
    assert step.operation in {operation, Operation.NONE}


@pytest.mark.parametrize("desired", REQUESTABLE_STATES)
@pytest.mark.parametrize(("container", "volume", "archive"), list(product((True, False), repeat=3)))
def test_error_blocks_until_an_operator_acts(
    container: bool, volume: bool, archive: bool, desired: DesiredState
) -> None:
    """WS-4, WS-14: nothing begins in ERROR, or while a terminal error is not observed yet."""
    broken = rows.workspace(container, volume, archive, desired_state=desired, error_info=rows.terminal())
    assert broken.phase is Phase.ERROR
    assert planner.next_step(broken, rows.NOON).kind is planner.Kind.BLOCKED
    not_observed_yet = replace(broken, phase=Phase.STANDBY, conditions=rows.conditions(False, True, True))
    assert planner.next_step(not_observed_yet, rows.NOON).kind is planner.Kind.BLOCKED


def test_container_without_its_volume_blocks() -> None:
    """WS-9: it was started, or its volume deleted, from outside."""
    step = planner.next_step(rows.workspace(container=True, volume=False, archive=True), rows.NOON)
    assert step.kind is planner.Kind.BLOCKED
    assert "ContainerWithoutVolume" in step.why


# 003 §7, "ARCHIVING 완료 조건" and "RESTORING 완료 조건", and the same for the other operations: observed container,
# volume and archive, archive_key, home → complete or not.
_PROVED = rows.home(archive=rows.OWN_KEY)
COMPLETION: list[tuple[Operation, tuple[bool, bool, bool], str | None, HomeContext, bool]] = [
    (Operation.ARCHIVING, (False, False, True), rows.OWN_KEY, _PROVED, True),
    (Operation.ARCHIVING, (False, True, True), rows.OWN_KEY, _PROVED, False),
    (Operation.ARCHIVING, (False, False, False), rows.OWN_KEY, _PROVED, False),
    (Operation.ARCHIVING, (False, False, False), None, _PROVED, False),
    (Operation.ARCHIVING, (False, False, True), rows.OTHER_KEY, rows.home(), False),
    (Operation.ARCHIVING, (False, False, True), rows.OWN_KEY, rows.home(), False),
    (Operation.RESTORING, (False, True, True), rows.OTHER_KEY, rows.home(), True),
    (Operation.RESTORING, (False, False, True), rows.OTHER_KEY, rows.home(), False),
    (Operation.RESTORING, (False, True, True), rows.OTHER_KEY, rows.home(marker=None), False),
    (Operation.RESTORING, (False, True, True), rows.OTHER_KEY, rows.home(marker=rows.OWN_KEY), False),
    (Operation.PROVISIONING, (False, False, True), rows.OWN_KEY, rows.home(None, rows.OWN_KEY), True),
    (Operation.PROVISIONING, (False, False, False), None, rows.home(None, None), False),
    (Operation.STARTING, (True, True, True), rows.OTHER_KEY, rows.home(), True),
    (Operation.STARTING, (False, True, True), rows.OTHER_KEY, rows.home(), False),
    (Operation.STOPPING, (False, True, True), rows.OTHER_KEY, rows.home(), True),
    (Operation.STOPPING, (True, True, True), rows.OTHER_KEY, rows.home(), False),
    (Operation.DISCARDING, (False, False, False), None, rows.home(None, None), True),
    (Operation.DISCARDING, (False, False, True), rows.OTHER_KEY, rows.home(None), False),
    (Operation.DELETING, (False, False, False), None, rows.home(None, None, last_action="DELETE_VOLUME"), True),
    (Operation.DELETING, (False, False, False), None, rows.home(None, None, last_action="FORGET_ARCHIVE"), True),
    (Operation.DELETING, (False, False, False), None, rows.home(None, None, last_action="STOP_CONTAINER"), False),
    (Operation.DELETING, (False, False, False), None, rows.home(None, None), False),
    (Operation.DELETING, (True, False, False), None, rows.home(None, None), False),
    (Operation.DELETING, (False, True, False), None, rows.home(None, None), False),
    (Operation.DELETING, (False, False, True), rows.OTHER_KEY, rows.home(None), False),
]


@pytest.mark.parametrize(("operation", "there", "key", "known", "complete"), COMPLETION)
def test_operation_is_complete_when_it_was_observed_to_be(
    operation: Operation, there: tuple[bool, bool, bool], key: str | None, known: HomeContext, complete: bool
) -> None:
    """WS-1, WS-11: no single condition is enough."""
    deleted = rows.NOON if operation is Operation.DELETING else None
    desired = DesiredState.DELETED if deleted else DesiredState.RUNNING
    one = rows.workspace(
        *there, operation=operation, archive_key=key, home_ctx=known, deleted_at=deleted, desired_state=desired
    )
    assert (planner.next_step(one, rows.NOON).kind is planner.Kind.COMPLETE) == complete
    # An observation from before the last action proves nothing.
    stale = replace(one, acted_at=one.observed_at)
    assert planner.next_step(stale, rows.NOON).kind is not planner.Kind.COMPLETE


@pytest.mark.parametrize(
    ("changes", "action"),
    [
        # Not archived yet; an older archive is available (003 §8 would delete the volume here).
        ({"archive_key": rows.OTHER_KEY, "home_ctx": rows.home()}, Action.ARCHIVE_HOME),
        ({"archive_key": None, "home_ctx": rows.home(archive=None)}, Action.ARCHIVE_HOME),
        # The key is set, but not the proof.
        ({"archive_key": rows.OWN_KEY, "home_ctx": rows.home()}, Action.ARCHIVE_HOME),
        # Proved and observed.
        ({"archive_key": rows.OWN_KEY, "home_ctx": rows.home(archive=rows.OWN_KEY)}, Action.DELETE_VOLUME),
        # Proved, and not observed since.
        ({"archive_key": rows.OWN_KEY, "home_ctx": rows.home(archive=rows.OWN_KEY), "acted_at": JUST_NOW}, None),
    ],
)
def test_volume_is_deleted_when_its_own_archive_is_proved_and_observed(
    changes: dict[str, Any], action: Action | None
) -> None:
    """WS-12: archive_key first, then the volume."""
    one = rows.workspace(volume=True, archive=True, operation=Operation.ARCHIVING, **changes)
    assert planner.next_step(one, rows.NOON).action is action


def test_deletion_removes_container_then_volume_then_archive_key() -> None:
    """WS-12, 003 §8; the collection deletes the archive (003 §9)."""
    deleted: dict[str, Any] = {
        "deleted_at": rows.NOON - timedelta(minutes=1),
        "desired_state": DesiredState.DELETED,
        "operation": Operation.DELETING,
    }
    found = [
        planner.next_step(
            rows.workspace(*there, home_ctx=rows.home(last_action=done), archive_key=key, **deleted), rows.NOON
        )
        for there, key, done in (
            ((True, True, True), rows.OTHER_KEY, None),
            ((False, True, True), rows.OTHER_KEY, "STOP_CONTAINER"),
            ((False, False, True), rows.OTHER_KEY, "STOP_CONTAINER"),  # leftovers of a restore are no volume
            ((False, False, True), rows.OTHER_KEY, "DELETE_VOLUME"),
            ((False, False, False), None, "FORGET_ARCHIVE"),
        )
    ]
    assert [step.action for step in found] == [
        Action.STOP_CONTAINER,
        Action.DELETE_VOLUME,
        Action.DELETE_VOLUME,
        Action.FORGET_ARCHIVE,
        None,
    ]
    assert found[-1].kind is planner.Kind.COMPLETE


def test_starting_container_is_stopped_before_the_home_is_archived() -> None:
    """WS-12: a container that is not ready may still start, and write."""
    starting = Condition(False, "ContainerStarting", "", rows.NOON)
    archiving = rows.workspace(
        volume=True, archive=True, operation=Operation.ARCHIVING, home_ctx=rows.home(), archive_key=rows.OTHER_KEY
    )
    one = replace(archiving, conditions=dict(archiving.conditions) | {rows.INFRA: starting})
    assert planner.next_step(one, rows.NOON).action is Action.STOP_CONTAINER
    deleting = replace(one, operation=Operation.DELETING, deleted_at=rows.NOON, desired_state=DesiredState.DELETED)
    assert planner.next_step(deleting, rows.NOON).action is Action.STOP_CONTAINER


def test_lost_home_is_never_replaced_without_an_order() -> None:
    """If a volume is deleted from outside, neither an empty home nor an older one replaces it."""
    for archive in (True, False):
        step = planner.next_step(rows.workspace(archive=archive, home_ctx=rows.home()), rows.NOON)
        assert (step.kind, step.reason, step.is_terminal) == (planner.Kind.LOSE, "DataLost", True)


def test_volume_missing_in_one_observation_is_not_lost_yet() -> None:
    since = rows.NOON - timedelta(seconds=planner.LOSS_GRACE_SECONDS - 1)
    away = rows.workspace(archive=True, home_ctx=rows.home())
    made = dict(away.conditions) | {VOLUME_READY: Condition(False, "VolumeNotFound", "", since)}
    assert planner.next_step(replace(away, conditions=made), rows.NOON).kind is planner.Kind.WAIT


def test_container_does_not_start_on_a_volume_without_a_marker() -> None:
    """003 §7: without a marker no start; RESTORING determines the state of the volume."""
    for desired in REQUESTABLE_STATES:
        step = planner.next_step(rows.at_rest(Phase.STANDBY, desired, home_ctx=rows.home(marker=None)), rows.NOON)
        assert step.operation is Operation.RESTORING


def _starting(**changes: Any) -> Workspace:
    """A workspace in STARTING whose container is not observed."""
    changes = {"home_ctx": rows.home()} | changes
    return rows.workspace(volume=True, archive=True, operation=Operation.STARTING, **changes)


def test_action_is_not_repeated_before_its_effect_can_be_observed() -> None:
    """An action that succeeded without effect is repeated after a while, not at each observation."""
    acted = rows.NOON - timedelta(seconds=planner.SETTLE_SECONDS)
    one = _starting(home_ctx=rows.home(last_action="START_CONTAINER"), acted_at=acted)
    assert planner.next_step(one, rows.NOON - timedelta(milliseconds=1)).kind is planner.Kind.WAIT
    assert planner.next_step(one, rows.NOON).action is Action.START_CONTAINER


def test_failed_action_is_retried_after_one_observation() -> None:
    """WS-14: the retry is immediate, but an observation comes first, since the action may have taken effect."""
    failed_at = rows.NOON - timedelta(seconds=2)
    error = rows.failed(Operation.STARTING, 1, failed_at)
    one = _starting(home_ctx=rows.home(last_action="START_CONTAINER"), acted_at=failed_at, error_info=error)
    assert planner.next_step(one, rows.NOON).action is Action.START_CONTAINER
    assert planner.next_step(replace(one, observed_at=failed_at), rows.NOON).kind is planner.Kind.WAIT
    done = replace(one, conditions=rows.conditions(True, True, True, archive_key=rows.OTHER_KEY))
    assert planner.next_step(done, rows.NOON).kind is planner.Kind.COMPLETE


def test_operation_ends_after_three_failures_unless_observed_complete() -> None:
    """WS-14; 003 §1: the observation counts, not the result of the call."""
    failed_at = rows.NOON - timedelta(seconds=2)
    error = rows.failed(Operation.STARTING, 3, failed_at, "ImageMissing")
    one = _starting(acted_at=failed_at, error_info=error)
    step = planner.next_step(one, rows.NOON)
    assert (step.kind, step.reason, step.is_terminal) == (planner.Kind.FAIL, "ImageMissing", True)
    assert planner.next_step(replace(one, observed_at=failed_at), rows.NOON).kind is planner.Kind.WAIT
    done = replace(one, conditions=rows.conditions(True, True, True, archive_key=rows.OTHER_KEY))
    assert planner.next_step(done, rows.NOON).kind is planner.Kind.COMPLETE


@pytest.mark.parametrize("rule", OPERATIONS)
def test_operation_that_is_not_observed_complete_in_time_fails(rule: Any) -> None:
    """After a hang, or an action without effect."""
    there = (True, True, True) if rule.operation is not Operation.STARTING else (False, True, True)
    began = rows.NOON - timedelta(seconds=rule.deadline_seconds + 1)
    deleted = rows.NOON - timedelta(days=1) if rule.operation is Operation.DELETING else None
    one = rows.workspace(
        *there,
        operation=rule.operation,
        op_started_at=began,
        tried_at=began,
        deleted_at=deleted,
        desired_state=DesiredState.DELETED if deleted else DesiredState.RUNNING,
        home_ctx=rows.home(marker=None),
    )
    step = planner.next_step(one, rows.NOON)
    assert (step.kind, step.reason, step.is_terminal) == (planner.Kind.FAIL, "OperationTimeout", False)
    # Without a try, nothing is late.
    assert planner.next_step(replace(one, tried_at=None), rows.NOON).kind is not planner.Kind.FAIL


def test_operation_in_error_ends_at_its_deadline() -> None:
    """003 §5: a workspace in ERROR can be deleted, but not during an operation."""
    one = rows.workspace(container=True, volume=False, archive=True, operation=Operation.RESTORING)
    assert planner.next_step(one, rows.NOON).kind is planner.Kind.WAIT
    late = rows.NOON + timedelta(seconds=RULES[Operation.RESTORING].deadline_seconds)
    step = planner.next_step(one, late)
    assert (step.kind, step.reason, step.is_terminal) == (planner.Kind.FAIL, "ContainerWithoutVolume", True)


def test_outage_delays_the_next_attempt() -> None:
    """WS-14: the backoff of the controller."""
    one = _starting(error_count=4, next_attempt_at=rows.NOON + timedelta(seconds=8))
    step = planner.next_step(one, rows.NOON)
    assert (step.kind, step.observe_in_seconds) == (planner.Kind.WAIT, 8)
    assert planner.next_step(one, rows.NOON + timedelta(seconds=8)).kind is planner.Kind.ACT


def test_container_that_keeps_ending_is_restarted_with_backoff() -> None:
    """WS-14: a crash loop must not cost a start every five seconds."""
    crashed = rows.at_rest(
        Phase.STANDBY, DesiredState.RUNNING, start_count=5, settled_at=rows.NOON - timedelta(seconds=10)
    )
    step = planner.next_step(crashed, rows.NOON)
    assert (step.kind, step.observe_in_seconds) == (planner.Kind.WAIT, 6)
    assert planner.next_step(crashed, rows.NOON + timedelta(seconds=6)).operation is Operation.STARTING
    # A container that ran for ten minutes is restarted at once.
    ran = replace(crashed, settled_at=rows.NOON - timedelta(seconds=600))
    assert planner.next_step(ran, rows.NOON).operation is Operation.STARTING


def test_no_decision_on_a_stale_observation() -> None:
    """WS-5."""
    one = rows.at_rest(Phase.STANDBY, DesiredState.RUNNING, settled_at=JUST_NOW)
    assert planner.next_step(one, rows.NOON).kind is planner.Kind.WAIT
    assert planner.next_step(replace(one, observed_at=None), rows.NOON).kind is planner.Kind.WAIT


def test_long_actions_are_those_that_depend_on_the_size_of_a_home() -> None:
    assert {Action.ARCHIVE_HOME, Action.RESTORE_HOME, Action.DELETE_VOLUME} <= LONG_ACTIONS
    assert not LONG_ACTIONS & {Action.START_CONTAINER, Action.STOP_CONTAINER, Action.FORGET_ARCHIVE}


# The effect of each action, if it succeeds.
def _act(one: Workspace, step: planner.Step) -> dict[str, Any]:
    there = {"container": one.container_ready, "volume": one.volume_ready}
    known, key = one.home_ctx, one.archive_key
    match step.action:
        case Action.WRITE_EMPTY_ARCHIVE:
            key, known = rows.OWN_KEY, rows.home(None, rows.OWN_KEY)
        case Action.RESTORE_HOME:
            there["volume"], known = True, rows.home(key, key)
        case Action.START_CONTAINER:
            there["container"] = True
        case Action.STOP_CONTAINER:
            there["container"] = False
        case Action.ARCHIVE_HOME:
            key, known = rows.OWN_KEY, replace(known, archive=rows.proof(rows.OWN_KEY))
        case Action.DELETE_VOLUME:
            assert key == rows.OWN_KEY or one.deleted_at is not None
            there["volume"] = False
        case Action.FORGET_ARCHIVE:
            key, known = None, HomeContext()
        case None:
            raise AssertionError
    known = replace(known, last_action=step.action.value)
    return {"there": (there["container"], there["volume"]), "archive_key": key, "home_ctx": known}


def _step(one: Workspace) -> Workspace:
    """The row after its next step and another observation."""
    step = planner.next_step(one, rows.NOON)
    there, key = (one.container_ready, one.volume_ready), one.archive_key
    changes: dict[str, Any] = {}
    match step.kind:
        case planner.Kind.BEGIN:
            changes = {"operation": step.operation, "op_id": rows.OP, "op_started_at": rows.NOON - timedelta(seconds=9)}
        case planner.Kind.ACT:
            done = _act(one, step)
            there, key = done.pop("there"), done["archive_key"]
            changes = done
        case planner.Kind.COMPLETE:
            ended = step.operation
            gone = HomeContext(archive=one.home_ctx.archive)
            changes = {
                "operation": Operation.NONE,
                "op_started_at": None,
                "home_ctx": gone if ended is Operation.ARCHIVING else one.home_ctx,
                "cleaned_at": rows.NOON if ended is Operation.DELETING else None,
            }
        case _:
            return one
    made = rows.conditions(*there, key is not None, archive_key=key, at=rows.NOON - timedelta(minutes=5))
    return replace(one, **changes, conditions=made, phase=calculate_phase(made, one.deleted_at))


@pytest.mark.parametrize("desired", REQUESTABLE_STATES)
@pytest.mark.parametrize("phase", ORDER)
def test_converges_from_every_phase_to_every_desired_state_through_neighbours(
    phase: Phase, desired: DesiredState
) -> None:
    """WS-8, if actions succeed; each phase on the path is a neighbour of the previous one."""
    one = rows.at_rest(phase, desired)
    path = [one.phase]
    for _ in range(40):
        one = _step(one)
        if one.phase is not path[-1]:
            path.append(one.phase)
    assert one.phase.value == desired.value
    assert one.operation is Operation.NONE
    levels = [ORDER.index(each) for each in path]
    assert all(abs(after - before) == 1 for before, after in pairwise(levels))
    assert len(path) == 1 + abs(ORDER.index(phase) - ORDER.index(Phase(desired.value)))


@pytest.mark.parametrize("there", [*rows.PHASES.values(), (True, False, True), (True, False, False)])
def test_deletion_leaves_nothing_in_any_state(there: tuple[bool, bool, bool]) -> None:
    """003 §5: a workspace in ERROR can be deleted, whatever exists of it."""
    one = rows.workspace(*there, home_ctx=rows.home(), deleted_at=rows.NOON, desired_state=DesiredState.DELETED)
    for _ in range(12):
        one = _step(one)
    assert one.cleaned_at is not None
    assert (one.container_ready, one.volume_ready, one.archive_key) == (False, False, None)


_STATES = st.builds(
    lambda there, key, operation, marker, proved, desired, retries, fresh, late: rows.workspace(
        *there,
        archive_key=key,
        operation=operation,
        desired_state=desired,
        home_ctx=HomeContext(marker, marker and "g1", rows.proof(proved) if proved else None),
        error_info=rows.failed(operation, retries, rows.NOON - timedelta(seconds=40)) if retries else None,
        acted_at=None if operation is Operation.NONE else rows.NOON - timedelta(seconds=0 if fresh else 50),
        settled_at=rows.NOON - timedelta(seconds=60),
        op_started_at=None if operation is Operation.NONE else rows.NOON - timedelta(seconds=100_000 if late else 55),
    ),
    there=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    key=st.sampled_from((None, rows.OWN_KEY, rows.OTHER_KEY)),
    operation=st.sampled_from([one for one in Operation if one is not Operation.DELETING]),
    marker=st.sampled_from((None, rows.OWN_KEY, rows.OTHER_KEY)),
    proved=st.sampled_from((None, rows.OWN_KEY, rows.OTHER_KEY)),
    desired=st.sampled_from(REQUESTABLE_STATES),
    retries=st.integers(0, 4),
    fresh=st.booleans(),
    late=st.booleans(),
)


@given(_STATES)
def test_any_row_has_one_step_and_no_volume_is_deleted_without_its_archive(one: Workspace) -> None:
    """WS-3, WS-7, WS-11, WS-12: including rows that the code never writes."""
    step = planner.next_step(one, rows.NOON)
    assert step.why
    assert step.observe_in_seconds in range(1, 31)
    if one.operation is not Operation.NONE:
        assert step.kind is not planner.Kind.BEGIN
    if step.kind is planner.Kind.BEGIN:
        rule = RULES[step.operation]
        assert rule.source is one.phase or step.operation is Operation.RESTORING
        assert one.phase in LEVELS
    if step.action is Action.DELETE_VOLUME:
        assert one.operation is Operation.ARCHIVING
        assert one.archive_key == rows.OWN_KEY
        assert one.home_ctx.archive == rows.proof(rows.OWN_KEY)
        assert one.conditions[ARCHIVE_READY].status
        assert one.observed_at is not None
        assert one.acted_at is not None
        assert one.observed_at > one.acted_at
    if step.action is Action.WRITE_EMPTY_ARCHIVE or step.operation is Operation.PROVISIONING:
        # An empty home is created only for a new workspace, or on an operator's order.
        assert one.home_ctx.restore_marker is None or one.operation is Operation.PROVISIONING
    if step.action is Action.START_CONTAINER:
        assert not one.conditions[rows.INFRA].status
