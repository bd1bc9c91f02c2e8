"""The planner: neighbours only, one operation, no volume gone before its archive is proved (WS-5, WS-7, WS-8)."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.workspaces.control.conditions import calculate_phase
from dpp.workspaces.control.planner import (
    LOSS_GRACE_SECONDS,
    OBSERVE_IN_OPERATION_SECONDS,
    OBSERVE_TO_CONVERGE_SECONDS,
    OBSERVE_WHEN_STABLE_SECONDS,
    SETTLE_SECONDS,
    Kind,
    Step,
    next_step,
)
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
from tests.workspaces.rows import (
    INFRA,
    NOON,
    OP,
    OTHER_KEY,
    OWN_KEY,
    PHASES,
    at_rest,
    conditions,
    failed,
    home,
    proof,
    terminal,
    workspace,
)

ORDER = (Phase.PENDING, Phase.ARCHIVED, Phase.STANDBY, Phase.RUNNING)

# 003 §5, "전이 규칙": from a phase towards a wish, the operation of the next step and where it leads.
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


@pytest.mark.parametrize(("phase", "wanted", "operation", "target"), STEPS)
def test_the_next_step_is_a_neighbour(phase: Phase, wanted: str, operation: Operation, target: Phase) -> None:
    """WS-8: RUNNING to PENDING never at once."""
    step = next_step(at_rest(phase, DesiredState(wanted)), NOON)
    assert (step.kind, step.operation) == (Kind.BEGIN, operation)
    assert RULES[operation].target is target
    assert abs(ORDER.index(phase) - ORDER.index(target)) == 1


@pytest.mark.parametrize("phase", ORDER)
def test_what_is_as_it_was_asked_for_is_left_alone(phase: Phase) -> None:
    """WS-5: and looked at every half minute."""
    step = next_step(at_rest(phase, DesiredState(phase.value)), NOON)
    assert (step.kind, step.observe_in_seconds) == (Kind.REST, OBSERVE_WHEN_STABLE_SECONDS)


def test_the_steps_up_and_down_are_all_the_machine_has() -> None:
    """WS-8: each operation leads from its source to a neighbour; DELETING alone comes from anywhere."""
    for operation in (*UP.values(), *DOWN.values()):
        rule = RULES[operation]
        assert rule.source is not None
        assert abs(ORDER.index(rule.source) - ORDER.index(rule.target)) == 1
    assert {rule.operation for rule in OPERATIONS} - {*UP.values(), *DOWN.values()} == {Operation.DELETING}
    assert {RULES[op].target for op in UP.values()} == set(ORDER[1:])
    assert {RULES[op].target for op in DOWN.values()} == set(ORDER[:-1])


def test_the_beats_are_the_documents() -> None:
    """003 §2: 2 s in an operation, 5 s to converge, 30 s when stable (WS-5)."""
    assert (OBSERVE_IN_OPERATION_SECONDS, OBSERVE_TO_CONVERGE_SECONDS, OBSERVE_WHEN_STABLE_SECONDS) == (
        2,
        5,
        30,
    )


@pytest.mark.parametrize("operation", [rule.operation for rule in OPERATIONS])
@pytest.mark.parametrize("wanted", REQUESTABLE_STATES)
@pytest.mark.parametrize("phase", ORDER)
def test_nothing_begins_while_an_operation_is_under_way(
    operation: Operation, wanted: DesiredState, phase: Phase
) -> None:
    """WS-7: whatever is wanted by now. `desired_state` may change in the middle; the operation goes on to its end."""
    step = next_step(at_rest(phase, wanted, operation=operation), NOON)
    assert step.kind is not Kind.BEGIN
    assert step.operation in {operation, Operation.NONE}


@pytest.mark.parametrize("wanted", REQUESTABLE_STATES)
@pytest.mark.parametrize(("container", "volume", "archive"), list(product((True, False), repeat=3)))
def test_an_error_is_for_a_person(container: bool, volume: bool, archive: bool, wanted: DesiredState) -> None:
    """WS-4, WS-14: nothing begins in ERROR, and nothing while the reconciler's own error is terminal."""
    broken = workspace(container, volume, archive, desired_state=wanted, error_info=terminal())
    assert broken.phase is Phase.ERROR
    assert next_step(broken, NOON).kind is Kind.BLOCKED
    not_seen_yet = replace(broken, phase=Phase.STANDBY, conditions=conditions(False, True, True))
    assert next_step(not_seen_yet, NOON).kind is Kind.BLOCKED


def test_a_container_without_its_volume_is_for_a_person() -> None:
    """WS-9: started outside, or its volume deleted outside."""
    step = next_step(workspace(container=True, volume=False, archive=True), NOON)
    assert step.kind is Kind.BLOCKED
    assert "ContainerWithoutVolume" in step.why


# 003 §7, "ARCHIVING 완료 조건" and "RESTORING 완료 조건", and what each other operation is complete by: what was seen,
# archive_key, home → complete or not.
_PROVED = home(archive=OWN_KEY)
COMPLETION: list[tuple[Operation, tuple[bool, bool, bool], str | None, HomeContext, bool]] = [
    (Operation.ARCHIVING, (False, False, True), OWN_KEY, _PROVED, True),
    (Operation.ARCHIVING, (False, True, True), OWN_KEY, _PROVED, False),
    (Operation.ARCHIVING, (False, False, False), OWN_KEY, _PROVED, False),
    (Operation.ARCHIVING, (False, False, False), None, _PROVED, False),
    (Operation.ARCHIVING, (False, False, True), OTHER_KEY, home(), False),
    (Operation.ARCHIVING, (False, False, True), OWN_KEY, home(), False),
    (Operation.RESTORING, (False, True, True), OTHER_KEY, home(), True),
    (Operation.RESTORING, (False, False, True), OTHER_KEY, home(), False),
    (Operation.RESTORING, (False, True, True), OTHER_KEY, home(marker=None), False),
    (Operation.RESTORING, (False, True, True), OTHER_KEY, home(marker=OWN_KEY), False),
    (Operation.PROVISIONING, (False, False, True), OWN_KEY, home(None, OWN_KEY), True),
    (Operation.PROVISIONING, (False, False, False), None, home(None, None), False),
    (Operation.STARTING, (True, True, True), OTHER_KEY, home(), True),
    (Operation.STARTING, (False, True, True), OTHER_KEY, home(), False),
    (Operation.STOPPING, (False, True, True), OTHER_KEY, home(), True),
    (Operation.STOPPING, (True, True, True), OTHER_KEY, home(), False),
    (Operation.DISCARDING, (False, False, False), None, home(None, None), True),
    (Operation.DISCARDING, (False, False, True), OTHER_KEY, home(None), False),
    (Operation.DELETING, (False, False, False), None, home(None, None, last_action="DELETE_VOLUME"), True),
    (Operation.DELETING, (False, False, False), None, home(None, None, last_action="FORGET_ARCHIVE"), True),
    (Operation.DELETING, (False, False, False), None, home(None, None, last_action="STOP_CONTAINER"), False),
    (Operation.DELETING, (False, False, False), None, home(None, None), False),
    (Operation.DELETING, (True, False, False), None, home(None, None), False),
    (Operation.DELETING, (False, True, False), None, home(None, None), False),
    (Operation.DELETING, (False, False, True), OTHER_KEY, home(None), False),
]


@pytest.mark.parametrize(("operation", "there", "key", "known", "complete"), COMPLETION)
def test_an_operation_is_complete_when_it_was_seen_to_be(
    operation: Operation, there: tuple[bool, bool, bool], key: str | None, known: HomeContext, complete: bool
) -> None:
    """WS-1, WS-11: each condition alone isn't enough."""
    deleted = NOON if operation is Operation.DELETING else None
    wanted = DesiredState.DELETED if deleted else DesiredState.RUNNING
    one = workspace(
        *there, operation=operation, archive_key=key, home_ctx=known, deleted_at=deleted, desired_state=wanted
    )
    assert (next_step(one, NOON).kind is Kind.COMPLETE) == complete
    # What was seen before the last thing was done proves nothing.
    stale = replace(one, acted_at=one.observed_at)
    assert next_step(stale, NOON).kind is not Kind.COMPLETE


@pytest.mark.parametrize(
    ("changes", "action"),
    [
        # Not archived yet, though an older archive is there and can be had (003 §8 would delete the volume here).
        ({"archive_key": OTHER_KEY, "home_ctx": home()}, Action.ARCHIVE_HOME),
        ({"archive_key": None, "home_ctx": home(archive=None)}, Action.ARCHIVE_HOME),
        # The key stands, its proof doesn't.
        ({"archive_key": OWN_KEY, "home_ctx": home()}, Action.ARCHIVE_HOME),
        # Proved and seen: now the volume goes.
        ({"archive_key": OWN_KEY, "home_ctx": home(archive=OWN_KEY)}, Action.DELETE_VOLUME),
        # Proved, and not seen since.
        (
            {
                "archive_key": OWN_KEY,
                "home_ctx": home(archive=OWN_KEY),
                "acted_at": NOON - timedelta(seconds=1),
            },
            None,
        ),
    ],
)
def test_the_volume_goes_when_its_own_archive_is_proved_and_seen(
    changes: dict[str, Any], action: Action | None
) -> None:
    """WS-12: archive_key first, the volume afterwards."""
    one = workspace(volume=True, archive=True, operation=Operation.ARCHIVING, **changes)
    assert next_step(one, NOON).action is action


def test_a_deleted_workspace_loses_its_container_first_and_its_volume_second() -> None:
    """WS-12, 003 §8: and its archive last, which the collector takes (003 §9)."""
    deleted: dict[str, Any] = {
        "deleted_at": NOON - timedelta(minutes=1),
        "desired_state": DesiredState.DELETED,
        "operation": Operation.DELETING,
    }
    found = [
        next_step(workspace(*there, home_ctx=home(last_action=done), archive_key=key, **deleted), NOON)
        for there, key, done in (
            ((True, True, True), OTHER_KEY, None),
            ((False, True, True), OTHER_KEY, "STOP_CONTAINER"),
            ((False, False, True), OTHER_KEY, "STOP_CONTAINER"),  # what a restore left is no volume
            ((False, False, True), OTHER_KEY, "DELETE_VOLUME"),
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
    assert found[-1].kind is Kind.COMPLETE


def test_a_container_on_its_way_is_stopped_before_the_home_is_read() -> None:
    """WS-12: one that is not ready may still come up, and write."""
    coming = Condition(False, "ContainerStarting", "", NOON)
    archiving = workspace(
        volume=True, archive=True, operation=Operation.ARCHIVING, home_ctx=home(), archive_key=OTHER_KEY
    )
    one = replace(archiving, conditions=dict(archiving.conditions) | {INFRA: coming})
    assert next_step(one, NOON).action is Action.STOP_CONTAINER
    deleting = replace(one, operation=Operation.DELETING, deleted_at=NOON, desired_state=DesiredState.DELETED)
    assert next_step(deleting, NOON).action is Action.STOP_CONTAINER


def test_a_home_that_is_gone_is_never_replaced_unasked() -> None:
    """A volume deleted outside: neither an empty home nor an older one takes its place (issue)."""
    for archive, container in product((True, False), (False,)):
        gone = workspace(container, False, archive, home_ctx=home())
        step = next_step(gone, NOON)
        assert (step.kind, step.reason, step.is_terminal) == (Kind.LOSE, "DataLost", True)


def test_a_volume_that_is_away_for_one_look_is_waited_for() -> None:
    """A condition that flaps."""
    since = NOON - timedelta(seconds=LOSS_GRACE_SECONDS - 1)
    away = workspace(archive=True, home_ctx=home())
    made = dict(away.conditions) | {VOLUME_READY: Condition(False, "VolumeNotFound", "", since)}
    assert next_step(replace(away, conditions=made), NOON).kind is Kind.WAIT


def test_a_volume_whose_home_was_never_proved_is_not_started_on() -> None:
    """003 §7: no marker, no start; restoring finds out what the volume is."""
    for wanted in REQUESTABLE_STATES:
        step = next_step(at_rest(Phase.STANDBY, wanted, home_ctx=home(marker=None)), NOON)
        assert step.operation is Operation.RESTORING


def test_what_was_done_is_not_done_again_before_it_can_be_seen() -> None:
    """An actuator that returned success and did nothing is asked again after a while, not at each look."""
    acted = NOON - timedelta(seconds=SETTLE_SECONDS)
    one = workspace(
        volume=True,
        archive=True,
        operation=Operation.STARTING,
        home_ctx=home(last_action="START_CONTAINER"),
        acted_at=acted,
    )
    assert next_step(one, NOON - timedelta(milliseconds=1)).kind is Kind.WAIT
    assert next_step(one, NOON).action is Action.START_CONTAINER


def test_what_failed_is_done_again_at_once_after_one_look() -> None:
    """WS-14: short retries are immediate, and a look comes first: it may have been done."""
    failed_at = NOON - timedelta(seconds=2)
    one = workspace(
        volume=True,
        archive=True,
        operation=Operation.STARTING,
        home_ctx=home(last_action="START_CONTAINER"),
        acted_at=failed_at,
        error_info=failed(Operation.STARTING, 1, failed_at),
    )
    assert next_step(one, NOON).action is Action.START_CONTAINER
    assert next_step(replace(one, observed_at=failed_at), NOON).kind is Kind.WAIT
    done = replace(one, conditions=conditions(True, True, True, archive_key=OTHER_KEY))
    assert next_step(done, NOON).kind is Kind.COMPLETE


def test_an_operation_that_failed_three_times_ends_unless_it_was_done_all_the_same() -> None:
    """WS-14; 003 §1: what is observed counts, not what an actuator returned."""
    failed_at = NOON - timedelta(seconds=2)
    one = workspace(
        volume=True,
        archive=True,
        operation=Operation.STARTING,
        home_ctx=home(),
        acted_at=failed_at,
        error_info=failed(Operation.STARTING, 3, failed_at, "ImageMissing"),
    )
    step = next_step(one, NOON)
    assert (step.kind, step.reason, step.is_terminal) == (Kind.FAIL, "ImageMissing", True)
    assert next_step(replace(one, observed_at=failed_at), NOON).kind is Kind.WAIT
    done = replace(one, conditions=conditions(True, True, True, archive_key=OTHER_KEY))
    assert next_step(done, NOON).kind is Kind.COMPLETE


@pytest.mark.parametrize("rule", OPERATIONS)
def test_an_operation_that_is_never_seen_to_be_complete_fails(rule: Any) -> None:
    """A hang, or an actuator that does nothing: each attempt has its deadline."""
    there = (True, True, True) if rule.operation is not Operation.STARTING else (False, True, True)
    began = NOON - timedelta(seconds=rule.deadline_seconds + 1)
    deleted = NOON - timedelta(days=1) if rule.operation is Operation.DELETING else None
    one = workspace(
        *there,
        operation=rule.operation,
        op_started_at=began,
        tried_at=began,
        deleted_at=deleted,
        desired_state=DesiredState.DELETED if deleted else DesiredState.RUNNING,
        home_ctx=home(marker=None),
    )
    step = next_step(one, NOON)
    assert (step.kind, step.reason, step.is_terminal) == (Kind.FAIL, "OperationTimeout", False)
    # Nobody was at work, so nothing is late.
    assert next_step(replace(one, tried_at=None), NOON).kind is not Kind.FAIL


def test_an_operation_in_error_ends_at_its_deadline() -> None:
    """003 §5: ERROR can be deleted from, and that asks for no operation."""
    one = workspace(container=True, volume=False, archive=True, operation=Operation.RESTORING)
    assert next_step(one, NOON).kind is Kind.WAIT
    late = NOON + timedelta(seconds=RULES[Operation.RESTORING].deadline_seconds)
    step = next_step(one, late)
    assert (step.kind, step.reason, step.is_terminal) == (Kind.FAIL, "ContainerWithoutVolume", True)


def test_an_outage_is_waited_for() -> None:
    """WS-14: the controller's backoff."""
    one = workspace(
        volume=True,
        archive=True,
        operation=Operation.STARTING,
        home_ctx=home(),
        error_count=4,
        next_attempt_at=NOON + timedelta(seconds=8),
    )
    step = next_step(one, NOON)
    assert (step.kind, step.observe_in_seconds) == (Kind.WAIT, 8)
    assert next_step(one, NOON + timedelta(seconds=8)).kind is Kind.ACT


def test_a_container_that_keeps_ending_is_started_ever_later() -> None:
    """WS-14: a crash loop must not cost a start every five seconds."""
    crashed = at_rest(
        Phase.STANDBY, DesiredState.RUNNING, start_count=5, settled_at=NOON - timedelta(seconds=10)
    )
    step = next_step(crashed, NOON)
    assert (step.kind, step.observe_in_seconds) == (Kind.WAIT, 6)
    assert next_step(crashed, NOON + timedelta(seconds=6)).operation is Operation.STARTING
    # One that ran for ten minutes is started at once.
    ran = replace(crashed, settled_at=NOON - timedelta(seconds=600))
    assert next_step(ran, NOON).operation is Operation.STARTING


def test_what_nobody_looked_at_since_is_not_decided() -> None:
    """WS-5: the reconciler reads the last observation, and knows how old it is."""
    one = at_rest(Phase.STANDBY, DesiredState.RUNNING, settled_at=NOON - timedelta(seconds=1))
    assert next_step(one, NOON).kind is Kind.WAIT
    assert next_step(replace(one, observed_at=None), NOON).kind is Kind.WAIT


def test_long_work_is_what_depends_on_the_size_of_a_home() -> None:
    """It goes to the function that has the time."""
    assert {Action.ARCHIVE_HOME, Action.RESTORE_HOME, Action.DELETE_VOLUME} <= LONG_ACTIONS
    assert not LONG_ACTIONS & {Action.START_CONTAINER, Action.STOP_CONTAINER, Action.FORGET_ARCHIVE}


# A world in which actuators work: what each action leaves there.
def _act(one: Workspace, step: Step) -> dict[str, Any]:
    there = {"container": one.container_ready, "volume": one.volume_ready}
    known, key = one.home_ctx, one.archive_key
    match step.action:
        case Action.WRITE_EMPTY_ARCHIVE:
            key, known = OWN_KEY, home(None, OWN_KEY)
        case Action.RESTORE_HOME:
            there["volume"], known = True, home(key, key)
        case Action.START_CONTAINER:
            there["container"] = True
        case Action.STOP_CONTAINER:
            there["container"] = False
        case Action.ARCHIVE_HOME:
            key, known = OWN_KEY, replace(known, archive=proof(OWN_KEY))
        case Action.DELETE_VOLUME:
            assert key == OWN_KEY or one.deleted_at is not None
            there["volume"] = False
        case Action.FORGET_ARCHIVE:
            key, known = None, HomeContext()
        case None:
            raise AssertionError
    known = replace(known, last_action=step.action.value)
    return {"there": (there["container"], there["volume"]), "archive_key": key, "home_ctx": known}


def _step(one: Workspace) -> Workspace:
    """The row after its next step, observed anew."""
    step = next_step(one, NOON)
    there, key = (one.container_ready, one.volume_ready), one.archive_key
    changes: dict[str, Any] = {}
    match step.kind:
        case Kind.BEGIN:
            changes = {"operation": step.operation, "op_id": OP, "op_started_at": NOON - timedelta(seconds=9)}
        case Kind.ACT:
            done = _act(one, step)
            there, key = done.pop("there"), done["archive_key"]
            changes = done
        case Kind.COMPLETE:
            ended = step.operation
            gone = HomeContext(archive=one.home_ctx.archive)
            changes = {
                "operation": Operation.NONE,
                "op_started_at": None,
                "home_ctx": gone if ended is Operation.ARCHIVING else one.home_ctx,
                "cleaned_at": NOON if ended is Operation.DELETING else None,
            }
        case _:
            return one
    made = conditions(*there, key is not None, archive_key=key, at=NOON - timedelta(minutes=5))
    return replace(one, **changes, conditions=made, phase=calculate_phase(made, one.deleted_at))


@pytest.mark.parametrize("wanted", REQUESTABLE_STATES)
@pytest.mark.parametrize("phase", ORDER)
def test_it_converges_from_every_phase_to_every_wish_by_neighbours(
    phase: Phase, wanted: DesiredState
) -> None:
    """WS-8, where actuators work; each phase on the way is a neighbour of the one before."""
    one = at_rest(phase, wanted)
    way = [one.phase]
    for _ in range(40):
        one = _step(one)
        if one.phase is not way[-1]:
            way.append(one.phase)
    assert one.phase.value == wanted.value
    assert one.operation is Operation.NONE
    levels = [ORDER.index(each) for each in way]
    assert all(abs(after - before) == 1 for before, after in pairwise(levels))
    assert len(way) == 1 + abs(ORDER.index(phase) - ORDER.index(Phase(wanted.value)))


@pytest.mark.parametrize("there", [*PHASES.values(), (True, False, True), (True, False, False)])
def test_what_is_deleted_leaves_nothing_from_wherever_it_was(there: tuple[bool, bool, bool]) -> None:
    """003 §5: ERROR may be deleted from, whatever of it is there."""
    one = workspace(*there, home_ctx=home(), deleted_at=NOON, desired_state=DesiredState.DELETED)
    for _ in range(12):
        one = _step(one)
    assert one.cleaned_at is not None
    assert (one.container_ready, one.volume_ready, one.archive_key) == (False, False, None)


_STATES = st.builds(
    lambda there, key, operation, marker, proved, wanted, retries, fresh, late: workspace(
        *there,
        archive_key=key,
        operation=operation,
        desired_state=wanted,
        home_ctx=HomeContext(marker, marker and "g1", proof(proved) if proved else None),
        error_info=failed(operation, retries, NOON - timedelta(seconds=40)) if retries else None,
        acted_at=None if operation is Operation.NONE else NOON - timedelta(seconds=0 if fresh else 50),
        settled_at=NOON - timedelta(seconds=60),
        op_started_at=None
        if operation is Operation.NONE
        else NOON - timedelta(seconds=100_000 if late else 55),
    ),
    there=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    key=st.sampled_from((None, OWN_KEY, OTHER_KEY)),
    operation=st.sampled_from([one for one in Operation if one is not Operation.DELETING]),
    marker=st.sampled_from((None, OWN_KEY, OTHER_KEY)),
    proved=st.sampled_from((None, OWN_KEY, OTHER_KEY)),
    wanted=st.sampled_from(REQUESTABLE_STATES),
    retries=st.integers(0, 4),
    fresh=st.booleans(),
    late=st.booleans(),
)


@given(_STATES)
def test_whatever_a_row_says_there_is_one_step_and_no_volume_goes_without_its_archive(one: Workspace) -> None:
    """WS-3, WS-7, WS-11, WS-12: over rows that no run of ours would write, too."""
    step = next_step(one, NOON)
    assert step.why
    assert step.observe_in_seconds in range(1, 31)
    if one.operation is not Operation.NONE:
        assert step.kind is not Kind.BEGIN
    if step.kind is Kind.BEGIN:
        rule = RULES[step.operation]
        assert rule.source is one.phase or step.operation is Operation.RESTORING
        assert one.phase in LEVELS
    if step.action is Action.DELETE_VOLUME:
        assert one.operation is Operation.ARCHIVING
        assert one.archive_key == OWN_KEY
        assert one.home_ctx.archive == proof(OWN_KEY)
        assert one.conditions[ARCHIVE_READY].status
        assert one.observed_at is not None
        assert one.acted_at is not None
        assert one.observed_at > one.acted_at
    if step.action is Action.WRITE_EMPTY_ARCHIVE or step.operation is Operation.PROVISIONING:
        # An empty home begins where there never was one, or where a person says so.
        assert one.home_ctx.restore_marker is None or one.operation is Operation.PROVISIONING
    if step.action is Action.START_CONTAINER:
        assert not one.conditions[INFRA].status
