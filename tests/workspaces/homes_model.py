"""A model of a fleet's homes, and the invariants compared with what exists (WS-1 … WS-13)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from dpp.workspaces import store
from dpp.workspaces.control.conditions import calculate_phase
from dpp.workspaces.machine import DOWN, UP
from dpp.workspaces.model import LEVELS, Operation, Phase, Workspace
from dpp.workspaces.ports import Volume
from dpp.workspaces.providers.s3_archives import proof_key_of
from tests.workspaces.environment import Environment
from tests.workspaces.memory_provider import MemoryProvider

_SUM_BYTES = 32
_SOURCES = {operation: phase for way in (UP, DOWN) for phase, operation in way.items()}
_UP, _DOWN = frozenset(UP.values()), frozenset(DOWN.values())


@dataclass(slots=True)
class Home:
    """The expected state of one home. `newest`: its content, or None.

    `lost`: its volume was destroyed from outside, and must not be replaced without an order. `destroyed`: its archive
    was, without a volume. `given_up`: its owner deletes or discards it. `to_be_stopped`: an operator ordered to stop a
    container without its volume. `excuses`: the reasons for which it may be in ERROR.
    """

    newest: bytes | None = None
    lost: bool = False
    destroyed: bool = False
    given_up: bool = False
    outside: bool = False
    desired: str = ""
    under_way: str | None = None
    to_be_stopped: bool = False
    excuses: set[str] = field(default_factory=set)

    @property
    def is_kept(self) -> bool:
        """True if the home must exist somewhere."""
        return self.newest is not None and not (self.lost or self.destroyed or self.given_up)


@dataclass(slots=True)
class Homes:
    """The homes of all workspaces."""

    env: Environment
    fleet: MemoryProvider
    known: dict[UUID, Home] = field(default_factory=dict)
    _heard: int = 0

    def add(self, workspace_id: UUID, desired: str) -> None:
        self.known[workspace_id] = Home(desired=desired)

    def rows(self) -> Mapping[UUID, Workspace]:
        return {one.workspace_id: one for one in self.env.using(store.find_many, list(self.known))}

    def content(self, volume: Volume) -> bytes:
        return self.fleet.homes.contents[volume.home]

    def archived(self, key: str | None) -> bytes | None:
        """The home in an available and proved archive, or None."""
        if key is None:
            return None
        stored = self.fleet.archives.objects.get(key)
        noted = self.fleet.archives.objects.get(proof_key_of(key))
        if stored is None or noted is None or noted.proof is None or noted.proof.etag != stored.etag:
            return None
        return stored.content[_SUM_BYTES:]

    def stands(self, workspace_id: UUID) -> bool:
        """True if the workspace has a volume, even a foreign one."""
        return workspace_id in self.fleet.volumes.volumes

    def listen(self, rows: Mapping[UUID, Workspace]) -> Iterator[str]:
        """Apply new events to the model, and yield those that must not happen (WS-7, WS-8)."""
        events = self.env.rows(
            "SELECT event_id, workspace_id, kind, from_value, to_value FROM workspace_events"
            " WHERE event_id > %(heard)s ORDER BY event_id",
            {"heard": self._heard},
        )
        for event_id, workspace_id, kind, source, target in events:
            self._heard = event_id
            home = self.known[workspace_id]
            match kind:
                case "CREATED" | "DESIRED":
                    home.desired = target
                case "STARTED":
                    yield from _begun(home, target)
                case "COMPLETED" | "FAILED":
                    if kind == "COMPLETED" and home.under_way != source:
                        yield f"{source} ended while {home.under_way} was under way"
                    home.under_way = None
                    _ended(home, kind, source, rows[workspace_id])

    def broken(self) -> Iterator[str]:
        """The violated invariants."""
        rows = self.rows()
        yield from self.listen(rows)
        for workspace_id, home in self.known.items():
            for violation in self._of_home(rows[workspace_id], home):
                yield f"{workspace_id} {violation}: {home} {rows[workspace_id]}"

    def _of_home(self, row: Workspace, home: Home) -> Iterator[str]:
        computed = calculate_phase(row.conditions, row.deleted_at)
        if row.phase is not computed and (row.deleted_at is None or row.phase is Phase.DELETED):
            yield f"is {row.phase}, and its conditions make {computed}"
        if (row.operation.value if row.operation is not Operation.NONE else None) != home.under_way:
            yield "does an operation that it did not begin"
        if home.is_kept and not self._is_somewhere(row, home):
            yield "has lost its home"
        yield from self._of_volume(row.workspace_id, home)

    def _is_somewhere(self, row: Workspace, home: Home) -> bool:
        volume = self.fleet.volumes.volumes.get(row.workspace_id)
        return (volume is not None and self.content(volume) == home.newest) or self.archived(
            row.archive_key
        ) == home.newest

    def _of_volume(self, workspace_id: UUID, home: Home) -> Iterator[str]:
        running = self.fleet.containers.running.get(workspace_id)
        if not self.stands(workspace_id):
            if running is not None and not home.outside:
                yield "has a container without a volume"
            return
        volume = self.fleet.volumes.volumes[workspace_id]
        if volume is None:
            yield "has a volume without a marker"
            return
        if running is not None and running.generation != volume.generation and not home.outside:
            yield "has a container on another generation"
        if home.lost or home.destroyed:
            yield "has a volume in place of a home that was lost"
        elif not home.given_up and self.content(volume) != (home.newest or b""):
            yield f"has {self.content(volume)!r} for a home"

    def deleted(self, workspace_id: UUID, content: bytes) -> str | None:
        """The reason why a volume with this content must not be deleted now, or None (WS-12)."""
        row = self.env.get(workspace_id)
        if row.deleted_at is not None or self.archived(row.archive_key) == content:
            return None
        return f"the volume of {workspace_id} was deleted, and {row.archive_key} does not hold its home"


def _begun(home: Home, operation: str) -> Iterator[str]:
    """Operations never overlap, and never lead away from the desired state."""
    if home.under_way is not None:
        yield f"{operation} began while {home.under_way} was under way"
    home.under_way = operation
    if operation == Operation.DELETING:
        home.given_up = True
        if home.desired != "DELETED":
            yield "a workspace that was not deleted is being deleted"
        return
    if operation == Operation.STOPPING and home.to_be_stopped:
        home.to_be_stopped = False
        return
    level = LEVELS[_SOURCES[Operation(operation)]]
    wrong_way = (operation in _DOWN and LEVELS[home.desired] >= level) or (
        operation in _UP - {Operation.RESTORING} and LEVELS[home.desired] <= level
    )
    if wrong_way:
        yield f"{operation} began, and {home.desired} is desired"
    if operation == Operation.DISCARDING:
        home.given_up = True


def _ended(home: Home, kind: str, operation: str, row: Workspace) -> None:
    match operation:
        case Operation.PROVISIONING if kind == "COMPLETED" and home.newest is None:
            home.newest = b""
        case Operation.DISCARDING:
            home.given_up = False
            if kind == "COMPLETED" or row.archive_key is None:
                home.newest, home.lost, home.destroyed = None, False, False


def left_over(fleet: MemoryProvider, workspaces: Sequence[UUID] | None = None) -> list[str]:
    """Homes of the provider that are on no volume."""
    existing = {volume.home for volume in fleet.volumes.volumes.values() if volume is not None}
    return [
        str(home)
        for home in fleet.homes.contents
        if home not in existing and (workspaces is None or UUID(home.parts[2]) in workspaces)
    ]
