"""The acts of workspaces for the crash matrix, and the invariants that hold after a crash."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import UUID

from dpp.platform.errors import DependencyUnavailable, StorageUnavailable
from dpp.workspaces.api import owner as owner_api
from dpp.workspaces.control.observe import ControlEffects, observe
from dpp.workspaces.errors import ProviderUnavailable
from dpp.workspaces.machine import RULES
from dpp.workspaces.model import Operation, Workspace, archive_key_of
from dpp.workspaces.ports import Heartbeat, Provider
from dpp.workspaces.providers.s3_archives import proof_key_of
from tests.support.crash_matrix import CrashSuite
from tests.support.crash_points import FaultInjector
from tests.support.crashable import CrashablePort, crashable_database, crashable_queue
from tests.support.saved_tables import SavedTables
from tests.workspaces.environment import LOOKS, TABLES, TENANT, WORKS, Environment
from tests.workspaces.homes import no_heartbeat
from tests.workspaces.homes_model import Homes, left_over
from tests.workspaces.memory_provider import MemoryProvider, StoredObject

CONTENT = b"all that a developer has " * 8
KEY = "the-only-key"
HOURS = 3 * 3_600
_READS = frozenset(
    {
        *("containers.observe", "volumes.observe", "volumes.find"),
        *(f"archives.{name}" for name in ("read", "read_proof", "head", "page")),
    }
)


class _CrashablePort(CrashablePort):
    """One port of a provider. A stream is passed in one piece, so that a late call can be made again."""

    def __init__(
        self, real: Any, injector: FaultInjector, name: str, error: Callable[[], DependencyUnavailable]
    ) -> None:
        super().__init__(real, injector, "provider", error, _READS)
        self._name = name

    def call(self, name: str, make: Callable[[], Any], late: Callable[[], Any] | None = None) -> Any:
        """Make one call, named by the port, too."""
        return super().call(f"{self._name}.{name}", make, late)

    def read(self, key: str, heartbeat: Heartbeat) -> Iterator[bytes]:
        """A read that breaks off returned nothing."""
        yield from self.call("read", lambda: list(self._real.read(key, heartbeat)))

    def write(self, key: str, chunks: Iterator[bytes], heartbeat: Heartbeat, replaces: str | None = None) -> Any:
        """Sent once all of it is packed; where it lands late, no lease is extended any more."""
        pieces = list(chunks)
        return self.call(
            "write",
            lambda: self._real.write(key, iter(pieces), heartbeat, replaces),
            lambda: self._real.write(key, iter(pieces), no_heartbeat, replaces),
        )


def crashable_provider(real: Provider, injector: FaultInjector) -> Provider:
    """The same provider, each call through the injector."""
    return Provider(
        cast(Any, _CrashablePort(real.containers, injector, "containers", ProviderUnavailable)),
        cast(Any, _CrashablePort(real.volumes, injector, "volumes", ProviderUnavailable)),
        cast(Any, _CrashablePort(real.archives, injector, "archives", StorageUnavailable)),
        real.homes,
    )


@dataclass(slots=True)
class Process:
    """One process, each of its calls through the injector."""

    crashes: "WorkspaceCrashes"
    effects: ControlEffects

    def observe(self, *, does_long_work: bool = True) -> None:
        """Observe the only workspace, and take its next step."""
        observe(self.crashes.only, self.effects, does_long_work=does_long_work)

    def request(self, change: Callable[[owner_api.Owner, str], object]) -> None:
        """The owner's request, and an observation."""
        owner = owner_api.Owner(TENANT, self.effects.database, self.effects.observe_queue)
        change(owner, str(self.crashes.only))
        self.observe()


@dataclass(frozen=True, slots=True)
class Act:
    """The act of a process, the state before it, the phase and home at the end, and the calls that it must make.

    `repeat`: the request that a client without an answer sends again.
    """

    perform: Callable[[Process], None]
    before: Callable[["WorkspaceCrashes"], object]
    end: str
    calls: frozenset[str]
    home: bytes | None = CONTENT
    repeat: Callable[["WorkspaceCrashes"], object] | None = None


class WorkspaceCrashes(CrashSuite):
    """One workspace over a provider in memory, and one process."""

    expected = (DependencyUnavailable, IndexError)  # IndexError: there is no workspace to observe

    def __init__(self, env: Environment, fleet: MemoryProvider, acts: Mapping[str, Act]) -> None:
        super().__init__(SavedTables(env.admin, TABLES))
        self.env = env
        self.fleet = fleet
        self.acts = acts
        self._wrong: list[str] = []

    @property
    def ids(self) -> list[UUID]:
        return [row[0] for row in self.env.rows("SELECT workspace_id FROM workspaces ORDER BY sequence")]

    @property
    def only(self) -> UUID:
        """The workspace of the act."""
        return self.ids[0]

    def create_in(self, phase: str, **more: Any) -> UUID:
        """A workspace in this phase, whose home has the content."""
        workspace_id = self.env.create("RUNNING", **more)
        self.env.drive_to(workspace_id, "RUNNING")
        volume = self.fleet.volumes.volumes[workspace_id]
        assert volume is not None
        self.fleet.homes.contents[volume.home] = CONTENT
        if phase != "RUNNING":
            self.env.set_desired_state(workspace_id, phase)
            self.env.drive_to(workspace_id, phase)
        for _ in range(3):  # no message of this is left
            self.env.deliver()
            self.env.pass_time(20)
        return workspace_id

    def set_up(self, act: str) -> None:
        """Prepare the state before the act."""
        self.acts[act].before(self)

    def state(self) -> dict[str, Any]:
        """Clock, queues and provider."""
        return {
            "seconds": self.env.clock.seconds,
            "queues": self.env.sqs.saved(),
            "objects": _copies(self.fleet.archives.objects),
            **{name: dict(held) for name, held in self._held().items()},
        }

    def restore(self, state: dict[str, Any] | None) -> None:
        """Clock, queues and provider; from now on each call of the provider is checked."""
        if state is not None:
            self.env.clock.seconds = state["seconds"]
        self.env.sqs.restore(state["queues"] if state else {})
        self.fleet.archives.objects = _copies(state["objects"] if state else {})
        for name, held in self._held().items():
            held.clear()
            held.update(state[name] if state else {})
        self._wrong.clear()
        self.fleet.faults.before = self.fleet.faults.after = self._check_volumes

    def _check_volumes(self, call: str) -> None:
        """A container has its volume (003 §6)."""
        volumes = self.fleet.volumes.volumes
        self._wrong += [
            f"{call}: a container without its volume" for one in self.fleet.containers.running if one not in volumes
        ]

    def _held(self) -> dict[str, dict[Any, Any]]:
        fleet = self.fleet
        return {
            "volumes": fleet.volumes.volumes,
            "prepared": fleet.volumes._prepared,
            "homes": fleet.homes.contents,
            "running": fleet.containers.running,
        }

    def perform(self, act: str, injector: FaultInjector) -> None:
        env = self.env
        with crashable_database(env.url, injector) as database:
            effects = ControlEffects(
                database,
                crashable_provider(env.provider, injector),
                crashable_queue(LOOKS, env.sqs, injector),
                crashable_queue(WORKS, env.sqs, injector),
                env.clock,
            )
            self.acts[act].perform(Process(self, effects))

    def recover(self, act: str) -> None:
        """A client without an answer repeats its request; time passes, healthy processes run, garbage is collected."""
        repeat = self.acts[act].repeat
        if repeat is not None:
            repeat(self)
        for _ in range(40):
            self.env.pass_time(60)
            self.env.run_ticks(1)
            if self.is_at_end(act):
                break
        self.env.pass_time(HOURS)
        self.env.run_ticks(1)
        self.env.collect()

    def is_at_end(self, act: str) -> bool:
        """True if the workspace is in the state in which the act ends."""
        row = self.env.get(self.only)
        if self.acts[act].end == "DELETED":
            return row.cleaned_at is not None
        return row.phase == self.acts[act].end and row.operation is Operation.NONE

    def violations(self, act: str) -> Iterator[str]:
        """The workspace, its home, and what is left at the provider."""
        yield from self._wrong
        if len(self.ids) != 1:
            yield f"there are {self.ids}"
        homes = Homes(self.env, self.fleet)
        homes.add(self.only, "")
        homes.known[self.only].newest = None if act == "create" else CONTENT
        yield from homes.broken()
        row = self.env.get(self.only)
        if not self.is_at_end(act):
            yield f"it is {row}"
        if unseen := self._unobserved():
            yield f"it is complete and was not observed: {unseen}"
        if row.error_info is not None:
            yield f"an error is left: {row.error_info}"
        if homes.known[self.only].newest != self.acts[act].home and self.acts[act].end != "DELETED":
            yield f"the home is {homes.known[self.only].newest!r}"
        yield from self._left(self.acts[act].end, row)

    def _unobserved(self) -> list[str]:
        """Operations that completed in another phase than theirs (WS-1)."""
        phase, odd = "PENDING", []
        for kind, source, target in self.env.rows(
            "SELECT kind, from_value, to_value FROM workspace_events WHERE workspace_id = %(only)s ORDER BY event_id",
            {"only": self.only},
        ):
            phase = target if kind == "PHASE" else phase
            if kind == "COMPLETED" and phase != RULES[Operation(source)].target:
                odd.append(f"{source} in {phase}")
        return odd

    def _left(self, end: str, row: Workspace) -> Iterator[str]:
        fleet, only = self.fleet, self.only
        if left_over(fleet):
            yield f"homes are left: {left_over(fleet)}"
        found = (only in fleet.volumes.volumes, only in fleet.containers.running)
        if found != (end in {"RUNNING", "STANDBY"}, end == "RUNNING"):
            yield f"there are {fleet.volumes.volumes} and {fleet.containers.running}"
        named = set() if row.archive_key is None else {row.archive_key, proof_key_of(row.archive_key)}
        if row.op_id is not None and row.deleted_at is None:
            own_key = archive_key_of(row.workspace_id, row.op_id)
            named |= {own_key, proof_key_of(own_key)}
        if garbage := set(fleet.archives.objects) - named:
            yield f"garbage: {garbage}"
        for url in (LOOKS, WORKS):
            if messages := self.env.sqs.of(url):
                yield f"messages are left: {messages}"


def _copies(objects: Mapping[str, StoredObject]) -> dict[str, StoredObject]:
    return {key: replace(one) for key, one in objects.items()}
