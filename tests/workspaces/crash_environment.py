"""Workspaces before an act, kept so that each crash begins from the same; and the process that acts."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from dpp.workspaces.api import owner as owner_api
from dpp.workspaces.control.observe import ControlEffects, observe
from tests.support.crash_points import Points
from tests.workspaces.environment import TENANT, Environment
from tests.workspaces.fleet_machine import EMPTY
from tests.workspaces.memory_provider import MemoryProvider, StoredObject

CONTENT = b"all that a developer has " * 8
KEY = "the-only-key"
HOURS = 3 * 3_600


@dataclass(slots=True)
class CrashEnvironment:
    """A desk, its provider in memory, and what was kept of both before an act."""

    env: Environment
    fleet: MemoryProvider
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def ids(self) -> list[UUID]:
        """All workspaces."""
        return [row[0] for row in self.env.rows("SELECT workspace_id FROM workspaces ORDER BY sequence")]

    @property
    def only(self) -> UUID:
        """The one of the act."""
        return self.ids[0]

    def made(self, desired: str, **more: Any) -> UUID:
        """A workspace whose home has the content, and is where it is asked to be."""
        workspace_id = self.env.create("RUNNING", **more)
        self.env.drive_to(workspace_id, "RUNNING")
        volume = self.fleet.volumes.volumes[workspace_id]
        assert volume is not None
        self.fleet.homes.contents[volume.home] = CONTENT
        if desired != "RUNNING":
            self.env.set_desired_state(workspace_id, desired)
            self.env.drive_to(workspace_id, desired)
        for _ in range(3):  # no message of this is left
            self.env.deliver()
            self.env.pass_time(20)
        return workspace_id

    def keep(self, act: str) -> None:
        """How all of it stands."""
        table = f"kept_{act.replace('-', '_')}"
        self.env.rows(f"CREATE TABLE {table} AS TABLE workspaces")
        self.env.rows(f"CREATE TABLE {table}_events AS TABLE workspace_events")
        self.kept[act] = {
            "seconds": self.env.seconds,
            "queues": {url: [replace(one) for one in kept] for url, kept in self.env.sqs.queues.items()},
            "objects": self._objects(self.fleet.archives.objects),
            **{name: dict(held) for name, held in self._held().items()},
        }

    def restore(self, act: str) -> None:
        """As it stood."""
        table, kept = f"kept_{act.replace('-', '_')}", self.kept[act]
        self.env.rows(
            f"{EMPTY}; SET session_replication_role = replica;"
            f"INSERT INTO workspaces OVERRIDING SYSTEM VALUE SELECT * FROM {table};"
            f"INSERT INTO workspace_events OVERRIDING SYSTEM VALUE SELECT * FROM {table}_events;"
            "SET session_replication_role = origin"
        )
        self.env.seconds = self.env.sqs.seconds = kept["seconds"]
        self.env.sqs.queues = {url: [replace(one) for one in held] for url, held in kept["queues"].items()}
        self.fleet.archives.objects = self._objects(kept["objects"])
        for name, held in self._held().items():
            held.clear()
            held.update(kept[name])
        self.wrong.clear()

    def watch(self) -> None:
        """Container ⇒ volume (003 §6), at every call of the provider."""

        def look(call: str) -> None:
            fleet = self.fleet
            self.wrong += [
                f"{call}: a container without its volume"
                for one in fleet.containers.running
                if one not in fleet.volumes.volumes
            ]

        self.fleet.faults.before = self.fleet.faults.after = look

    def _held(self) -> dict[str, dict[Any, Any]]:
        fleet = self.fleet
        return {
            "volumes": fleet.volumes.volumes,
            "prepared": fleet.volumes._prepared,
            "homes": fleet.homes.contents,
            "running": fleet.containers.running,
        }

    @staticmethod
    def _objects(objects: dict[str, StoredObject]) -> dict[str, StoredObject]:
        return {key: replace(one) for key, one in objects.items()}


@dataclass(slots=True)
class Process:
    """One process whose calls are counted."""

    crash_env: CrashEnvironment
    points: Points
    effects: ControlEffects

    def look(self, *, does_long_work: bool = True) -> None:
        """Look at the only one."""
        observe(self.crash_env.only, self.effects, does_long_work=does_long_work)

    def asks(self, does: Callable[[owner_api.Owner, str], object]) -> None:
        """Its owner asks for something, and it is looked at."""
        owner = owner_api.Owner(TENANT, self.effects.database, self.effects.observe_queue)
        does(owner, str(self.crash_env.only))
        self.look()
