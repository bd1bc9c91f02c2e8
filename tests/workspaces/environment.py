"""Workspaces on real Postgres, with a provider and queues in memory; the test sets the time."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID, uuid4

import psycopg

from dpp.money.credits import create_tenant
from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database
from dpp.workspaces import store
from dpp.workspaces.api import owner as owner_api
from dpp.workspaces.api.create import NewWorkspace, create
from dpp.workspaces.archives.collect import CollectReport, collect
from dpp.workspaces.control.message import Collect, Observe, ObservePage, Tick, Work, parse
from dpp.workspaces.control.observe import ControlEffects, ObserveReport, observe
from dpp.workspaces.control.tick import TickReport, observe_fleet_page, tick
from dpp.workspaces.model import DesiredState, Phase, Workspace
from dpp.workspaces.ports import Provider
from dpp.workspaces.store import Change
from tests.support.clock import MovedClock
from tests.support.memory_sqs import MemorySqs
from tests.support.stored import Stored, existing

TENANT = "t_owner"
STRANGER = "t_stranger"
LOOKS, WORKS = "http://sqs.local/looks", "http://sqs.local/works"
VISIBILITY_SECONDS = 360
TABLES = ("workspaces", "workspace_events")


@dataclass(slots=True)
class Environment(Stored):
    """All parts, with shortcuts. Each reading of the clock advances it by a millisecond."""

    url: str
    database: Database
    provider: Provider
    clock: MovedClock
    sqs: MemorySqs
    admin: psycopg.Connection[tuple[Any, ...]]

    def queue(self, url: str) -> Queue:
        return Queue(url, lambda: cast(Any, self.sqs))

    def pass_time(self, seconds: float) -> None:
        """Move the clock of rows and queues."""
        self.clock.move(seconds)

    @property
    def owner(self) -> owner_api.Owner:
        """The tenant, as in a request."""
        return owner_api.Owner(TENANT, self.database, self.queue(LOOKS))

    def effects(self, database: Database | None = None, provider: Provider | None = None) -> ControlEffects:
        return ControlEffects(
            database or self.database, provider or self.provider, self.queue(LOOKS), self.queue(WORKS), self.clock
        )

    def create(self, desired: str = "RUNNING", **more: Any) -> UUID:
        """Create a workspace, and return its id."""
        created = create(
            NewWorkspace("home", DesiredState(desired), **more),
            tenant_id=TENANT,
            request_key=f"key-{uuid4()}",
            limit=10_000,
            database=self.database,
            observe_queue=self.queue(LOOKS),
            now=self.clock(),
        )
        return created.workspace.workspace_id

    def set_desired_state(self, workspace_id: UUID, desired: str) -> Workspace:
        """Set the desired state, as the owner."""
        requested = Change(desired_state=DesiredState(desired))
        return owner_api.change(self.owner, str(workspace_id), requested, self.clock())

    def delete(self, workspace_id: UUID) -> Workspace:
        """Delete the workspace, as the owner."""
        return owner_api.delete(self.owner, str(workspace_id), self.clock())

    def observe(self, workspace_id: UUID, *, does_long_work: bool = True) -> ObserveReport:
        """Observe once, with all steps that are possible."""
        return observe(workspace_id, self.effects(), does_long_work=does_long_work)

    def tick(self) -> TickReport:
        return tick(self.effects())

    def collect(self, **more: Any) -> CollectReport:
        """Run one collection."""
        return collect(self.database, self.provider.archives, now=self.clock(), **more)

    def deliver(self, effects: ControlEffects | None = None, *, at_most: int = 200) -> int:
        """Handle the visible messages, as the functions do, and return their number."""
        done = 0
        for url, does_long_work in ((LOOKS, False), (WORKS, True)):
            queue = self.queue(url)
            while done < at_most and (received := queue.receive(at_most=10, invisible_seconds=VISIBILITY_SECONDS)):
                for one in received:
                    self.handle_message(one.body, effects or self.effects(), does_long_work=does_long_work)
                    queue.delete(one.receipt_handle)
                    done += 1
        return done

    def handle_message(self, body: str, effects: ControlEffects, *, does_long_work: bool) -> None:
        match parse(body):
            case Observe(workspace_id) | Work(workspace_id):
                observe(workspace_id, effects, does_long_work=does_long_work)
            case ObservePage() as page:
                observe_fleet_page(page, effects)
            case Tick():
                tick(effects)
            case Collect(after):
                collect(effects.database, effects.provider.archives, after=after, now=self.clock())
            case None:
                raise AssertionError(body)

    def run_ticks(self, rounds: int = 40, seconds: float = 30.0) -> None:
        """Run ticks, each with its messages and half a minute."""
        for _ in range(rounds):
            self.tick()
            for _ in range(8):
                if not self.deliver():
                    break
                self.pass_time(2)
            self.pass_time(seconds)

    def drive_to(self, workspace_id: UUID, phase: str, observations: int = 30) -> Workspace:
        """Observe until the workspace is in this phase."""
        for _ in range(observations):
            if self.get(workspace_id).phase == phase and self.get(workspace_id).operation == "NONE":
                break
            self.observe(workspace_id)
            self.pass_time(20)
        found = self.get(workspace_id)
        assert found.phase == phase, found
        return found

    def move(self, workspace_id: UUID, *states: str) -> None:
        """Set these desired states one after another, and observe until each is reached."""
        for state in states:
            self.set_desired_state(workspace_id, state)
            self.drive_to(workspace_id, state)

    def create_in(self, desired: str) -> UUID:
        """Create a workspace in this phase."""
        workspace_id = self.create(desired)
        self.drive_to(workspace_id, desired)
        return workspace_id

    def get(self, workspace_id: UUID) -> Workspace:
        return existing(self.using(store.find, workspace_id))

    def phase(self, workspace_id: UUID) -> Phase:
        return self.get(workspace_id).phase

    def kinds(self, workspace_id: UUID) -> list[str]:
        """The kinds of its events, oldest first."""
        return [one.kind for one in reversed(self.using(store.events, workspace_id, 10_000))]

    def rows(self, statement: str, params: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        """The rows of a statement, as a superuser."""
        cursor = self.admin.execute(statement.encode(), params)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def open_environment(url: str, provider: Provider) -> Iterator[Environment]:
    """An environment on this database, with two tenants; its clock starts at Postgres's time."""
    with closing(Database(url)) as database, psycopg.connect(url, autocommit=True) as admin:
        create_tenant(admin, TENANT, "An owner", 60)
        create_tenant(admin, STRANGER, "Another", 60)
        clock = MovedClock(store.clock(admin), step_seconds=0.001)
        yield Environment(url, database, provider, clock, MemorySqs(clock.monotonic), admin)
