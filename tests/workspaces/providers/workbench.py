"""The providers of the conformance suite, by name: each a context manager that gives a Workbench around a folder."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID, uuid4

from dpp.platform.aws.clients import s3_client
from dpp.workspaces.errors import OperationFailed
from dpp.workspaces.ports import HomeFormat, Provider
from dpp.workspaces.providers import home_tar, processes
from dpp.workspaces.providers.directory_volumes import DirectoryVolumes
from dpp.workspaces.providers.efs_volumes import EfsVolumes
from dpp.workspaces.providers.local_containers import ProcessContainers
from dpp.workspaces.providers.s3_archives import S3Archives
from tests.workspaces.homes import no_heartbeat
from tests.workspaces.memory_provider import MemoryProvider
from tests.workspaces.providers.aws_account import Account

type Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Workbench:
    """A provider, and access behind it for tests.

    `put` and `get`: the files of a home or a prepared folder. `spoil`: creates a foreign volume in place of a
    workspace's. `alter`: changes one byte of an object."""

    provider: Provider
    homes: HomeFormat
    put: Callable[[Path, Files], None]
    get: Callable[[Path], Files]
    spoil: Callable[[UUID], None]
    alter: Callable[[str], None]
    workspaces: list[UUID] = field(default_factory=list)

    def workspace(self) -> UUID:
        """A new workspace, whose container and volume are removed with the test."""
        self.workspaces.append(uuid4())
        return self.workspaces[-1]

    def close(self) -> None:
        for workspace_id in self.workspaces:
            self.provider.containers.stop(workspace_id)
            self.provider.volumes.delete(workspace_id, None)


@contextmanager
def local(folder: Path) -> Iterator[Workbench]:
    """Processes, folders, and S3 by moto."""
    bucket = f"archives-{uuid4()}"
    s3_client().create_bucket(Bucket=bucket)
    archives = S3Archives(bucket)
    volumes = DirectoryVolumes(folder / "volumes", processes.is_running)
    volumes.set_up()
    containers = ProcessContainers(folder / "containers", volumes)

    def put(home: Path, files: Files) -> None:
        for name, content in files.items():
            (home / name).write_bytes(content)

    def alter(key: str) -> None:
        content = b"".join(archives.read(key, no_heartbeat))
        s3_client().put_object(Bucket=bucket, Key=key, Body=_altered(content))

    bench = Workbench(
        provider=Provider(containers, volumes, archives, home_tar),
        homes=home_tar,
        put=put,
        get=lambda home: {path.name: path.read_bytes() for path in home.iterdir()},
        spoil=lambda workspace_id: (folder / "volumes" / f"ws-{workspace_id}-home").mkdir(),
        alter=alter,
    )
    with closing(bench):
        yield bench


@contextmanager
def memory(folder: Path) -> Iterator[Workbench]:
    fleet = MemoryProvider()

    def put(home: Path, files: Files) -> None:
        if home not in fleet.homes.contents:
            raise OperationFailed("VolumeGone", "The folder is not a volume.")
        held = {**get(home), **files}
        encoded = json.dumps({name: content.hex() for name, content in held.items()})
        fleet.homes.contents[home] = encoded.encode()

    def get(home: Path) -> Files:
        held = json.loads(fleet.homes.contents[home] or b"{}")
        return {name: bytes.fromhex(content) for name, content in held.items()}

    def alter(key: str) -> None:
        fleet.archives.objects[key].content = _altered(fleet.archives.objects[key].content)

    def spoil(workspace_id: UUID) -> None:
        fleet.volumes.volumes[workspace_id] = None

    bench = Workbench(
        provider=Provider(fleet.containers, fleet.volumes, fleet.archives, fleet.homes),
        homes=fleet.homes,
        put=put,
        get=get,
        spoil=spoil,
        alter=alter,
    )
    with closing(bench):
        yield bench


@contextmanager
def fargate(folder: Path) -> Iterator[Workbench]:
    """Fargate and access points from moto, and a folder in place of EFS."""
    account = Account(folder)
    in_use = account.provider.in_use
    with local(folder) as bench:
        folders = DirectoryVolumes(folder / "volumes", in_use)
        volumes = EfsVolumes(folders, account.access_points(), in_use, owner=(os.getuid(), os.getgid()))
        provider = replace(bench.provider, containers=account.provider, volumes=volumes)
        yield replace(bench, provider=provider)


PROVIDERS: Mapping[str, Callable[[Path], AbstractContextManager[Workbench]]] = {
    "memory": memory,
    "local": local,
    "fargate": fargate,
}


def _altered(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
