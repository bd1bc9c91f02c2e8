"""The steps of a fleet: requests, observations, faults, crashes and outside changes; and the invariants after each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import ClassVar
from uuid import UUID

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dpp.platform.errors import DependencyUnavailable, StorageUnavailable
from dpp.workspaces import errors
from dpp.workspaces.api import owner as owner_api
from dpp.workspaces.control.observe import observe
from dpp.workspaces.control.recover import Recovery, RecoveryMethod, recover
from dpp.workspaces.machine import REQUESTABLE_STATES
from dpp.workspaces.model import HEALTHY, Operation, Phase, Workspace
from tests.support.crash_points import FaultInjector, FaultKind, Killed
from tests.support.crashable import crashable_database
from tests.support.memory_sqs import MemorySqs
from tests.support.saved_tables import SavedTables
from tests.workspaces.environment import LOOKS, TABLES, WORKS, Environment
from tests.workspaces.homes_model import Homes, left_over
from tests.workspaces.memory_provider import MemoryProvider, provider_of

MAX = 5

_WHICH = st.integers(0, MAX - 1)
_SELDOM = st.sampled_from([False] * 7 + [True])
_CALLS = st.integers(1, 14)
_SECONDS = st.sampled_from([1, 3, 12, 20, 61, 400, 4_000])
# Calls that only read; they raise outages only.
_ANSWERING = ("containers.observe", "volumes.observe", "archives.")

_OF_ARCHIVES = {"ArchiveAccessError", "ArchiveNotFound", "ArchiveCorrupted", "ArchiveUnreadable", "ArchiveUnproved"}
_OF_VOLUMES = {"DataLost", "ContainerWithoutVolume", "VolumeNotFound", "VolumeGone"}
_OF_RACES = {
    "PreparedGone",
    "HomeChanged",
    "VolumeExists",
    "HomeUnwritable",
    "ArchiveExists",
    "VolumeInUse",
    "HomeInUse",
}
TIMEOUT = "OperationTimeout"


@dataclass(slots=True)
class Armed:
    """A fault at the `calls`-th call of the provider from now on, before or after it."""

    calls: int
    when: str
    does: Callable[[str], None]

    def meets(self, when: str) -> bool:
        """True if this is the call."""
        if when == "before":
            self.calls -= 1
        return self.calls == 0 and when == self.when


class FleetMachine(RuleBasedStateMachine):
    """Up to five workspaces of one owner."""

    env: ClassVar[Environment]
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        env, self.fleet = self.env, MemoryProvider(self.env.clock)
        SavedTables(env.admin, TABLES).empty()
        env.provider, env.sqs = provider_of(self.fleet), MemorySqs(env.clock.monotonic)
        self.homes = Homes(env, self.fleet)
        self.ids: list[UUID] = []
        self.contents = count(1)
        self.armed: Armed | None = None
        self.is_broken = False
        self.wrong: list[str] = []
        self.fleet.faults.before = lambda call: self._met("before", call)
        self.fleet.faults.after = lambda call: self._met("after", call)
        self.real_delete = self.fleet.volumes.delete
        self.fleet.volumes.delete = self._watched_delete  # type: ignore[method-assign]

    def _met(self, when: str, call: str) -> None:
        armed = self.armed
        if armed is not None and armed.meets(when):
            self.armed = None
            note(f"  {when} {call}")
            armed.does(call)

    def _watched_delete(self, workspace_id: UUID, generation: str | None) -> None:
        volume = self.fleet.volumes.volumes.get(workspace_id)
        content = None if volume is None else self.homes.content(volume)
        try:
            self.real_delete(workspace_id, generation)
        finally:
            if content is not None and not self.homes.stands(workspace_id):
                violation = self.homes.deleted(workspace_id, content)
                if violation:
                    self.wrong.append(violation)

    @contextmanager
    def _process(self) -> Iterator[None]:
        """A process that may die."""
        try:
            with suppress(Killed, DependencyUnavailable):
                yield
        except BaseException as error:
            self.is_broken = True
            if self.wrong:  # the database found it, too
                raise AssertionError(self.wrong) from error
            raise
        finally:
            self.armed = None

    def _of(self, which: int) -> UUID:
        return self.ids[which % len(self.ids)]

    def _row(self, which: int) -> Workspace:
        return self.env.get(self._of(which))

    # Requests of the owner.

    @initialize(states=st.lists(st.sampled_from(REQUESTABLE_STATES), min_size=2, max_size=3))
    def begin(self, states: list[str]) -> None:
        for desired in states:
            self.create(desired, False)
            self.env.observe(self.ids[-1])

    @rule(desired=st.sampled_from(REQUESTABLE_STATES), idles=st.booleans())
    def create(self, desired: str, idles: bool) -> None:
        if len(self.ids) < MAX:
            ttl = {"standby_ttl_seconds": 600, "archive_ttl_seconds": 1_200} if idles else {}
            self.ids.append(self.env.create(desired, **ttl))
            self.homes.add(self.ids[-1], desired)

    @rule(which=_WHICH, desired=st.sampled_from(REQUESTABLE_STATES))
    def request(self, which: int, desired: str) -> None:
        with suppress(errors.WorkspaceDeleted):
            self.env.set_desired_state(self._of(which), desired)

    @rule(which=_WHICH)
    def connect(self, which: int) -> None:
        with suppress(errors.WorkspaceDeleted):
            owner_api.connect(self.env.owner, str(self._of(which)), self.env.clock())

    @rule(which=_WHICH, seldom=_SELDOM)
    def delete(self, which: int, seldom: bool) -> None:
        if seldom:
            with suppress(errors.NotDeletable):
                self.env.delete(self._of(which))
                self.homes.known[self._of(which)].given_up = True

    @rule(which=_WHICH)
    def write(self, which: int) -> None:
        row, running = self._row(which), self.fleet.containers.running.get(self._of(which))
        home, volume = self.homes.known[self._of(which)], self.fleet.volumes.volumes.get(self._of(which))
        works = row.phase is Phase.RUNNING and row.operation in {Operation.NONE, Operation.STOPPING}
        if works and running is not None and volume is not None and running is volume:
            home.newest = b"version %d " % next(self.contents) * 9
            self.fleet.homes.contents[volume.home] = home.newest

    # Processes.

    @rule(which=_WHICH, does_long_work=st.booleans())
    def observe_one(self, which: int, does_long_work: bool) -> None:
        with self._process():
            self.env.observe(self._of(which), does_long_work=does_long_work)

    @rule(which=_WHICH)
    def observe_completely(self, which: int) -> None:
        with self._process():
            self.env.observe(self._of(which))

    @rule(which=_WHICH, calls=_CALLS, when=st.sampled_from(["before", "after"]))
    def observe_and_be_killed(self, which: int, calls: int, when: str) -> None:
        def dies(_call: str) -> None:
            raise Killed

        self._observe_with_fault(which, Armed(calls, when, dies))

    @rule(which=_WHICH, calls=_CALLS, when=st.sampled_from(["before", "after"]), terminal=_SELDOM)
    def observe_and_fail(self, which: int, calls: int, when: str, terminal: bool) -> None:
        def fails(call: str) -> None:
            if call.startswith(_ANSWERING):
                raise StorageUnavailable if call.startswith("archives.") else errors.ProviderUnavailable
            self.homes.known[self._of(which)].excuses.add("Injected")
            raise errors.OperationFailed("Injected", "By the test.", is_terminal=terminal)

        self._observe_with_fault(which, Armed(calls, when, fails))

    @rule(which=_WHICH, calls=_CALLS, when=st.sampled_from(["before", "after"]))
    def observe_without_answer(self, which: int, calls: int, when: str) -> None:
        def is_away(call: str) -> None:
            raise StorageUnavailable if call.startswith("archives.") else errors.ProviderUnavailable

        self._observe_with_fault(which, Armed(calls, when, is_away))

    @rule(
        which=_WHICH,
        calls=_CALLS,
        when=st.sampled_from(["before", "after"]),
        seconds=_SECONDS,
        observations=st.integers(1, 3),
        desired=st.sampled_from([None, *REQUESTABLE_STATES]),
    )
    def observe_late(  # noqa: PLR0917 - hypothesis names them
        self, which: int, calls: int, when: str, seconds: int, observations: int, desired: str | None
    ) -> None:
        """A process is delayed during a call, while others observe."""

        def sleeps(_call: str) -> None:
            self.homes.known[self._of(which)].excuses.update(_OF_RACES)
            if desired:
                self.request(which, desired)
            for _ in range(observations):
                self.env.pass_time(seconds)
                self.env.observe(self._of(which))

        self._observe_with_fault(which, Armed(calls, when, sleeps))

    @rule(which=_WHICH, at=st.integers(1, 60), kind=st.sampled_from(FaultKind))
    def observe_and_crash_at_a_statement(self, which: int, at: int, kind: FaultKind) -> None:
        injector = FaultInjector("fleet", at, kind)
        with self._process(), crashable_database(self.env.url, injector) as database:
            observe(self._of(which), self.env.effects(database), does_long_work=True)
        injector.land()

    def _observe_with_fault(self, which: int, armed: Armed) -> None:
        self.armed = armed
        with self._process():
            self.env.observe(self._of(which))

    @rule()
    def tick(self) -> None:
        with self._process():
            self.env.tick()

    @rule(at_most=st.integers(1, 12))
    def deliver(self, at_most: int) -> None:
        with self._process():
            self.env.deliver(at_most=at_most)

    @rule(where=st.sampled_from([LOOKS, WORKS]), copies=st.sampled_from([0, 2]), which=_WHICH)
    def lose_or_double_a_message(self, where: str, copies: int, which: int) -> None:
        messages, queue = self.env.sqs.of(where), self.env.sqs.queues[where]
        if messages:
            one = messages[which % len(messages)]
            (queue.duplicate if copies else queue.lose)(one)

    @rule(seconds=_SECONDS)
    def pass_time(self, seconds: int) -> None:
        self.env.pass_time(seconds)

    @rule(hours=st.sampled_from([0, 3]), seldom=_SELDOM)
    def collect(self, hours: int, seldom: bool) -> None:
        self.env.pass_time(hours * 3_600 if seldom else 0)
        with self._process():
            self.env.collect()

    @rule(which=_WHICH, way=st.sampled_from(RecoveryMethod))
    def recover(self, which: int, way: RecoveryMethod) -> None:
        """An operator never replaces an existing volume."""
        workspace_id, home = self._of(which), self.homes.known[self._of(which)]
        if way in {RecoveryMethod.FROM_ARCHIVE, RecoveryMethod.EMPTY} and self.homes.stands(workspace_id):
            return
        with suppress(errors.NotRecoverable, errors.ArchiveUnknown):
            order = Recovery(way, "operator", "by the test")
            after = recover(order, workspace_id, self.env.database, self.fleet.archives, self.env.clock())
            home.to_be_stopped = way is RecoveryMethod.STOP_CONTAINER
            if way is RecoveryMethod.EMPTY:
                home.newest, home.lost, home.destroyed = None, False, False
            if way is RecoveryMethod.FROM_ARCHIVE and (found := self.homes.archived(after.archive_key)) is not None:
                home.newest, home.lost = found, False

    # Outside changes.

    @rule(which=_WHICH)
    def kill_a_container(self, which: int) -> None:
        self.fleet.containers.running.pop(self._of(which), None)

    @rule(which=_WHICH)
    def start_a_container(self, which: int) -> None:
        volume = self.fleet.volumes.volumes.get(self._of(which))
        if volume is not None and self._of(which) not in self.fleet.containers.running:
            self.fleet.containers.running[self._of(which)] = replace(volume)
            self.homes.known[self._of(which)].excuses.update({"VolumeInUse", "HomeInUse", TIMEOUT})

    @rule(which=_WHICH, seldom=_SELDOM)
    def delete_a_volume(self, which: int, seldom: bool) -> None:
        row, home = self._row(which), self.homes.known[self._of(which)]
        volume = self.fleet.volumes.volumes.get(row.workspace_id)
        if not seldom or volume is None:
            return
        kept = self.homes.archived(row.archive_key) == home.newest
        proved = row.operation in {Operation.RESTORING, Operation.ARCHIVING} or row.home_ctx.restore_marker is None
        home.lost = not (kept and proved)
        home.outside = True
        home.excuses.update(_OF_VOLUMES | {TIMEOUT})
        del self.fleet.homes.contents[volume.home], self.fleet.volumes.volumes[row.workspace_id]

    @rule(which=_WHICH, gone=st.booleans(), seldom=_SELDOM)
    def spoil_an_archive(self, which: int, gone: bool, seldom: bool) -> None:
        row, home = self._row(which), self.homes.known[self._of(which)]
        stored = self.fleet.archives.objects.get(row.archive_key or "")
        if not seldom or stored is None or row.archive_key is None:
            return
        home.destroyed = home.destroyed or not self.homes.stands(row.workspace_id)
        home.excuses.update(_OF_ARCHIVES | {"DataLost"})
        if gone:
            del self.fleet.archives.objects[row.archive_key]
        else:
            stored.content += b"!"

    # Invariants.

    @invariant()
    def all_invariants_hold(self) -> None:
        type(self).steps += 1
        violation = [*self.wrong, *self.homes.broken()]
        self.is_broken = self.is_broken or bool(violation)
        assert violation == [], violation

    def teardown(self) -> None:
        """The faults stop, and the fleet converges."""
        if self.is_broken:
            return
        self.armed = None
        for _ in range(60):
            for workspace_id in self.ids:
                self.env.observe(workspace_id)
            self.env.run_ticks(1, 20)
            if all(_is_at_rest(row) for row in self.homes.rows().values()):
                break
            self.env.pass_time(300)
        self.all_invariants_hold()
        for workspace_id in self.ids:
            for violation in self._unfinished(self.env.get(workspace_id)):
                raise AssertionError(f"{violation}: {self.homes.known[workspace_id]} {self.env.get(workspace_id)}")

    def _unfinished(self, row: Workspace) -> Iterator[str]:
        home = self.homes.known[row.workspace_id]
        if not _is_at_rest(row):
            yield "it does not come to rest"
        if row.phase is Phase.ERROR and row.conditions[HEALTHY].reason not in home.excuses:
            yield f"nothing excuses {row.conditions[HEALTHY]}"
        if row.phase is not Phase.ERROR and (home.lost or home.destroyed) and not home.given_up:
            yield "a lost home is not reported"
        if row.cleaned_at is not None and (self.homes.stands(row.workspace_id) or row.container_ready):
            yield "something of it is left"
        if row.phase is not Phase.ERROR and left_over(self.fleet, [row.workspace_id]):
            yield "a home is left that nothing names"


def _is_at_rest(row: Workspace) -> bool:
    if row.deleted_at is not None:
        return row.cleaned_at is not None
    return row.operation is Operation.NONE and (row.phase is Phase.ERROR or row.phase.value == row.desired_state.value)
