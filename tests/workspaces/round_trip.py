"""Many workspaces from RUNNING to ARCHIVED and back, while control and storage are killed by SIGKILL."""

import hashlib
import os
import random
import stat
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg

from dpp.money.credits import create_tenant
from dpp.platform.db.postgres import Database
from dpp.workspaces.api import owner as owner_api
from dpp.workspaces.api.create import NewWorkspace, create
from dpp.workspaces.control.message import Tick, body_of
from dpp.workspaces.model import DesiredState
from dpp.workspaces.providers import processes
from dpp.workspaces.store import Change
from tests.support.worker_processes import Workers, running_workers
from tests.workspaces.subprocess_workers import Place, Worker, control, storage

TENANT = "t_kills"
_STILL_SECONDS = 60.0


@dataclass(slots=True)
class Trip:
    """The workspaces of one trip."""

    place: Place
    database: Database
    connection: psycopg.Connection[tuple[Any, ...]]
    workers: Workers
    ids: list[UUID] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def owner(self) -> owner_api.Owner:
        return owner_api.Owner(TENANT, self.database, self.place.queue("looks"))

    def begin(self, count: int) -> None:
        """Create running workspaces."""
        for _ in range(count):
            made = create(
                NewWorkspace("home", DesiredState.RUNNING),
                tenant_id=TENANT,
                request_key=f"key-{uuid4()}",
                limit=count,
                database=self.database,
                observe_queue=self.owner.observe_queue,
            )
            self.ids.append(made.workspace.workspace_id)
        self._come_to("RUNNING", 0)

    def go(self, desired: str, kills: int) -> None:
        """Move all of them to this state, with kills meanwhile."""
        for workspace_id in self.ids:
            owner_api.change(self.owner, str(workspace_id), Change(desired_state=DesiredState(desired)))
        self._come_to(desired, kills)

    def home(self, workspace_id: UUID) -> Path:
        volume = self.place.volumes().find(workspace_id)
        assert volume is not None
        return volume.home

    def _come_to(self, desired: str, kills: int) -> None:
        """Wait for all; the kills are spread over the arrivals. No progress for a minute is a failure."""
        began = moved = beaten = time.monotonic()
        killed, seen = 0, -1
        query = "SELECT count(*) FROM workspaces WHERE phase = %s AND operation = 'NONE'"
        while True:
            ((there,),) = self.connection.execute(query.encode(), (desired,)).fetchall()
            if there != seen:
                seen, moved = there, time.monotonic()
            if there == len(self.ids) and killed >= kills:
                break
            assert time.monotonic() < moved + _STILL_SECONDS, f"{there} of {len(self.ids)} are {desired}"
            if killed < kills and there >= len(self.ids) * killed / (kills + 1):
                time.sleep(self.workers.chance.uniform(0, 0.3))
                self.workers.kill()
                killed += 1
            self.workers.replace_dead()
            if time.monotonic() > beaten + 1:
                beaten = time.monotonic()
                self.owner.observe_queue.send(body_of(Tick(is_minute=False)))
            time.sleep(0.05)
        self.seconds[f"{desired}{len(self.seconds)}"] = time.monotonic() - began

    def medians(self) -> Mapping[str, float]:
        """The median seconds from a desired state to the phase, by desired state."""
        rows = self.connection.execute(
            "SELECT w.to_value, extract(epoch FROM min(p.happened_at) - w.happened_at)::float8"
            " FROM workspace_events w JOIN workspace_events p ON p.workspace_id = w.workspace_id"
            "  AND p.event_id > w.event_id AND p.kind = 'PHASE' AND p.to_value = w.to_value"
            " WHERE w.kind = 'DESIRED' GROUP BY w.event_id"
        ).fetchall()
        found: dict[str, list[float]] = {}
        for desired, seconds in rows:
            found.setdefault(desired, []).append(seconds)
        return {desired: statistics.median(took) for desired, took in found.items()}


@contextmanager
def trip(
    place: Place, workers: Sequence[Worker] = (control, control, storage, storage), seed: int = 4
) -> Iterator[Trip]:
    """Running workers; at the end they are killed, and then every container is stopped."""
    place.volumes().set_up()
    ids: list[UUID] = []
    with (
        psycopg.connect(place.database_url, autocommit=True) as connection,
        closing(Database(place.database_url)) as database,
    ):
        create_tenant(connection, TENANT, "Kills", 1)
        try:
            with running_workers([(one.__name__, partial(one, place)) for one in workers], seed) as running:
                yield Trip(place, database, connection, running, ids)
        finally:
            containers = place.provider().containers
            for workspace_id in ids:
                containers.stop(workspace_id)


def fill(home: Path, chance: random.Random, files: int) -> None:
    """Fill a home with various files below some folders."""
    for number in range(files):
        folder = home / f"folder {chance.randrange(3)}" / "ä"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"file {number}"
        path.write_bytes(chance.randbytes(chance.choice([0, 10, 4_000, 40_000])))
        path.chmod(chance.choice([0o600, 0o644, 0o755]))
    (home / "link").symlink_to("folder 0")
    (home / "empty").mkdir()


def digest(home: Path) -> str:
    """A digest of names, types, modes, times and contents of a home."""
    found = hashlib.sha256()
    for path in sorted(home.rglob("*")):
        at = path.lstat()
        found.update(f"{path.relative_to(home)}\0{at.st_mode}\0{at.st_mtime_ns}\0".encode())
        if stat.S_ISREG(at.st_mode):
            found.update(path.read_bytes())
        elif path.is_symlink():
            found.update(os.fsencode(path.readlink()))
    return found.hexdigest()


def there_and_back(trip: Trip, *, count: int, kills: int, files: int, say: Callable[[str], None]) -> list[str]:
    """Move RUNNING, ARCHIVED, RUNNING, and return the violated invariants."""
    chance = random.Random(5)
    trip.begin(count)
    say(f"{count} run")
    for workspace_id in trip.ids:
        fill(trip.home(workspace_id), chance, files)
    before = {one: digest(trip.home(one)) for one in trip.ids}
    trip.go("ARCHIVED", kills // 2)
    say(f"{count} are archived, {trip.workers.kills.total()} kills")
    faults = [f"{name} stands while all are archived" for name in _volumes(trip)]
    faults += [f"the container of {one} runs" for one in set(trip.ids) & processes.running()]
    trip.go("RUNNING", kills - kills // 2)
    say(f"{count} run again, {trip.workers.kills.total()} kills")
    faults += [f"{one} came back as another" for one in trip.ids if digest(trip.home(one)) != before[one]]
    return faults + list(_broken(trip))


def _volumes(trip: Trip) -> list[str]:
    return [path.name for path in (trip.place.root / "volumes").glob("ws-*")]


def _broken(trip: Trip) -> Iterator[str]:
    running = processes.running()
    yield from (f"the container of {one} does not run" for one in set(trip.ids) - running)
    root = trip.place.root / "volumes"
    yield from (f"{path} is left" for path in (root / "trash").iterdir())
    for workspace_id in trip.ids:
        generations = list((root / "generations" / str(workspace_id)).iterdir())
        if generations != [trip.home(workspace_id).parent]:
            yield f"{generations} stand for {workspace_id}"
    archives = trip.place.provider().archives
    rows = trip.connection.execute("SELECT workspace_id, archive_key, error_info::text FROM workspaces").fetchall()
    for workspace_id, key, error in rows:
        proof, found = archives.read_proof(key), archives.head(key)
        if proof is None or found is None or proof.etag != found.etag:
            yield f"the archive of {workspace_id} is not proved"
        if error is not None:
            yield f"{workspace_id} has {error}"
    yield from _two_at_once(trip)


def _two_at_once(trip: Trip) -> Iterator[str]:
    rows = trip.connection.execute(
        "SELECT workspace_id, array_agg(kind ORDER BY event_id) FROM workspace_events"
        " WHERE kind IN ('STARTED', 'COMPLETED', 'FAILED') GROUP BY 1"
    ).fetchall()
    for workspace_id, kinds in rows:
        if kinds != ["STARTED", "COMPLETED"] * (len(kinds) // 2):
            yield f"{workspace_id} did {kinds}"
