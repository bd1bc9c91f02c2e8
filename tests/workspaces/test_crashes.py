"""Every call that workspaces make to Postgres, SQS and the provider, gone wrong in every way (WS-1 … WS-13).

The points are recorded from the code as it runs, so that a new call is crashed without being listed. After each crash
time passes and healthy processes run; then every promise is kept: the workspace is where it is wanted, its home is
what was written to it, no two operations were under way at once, and nothing of the provider's belongs to nobody.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

import pytest

from dpp.platform.errors import DependencyUnavailable
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
from dpp.workspaces.model import DesiredState, Operation, Workspace, archive_key_of
from dpp.workspaces.providers.s3_archives import proof_key_of
from dpp.workspaces.store import Change, Writer
from tests.support.counted_drivers import CountedDatabase, counted_queue
from tests.support.crash_points import WHOLE, Killed, Kind, Point, Points
from tests.workspaces.counted_provider import counted_provider
from tests.workspaces.crash_environment import CONTENT, HOURS, KEY, CrashEnvironment, Process
from tests.workspaces.environment import LOOKS, TENANT, WORKS, open_environment
from tests.workspaces.fleet_machine import EMPTY
from tests.workspaces.homes_model import Homes, left_over
from tests.workspaces.memory_provider import MemoryProvider, provider_of


def _create(process: Process) -> None:
    env, effects = process.crash_env.env, process.effects
    new = NewWorkspace("home", DesiredState.RUNNING)
    create(
        new,
        tenant_id=TENANT,
        request_key=KEY,
        limit=10,
        database=effects.database,
        observe_queue=effects.observe_queue,
        now=env.clock(),
    )
    process.look()


def _wants(desired: str) -> Callable[[Process], None]:
    def does(process: Process) -> None:
        wanted, now = Change(desired_state=DesiredState(desired)), process.crash_env.env.clock()
        process.asks(lambda owner, its: owner_api.change(owner, its, wanted, now))

    return does


def _connect(process: Process) -> None:
    process.asks(lambda owner, its: owner_api.connect(owner, its, process.crash_env.env.clock()))


def _delete(process: Process) -> None:
    process.asks(lambda owner, its: owner_api.delete(owner, its, process.crash_env.env.clock()))


def _hand_over(process: Process) -> None:
    """By control, which leaves what takes long to storage."""
    process.crash_env.env.set_desired_state(process.crash_env.only, "ARCHIVED")
    process.look(does_long_work=False)
    process.look(does_long_work=True)


def _tick(process: Process) -> None:
    tick(process.effects)
    process.look()


def _page(process: Process) -> None:
    observe_fleet_page(ObservePage(0, 0), process.effects)
    process.look()


def _collect(process: Process) -> None:
    effects = process.effects
    collect(effects.database, effects.provider.archives, now=process.crash_env.env.clock())


def _in_error(crash_env: CrashEnvironment) -> None:
    """All of it is there: a container, a volume, an archive, and what an interrupted restore left."""
    workspace_id = crash_env.made("RUNNING")
    with crash_env.env.database.connection() as connection, store.writing(connection, Writer.RECONCILER):
        connection.execute(
            'UPDATE workspaces SET error_info = \'{"reason": "Broken", "message": "",'
            ' "is_terminal": true, "retry_count": 3, "operation": "NONE",'
            ' "failed_at": "2026-01-01T00:00:00+00:00", "context": {}}\''
        )
    crash_env.env.observe(workspace_id)
    crash_env.fleet.volumes.prepare(workspace_id, "left-by-a-restore")


def _half_restored(crash_env: CrashEnvironment) -> None:
    """It is ARCHIVED, and a restore that was given up left half a home."""
    workspace_id = crash_env.made("ARCHIVED")
    crash_env.fleet.volumes.prepare(workspace_id, "left-by-a-restore")


def _idle(crash_env: CrashEnvironment) -> None:
    crash_env.made("RUNNING", standby_ttl_seconds=600)
    crash_env.env.pass_time(700)


def _killed_outside(crash_env: CrashEnvironment) -> None:
    workspace_id = crash_env.made("RUNNING")
    crash_env.env.pass_time(700)
    crash_env.env.observe(workspace_id)
    del crash_env.fleet.containers.running[workspace_id]


def _much_archived(crash_env: CrashEnvironment) -> None:
    """Three archives, of which two are garbage."""
    workspace_id = crash_env.made("ARCHIVED")
    for desired in ("STANDBY", "ARCHIVED"):
        crash_env.env.set_desired_state(workspace_id, desired)
        crash_env.env.drive_to(workspace_id, desired)
    crash_env.env.pass_time(HOURS)


@dataclass(frozen=True, slots=True)
class Act:
    """What a process does, what is there before, and what is wanted in the end."""

    does: Callable[[Process], None]
    before: Callable[[CrashEnvironment], object]
    end: str
    home: bytes | None = CONTENT


ACTS = {
    "create": Act(_create, lambda _: None, "RUNNING", b""),
    "archive": Act(_wants("ARCHIVED"), lambda crash_env: crash_env.made("RUNNING"), "ARCHIVED"),
    "hand-over": Act(_hand_over, lambda crash_env: crash_env.made("STANDBY"), "ARCHIVED"),
    "wake": Act(_connect, lambda crash_env: crash_env.made("ARCHIVED"), "RUNNING"),
    "discard": Act(_wants("PENDING"), lambda crash_env: crash_env.made("ARCHIVED"), "PENDING", None),
    "delete": Act(_delete, _half_restored, "DELETED", None),
    "delete-error": Act(_delete, _in_error, "DELETED", None),
    "tick": Act(_tick, _idle, "STANDBY"),
    "page": Act(_page, _killed_outside, "RUNNING"),
    "collect": Act(_collect, _much_archived, "ARCHIVED"),
}
_REPEATED: dict[str, Callable[[CrashEnvironment], object]] = {
    "create": lambda crash_env: _create(healthy(crash_env)),
    "archive": lambda crash_env: crash_env.env.set_desired_state(crash_env.only, "ARCHIVED"),
    "hand-over": lambda crash_env: crash_env.env.set_desired_state(crash_env.only, "ARCHIVED"),
    "wake": lambda crash_env: owner_api.connect(
        crash_env.env.owner, str(crash_env.only), crash_env.env.clock()
    ),
    "discard": lambda crash_env: crash_env.env.set_desired_state(crash_env.only, "PENDING"),
    "delete": lambda crash_env: crash_env.env.delete(crash_env.only),
    "delete-error": lambda crash_env: crash_env.env.delete(crash_env.only),
}
"""What a client that heard nothing sends again."""


def healthy(crash_env: CrashEnvironment) -> Process:
    """A process that nothing befalls."""
    return Process(crash_env, Points("healthy"), crash_env.env.effects())


def arrange(crash_env: CrashEnvironment, act: str) -> None:
    """Bring all of it to where the act begins."""
    if act in crash_env.kept:
        crash_env.restore(act)
        return
    crash_env.fleet.faults.before = crash_env.fleet.faults.after = lambda _: None
    crash_env.env.rows(EMPTY)
    crash_env.env.sqs.queues.clear()
    crash_env.fleet.archives.objects.clear()
    for held in crash_env._held().values():
        held.clear()
    ACTS[act].before(crash_env)
    crash_env.watch()
    crash_env.keep(act)


def play(crash_env: CrashEnvironment, act: str, points: Points) -> None:
    """Let the process act until it is done, fails or is killed."""
    env, database = crash_env.env, CountedDatabase(crash_env.env.url, points)
    effects = ControlEffects(
        database,
        counted_provider(env.provider, points),
        counted_queue(LOOKS, env.sqs, points),
        counted_queue(WORKS, env.sqs, points),
        env.clock,
    )
    try:
        with suppress(Killed, DependencyUnavailable, IndexError):  # there is no workspace to look at
            ACTS[act].does(Process(crash_env, points, effects))
    finally:
        database.close()
    points.land()


def come_to_rest(crash_env: CrashEnvironment, act: str) -> None:
    """A client that heard nothing asks again; time passes, healthy processes run, and garbage is collected."""
    if act in _REPEATED:
        _REPEATED[act](crash_env)
    for _ in range(40):
        crash_env.env.pass_time(60)
        crash_env.env.run_ticks(1)
        if is_at_rest(crash_env, act):
            break
    crash_env.env.pass_time(HOURS)
    crash_env.env.run_ticks(1)
    crash_env.env.collect()


def is_at_rest(crash_env: CrashEnvironment, act: str) -> bool:
    """Whether it is where it is wanted."""
    row = crash_env.env.get(crash_env.only)
    if ACTS[act].end == "DELETED":
        return row.cleaned_at is not None
    return row.phase == ACTS[act].end and row.operation is Operation.NONE


def broken(crash_env: CrashEnvironment, act: str) -> Iterator[str]:
    """Every promise that does not hold."""
    yield from crash_env.wrong
    if len(crash_env.ids) != 1:
        yield f"there are {crash_env.ids}"
    homes = Homes(crash_env.env, crash_env.fleet)
    homes.add(crash_env.only, "")
    homes.known[crash_env.only].newest = None if act == "create" else CONTENT
    yield from homes.broken()
    row = crash_env.env.get(crash_env.only)
    if not is_at_rest(crash_env, act):
        yield f"it is {row}"
    if unseen := _unseen(crash_env):
        yield f"it is complete and was not seen: {unseen}"
    if row.error_info is not None:
        yield f"an error is left: {row.error_info}"
    if homes.known[crash_env.only].newest != ACTS[act].home and act not in {"delete", "delete-error"}:
        yield f"the home is {homes.known[crash_env.only].newest!r}"
    yield from _left(crash_env, act, row)


def _unseen(crash_env: CrashEnvironment) -> list[str]:
    """Operations that ended well in another phase than theirs (WS-1)."""
    phase, odd = "PENDING", []
    for kind, source, target in crash_env.env.rows(
        "SELECT kind, from_value, to_value FROM workspace_events WHERE workspace_id = %(only)s ORDER BY event_id",
        {"only": crash_env.only},
    ):
        phase = target if kind == "PHASE" else phase
        if kind == "COMPLETED" and phase != RULES[Operation(source)].target:
            odd.append(f"{source} in {phase}")
    return odd


def _left(crash_env: CrashEnvironment, act: str, row: Workspace) -> Iterator[str]:
    fleet, has_volume = crash_env.fleet, ACTS[act].end in {"RUNNING", "STANDBY"}
    if left_over(fleet):
        yield f"homes are left: {left_over(fleet)}"
    if (crash_env.only in fleet.volumes.volumes, crash_env.only in fleet.containers.running) != (
        has_volume,
        ACTS[act].end == "RUNNING",
    ):
        yield f"there are {fleet.volumes.volumes} and {fleet.containers.running}"
    named = set() if row.archive_key is None else {row.archive_key, proof_key_of(row.archive_key)}
    if row.op_id is not None and row.deleted_at is None:
        own_key = archive_key_of(row.workspace_id, row.op_id)
        named |= {own_key, proof_key_of(own_key)}
    if garbage := set(fleet.archives.objects) - named:
        yield f"garbage: {garbage}"
    for url in (LOOKS, WORKS):
        if crash_env.env.sqs.of(url):
            yield f"messages are left: {crash_env.env.sqs.of(url)}"


def is_tried(point: Point, kind: Kind, met: set[str]) -> bool:
    """`make crash` tries all kinds; `make test` what leaves something else behind.

    A transaction that did not commit left nothing, whatever ended it; what hangs fails as what is refused; and each
    way of reading Postgres fails once a path.
    """
    if kind not in point.kinds:
        return False
    if WHOLE or kind is Kind.KILLED_BEFORE:
        return True
    if point.port != "postgres":
        return kind is not Kind.HANGS
    if point.call == "commit transaction":
        return kind is Kind.KILLED_AFTER
    if point.writes:
        return kind is Kind.REPLY_LOST
    is_new = point.call not in met
    met.add(point.call)
    return is_new


@pytest.fixture(scope="module")
def crash_env(shared_database: str) -> Iterator[CrashEnvironment]:
    """One for all: what was arranged is kept."""
    fleet = MemoryProvider()
    with open_environment(shared_database, provider_of(fleet)) as env:
        fleet.archives.now = env.clock
        yield CrashEnvironment(env, fleet)


@pytest.mark.parametrize("act", list(ACTS))
def test_every_port_is_among_the_points(crash_env: CrashEnvironment, act: str) -> None:
    """A recording with a hole in it would be green, too."""
    arrange(crash_env, act)
    points = Points(act)
    play(crash_env, act, points)
    assert is_at_rest(crash_env, act)
    met = {f"{point.port}.{point.call}" for point in points.met}
    looking = {"provider.containers.observe", "provider.volumes.observe", "postgres.record_observation"}
    restoring = {"provider.volumes.prepare", "provider.volumes.install", "provider.archives.read"}
    proving = {"provider.archives.write", "provider.archives.write_proof", "provider.archives.head"}
    removing = {
        "provider.volumes.delete",
        "postgres.note_action",
        "postgres.acquire_lease",
        "postgres.complete",
    }
    wanted = {
        "create": looking
        | restoring
        | proving
        | {"postgres.insert", "sqs.send_message_batch", "postgres.begin"},
        "archive": looking | proving | removing | {"provider.containers.stop", "sqs.send_message_batch"},
        "hand-over": proving
        | removing
        | {"postgres.hand_over", "postgres.plan_observation", "sqs.send_message"},
        "wake": looking | restoring | {"provider.containers.start", "postgres.wake"},
        "discard": looking | {"postgres.note_action", "postgres.complete"},
        "delete": looking | removing | {"postgres.delete"},
        "delete-error": looking | removing | {"provider.containers.stop"},
        "tick": {"postgres.lower_idle", "postgres.claim_unsettled", "postgres.unsettled", "sqs.send_message"},
        "page": looking | {"postgres.fleet_page", "provider.containers.start"},
        "collect": {"provider.archives.page", "provider.archives.delete", "postgres.find_many"},
    }
    assert wanted[act] <= met


@pytest.mark.parametrize("act", list(ACTS))
@pytest.mark.timeout(900)
def test_a_crash_at_any_call_loses_no_home_and_leaves_nothing(crash_env: CrashEnvironment, act: str) -> None:
    """WS-1 … WS-13: all calls of this path, one after the other."""
    arrange(crash_env, act)
    recording, read = Points(act), set[str]()
    play(crash_env, act, recording)
    crashes = [(point, kind) for point in recording.met for kind in Kind if is_tried(point, kind, read)]
    for point, kind in crashes:
        arrange(crash_env, act)
        points = Points(act, at=point.number, kind=kind)
        play(crash_env, act, points)
        assert points.met[point.number - 1] == point
        come_to_rest(crash_env, act)
        assert list(broken(crash_env, act)) == [], f"{point.id}, {kind}"


def _forget_the_proof(patch: pytest.MonkeyPatch) -> None:
    """What was proved is noted without its proof, so that nobody knows whether the volume may go."""
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


def _complete_unseen(patch: pytest.MonkeyPatch) -> None:
    """What was begun is complete, whether anybody saw it or not (WS-1)."""
    real = planner.next_step

    def step(row: Workspace, now: datetime) -> Step:
        found = real(row, now)
        starts = row.operation is Operation.STARTING
        return replace(found, kind=StepKind.COMPLETE, operation=row.operation) if starts else found

    patch.setattr("dpp.workspaces.control.reconcile.next_step", step)


def _leave_what_restores_left(patch: pytest.MonkeyPatch) -> None:
    """What no look sees is not there."""
    patch.setattr("dpp.workspaces.machine._is_cleaned_up", lambda _: True)


@pytest.mark.parametrize(
    ("plant", "act", "told"),
    [
        (_forget_the_proof, "archive", "it is Workspace"),
        (_delete_unproved, "archive", "has lost its home"),
        (_complete_unseen, "wake", "it is complete and was not seen"),
        (_leave_what_restores_left, "delete", "homes are left"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_breaks_a_promise_is_seen(
    crash_env: CrashEnvironment,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    act: str,
    told: str,
) -> None:
    """A check that can't fail is none."""
    arrange(crash_env, act)
    plant(monkeypatch)
    play(crash_env, act, Points(act))
    come_to_rest(crash_env, act)
    assert any(told in one for one in broken(crash_env, act)), list(broken(crash_env, act))
