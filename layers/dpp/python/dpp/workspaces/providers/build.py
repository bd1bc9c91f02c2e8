"""Build the provider that the settings name, once per container, without importing the other provider's modules."""

import os
import shlex
from pathlib import Path

from dpp.platform.config import ConfigurationError
from dpp.workspaces.ports import Provider
from dpp.workspaces.providers import home_tar
from dpp.workspaces.providers.s3_archives import S3Archives
from dpp.workspaces.providers.settings import ProviderSettings


def build_provider(settings: ProviderSettings) -> Provider:
    """Build the provider. Raises ConfigurationError if a setting it needs is missing."""
    archives = S3Archives(settings.archives_bucket)
    root = Path(settings.root)
    return _local(settings, root, archives) if settings.provider == "local" else _aws(root, archives)


def _local(settings: ProviderSettings, root: Path, archives: S3Archives) -> Provider:
    from dpp.workspaces.providers import processes  # noqa: PLC0415
    from dpp.workspaces.providers.directory_volumes import DirectoryVolumes  # noqa: PLC0415
    from dpp.workspaces.providers.local_containers import ProcessContainers  # noqa: PLC0415

    volumes = DirectoryVolumes(root / "volumes", processes.is_running)
    volumes.set_up()
    command = None if settings.command is None else shlex.split(settings.command)
    marks = {name: os.environ[name] for name in _MARKS if name in os.environ}
    return Provider(ProcessContainers(root / "containers", volumes, command, marks), volumes, archives, home_tar)


_MARKS = ("DPP_LOCAL_STATE",)
"""Variables by which `dpp local down` finds the processes of a local stack and ends them."""


def _aws(root: Path, archives: S3Archives) -> Provider:
    from dpp.workspaces.providers.access_points import AccessPoints  # noqa: PLC0415
    from dpp.workspaces.providers.aws_settings import AwsWorkspaceSettings  # noqa: PLC0415
    from dpp.workspaces.providers.directory_volumes import DirectoryVolumes  # noqa: PLC0415
    from dpp.workspaces.providers.efs_volumes import EfsVolumes  # noqa: PLC0415
    from dpp.workspaces.providers.fargate_containers import FargateContainers  # noqa: PLC0415

    settings = AwsWorkspaceSettings.load()
    containers = FargateContainers(settings)
    if not root.is_mount():
        raise ConfigurationError(f"DPP_WORKSPACE_ROOT: no file system is mounted at {root}")
    directories = DirectoryVolumes(root, containers.in_use)
    directories.set_up()
    volumes = EfsVolumes(
        directories, AccessPoints(settings), containers.in_use, owner=(settings.posix_uid, settings.posix_gid)
    )
    return Provider(containers, volumes, archives, home_tar)
