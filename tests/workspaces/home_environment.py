"""One workspace over a provider in memory, to archive and restore, with faults at any call."""

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from dpp.workspaces.model import Archive, archive_key_of
from dpp.workspaces.ports import Heartbeat, Volume
from dpp.workspaces.providers import home_storage
from tests.support.crash_points import Killed
from tests.workspaces.homes import no_heartbeat
from tests.workspaces.memory_provider import MemoryArchives, MemoryProvider, StoredObject

CONTENT = b"the work of weeks " * 50


@dataclass(slots=True)
class HomeEnvironment:
    """A workspace, its provider, and the calls made to it."""

    fleet: MemoryProvider = field(default_factory=MemoryProvider)
    workspace_id: UUID = field(default_factory=uuid4)
    op_id: UUID = field(default_factory=uuid4)
    calls: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fleet.faults.before = self.calls.append

    @property
    def key(self) -> str:
        """The key of the operation's archive."""
        return archive_key_of(self.workspace_id, self.op_id)

    @property
    def stored(self) -> StoredObject:
        return self.fleet.archives.objects[self.key]

    def volume(self, content: bytes = CONTENT) -> Volume:
        volumes = self.fleet.volumes
        prepared = volumes.prepare(self.workspace_id, "g1")
        self.fleet.homes.contents[prepared] = content
        return volumes.install(self.workspace_id, "g1", "an older archive", prepared)

    def archive(self, heartbeat: Heartbeat = no_heartbeat, archives: MemoryArchives | None = None) -> Archive:
        fleet = self.fleet
        return home_storage.archive_home(
            fleet.volumes, archives or fleet.archives, self.workspace_id, self.op_id, heartbeat, homes=fleet.homes
        )

    def restore(self, archive: Archive, op_id: UUID | None = None, heartbeat: Heartbeat = no_heartbeat) -> Volume:
        fleet = self.fleet
        return home_storage.restore_home(
            fleet.volumes, fleet.archives, self.workspace_id, op_id or self.op_id, archive, heartbeat, homes=fleet.homes
        )

    def archived(self) -> Archive:
        """Archive the home, and delete the volume."""
        self.volume()
        archive = self.archive()
        self.fleet.volumes.delete(self.workspace_id, "g1")
        self.calls.clear()
        return archive

    def home(self) -> bytes | None:
        """The content of the volume, if it exists."""
        volume = self.fleet.volumes.find(self.workspace_id)
        return None if volume is None else self.fleet.homes.contents[volume.home]


def fail_at_call(
    env: HomeEnvironment, number: int, when: str, error: type[BaseException] = Killed
) -> Callable[[], None]:
    """Raise before or after the call of this number; the returned function undoes that."""
    met = [0]

    def fault(call: str) -> None:
        if call != "archives.read.chunk" or when == "before":
            met[0] += 1
            if met[0] == number:
                raise error

    setattr(env.fleet.faults, when, fault)

    def lift() -> None:
        env.fleet.faults.before = env.calls.append
        env.fleet.faults.after = lambda _: None

    return lift
