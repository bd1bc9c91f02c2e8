"""Settings of the provider (WS-9)."""

from typing import Literal

from dpp.platform.config import variable
from dpp.workspaces.config import ArchiveSettings


class ProviderSettings(ArchiveSettings):
    """The provider and its folder of volumes. Further settings of `aws` are read when it is built (aws_settings.py)."""

    provider: Literal["local", "aws"] = variable(
        "DPP_WORKSPACE_PROVIDER", "`local`: processes and folders of this machine. `aws`: ECS on Fargate, EFS."
    )
    root: str = variable("DPP_WORKSPACE_ROOT", "The folder of homes; on AWS the mount point of EFS.", pattern=r"^/")
    command: str | None = variable(
        "DPP_WORKSPACE_COMMAND", "The command of a local container; by default a process that only waits.", None
    )
