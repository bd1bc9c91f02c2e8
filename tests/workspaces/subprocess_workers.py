"""Control and storage of workspaces as processes, killed by test_kills.py and tests/soak/workspaces.py.

Each stands for a function with its event source mapping: messages are received, handed to the use case and deleted, so
that what a kill interrupts comes again. Containers are processes and volumes folders of this machine; archives are
objects behind the real S3 client.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import boto3
from botocore.config import Config

from dpp.platform.aws.queue import Queue
from dpp.platform.db import postgres
from dpp.platform.db.postgres import Database
from dpp.platform.errors import DependencyUnavailable
from dpp.workspaces.control import act
from dpp.workspaces.control import lease as lease_module
from dpp.workspaces.control import observe as observe_module
from dpp.workspaces.control import tick as tick_module
from dpp.workspaces.control.message import Observe, ObservePage, Tick, Work, parse
from dpp.workspaces.control.observe import ControlEffects, observe
from dpp.workspaces.control.tick import observe_fleet_page, tick
from dpp.workspaces.model import Archive
from dpp.workspaces.ports import Archives, Heartbeat, HomeFormat, Provider, Volume, Volumes
from dpp.workspaces.providers import home_tar, processes
from dpp.workspaces.providers.directory_volumes import DirectoryVolumes
from dpp.workspaces.providers.local_containers import ProcessContainers
from dpp.workspaces.providers.s3_archives import S3Archives

BUCKET = "archives"
_AT_MOST = 4
# Shorter than in production, where they are 60 s, 60 s and 15 s.
_LEASE_SECONDS, _HANDED_AGAIN_SECONDS, _LOST_SECONDS = 4, 4, 2


@dataclass(frozen=True, slots=True)
class Place:
    """The servers and folders of the processes; `visibility_seconds`: of the queues."""

    database_url: str
    sqs: str
    s3: str
    root: Path
    visibility_seconds: int = 4

    def queue(self, name: str) -> Queue:
        """The queue `looks` or `works`, with a client without retries."""
        client = _client("sqs", self.sqs)
        return Queue(f"{self.sqs}/000000000000/{name}", lambda: client)

    def volumes(self) -> DirectoryVolumes:
        """Folders below the root."""
        return DirectoryVolumes(self.root / "volumes", processes.is_running)

    def provider(self) -> Provider:
        """The local provider, as providers/build.py builds it."""
        volumes = self.volumes()
        client = _client("s3", self.s3)
        return Provider(
            ProcessContainers(self.root / "containers", volumes, grace_seconds=5),
            volumes,
            S3Archives(BUCKET, lambda: client),
            home_tar,
        )

    def effects(self) -> ControlEffects:
        """The effects, as the functions' wiring builds them."""
        return ControlEffects(Database(self.database_url), self.provider(), self.queue("looks"), self.queue("works"))


def _client(service: Any, endpoint: str) -> Any:
    signing: Any = {"s3": {"addressing_style": "path"}} if service == "s3" else {}
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        config=Config(retries={"total_max_attempts": 1}, **signing),
    )


type Worker = Callable[[Place], None]


def control(place: Place) -> None:
    """Handle observations, pages of the fleet and ticks."""
    effects = _begin(place)

    def work_on(body: str) -> None:
        match parse(body):
            case Observe(workspace_id):
                observe(workspace_id, effects)
            case ObservePage() as page:
                observe_fleet_page(page, effects)
            case Tick():
                tick(effects)
            case other:
                raise AssertionError(other)

    _work(place, effects.observe_queue, work_on)


def storage(place: Place) -> None:
    """Handle long work."""
    effects = _begin(place)

    def work_on(body: str) -> None:
        match parse(body):
            case Work(workspace_id):
                observe(workspace_id, effects, does_long_work=True)
            case other:
                raise AssertionError(other)

    _work(place, effects.work_queue, work_on)


def storage_that_installs_first(place: Place) -> None:
    """A planted fault: the volume is installed before its home is unpacked, and the process dies in between."""

    def restore_home(  # noqa: PLR0917 - as the real one is called
        volumes: Volumes,
        archives: Archives,
        workspace_id: UUID,
        op_id: UUID,
        archive: Archive,
        heartbeat: Heartbeat,
        *,
        homes: HomeFormat,
    ) -> Volume:
        existing = volumes.find(workspace_id)
        if existing is not None:
            return existing
        prepared = volumes.prepare(workspace_id, str(op_id))
        volumes.install(workspace_id, str(op_id), archive.key, prepared)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError(homes)

    vars(act)["restore_home"] = restore_home
    storage(place)


def _work(place: Place, queue: Queue, work_on: Callable[[str], None]) -> None:
    starter = os.getppid()
    while os.getppid() == starter:
        with suppress(DependencyUnavailable):  # the message is delivered again
            for one in queue.receive(at_most=_AT_MOST, invisible_seconds=place.visibility_seconds, wait_seconds=1):
                work_on(one.body)
                queue.delete(one.receipt_handle)


def _begin(place: Place) -> ControlEffects:
    """Allow a busy machine more time to connect, and shorten leases, so that takeovers come soon."""
    vars(postgres)["_CONNECT_TIMEOUT_SECONDS"] = 20
    vars(lease_module)["LEASE_SECONDS"] = _LEASE_SECONDS
    vars(lease_module)["_RENEW_AFTER_SECONDS"] = 1.0
    vars(observe_module)["HAND_OVER_AGAIN_AFTER_SECONDS"] = _HANDED_AGAIN_SECONDS
    vars(tick_module)["LOST_AFTER_SECONDS"] = _LOST_SECONDS
    return place.effects()
