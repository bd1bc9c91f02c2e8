"""Settings of the provider (WS-9)."""

from typing import Literal

from pydantic import Field

from dpp.workspaces.config import ArchiveSettings


class ProviderSettings(ArchiveSettings):
    """The provider and its folder of volumes. Further settings of `aws` are read when it is built (aws_settings.py)."""

    provider: Literal["local", "aws"] = Field(
        alias="DPP_WORKSPACE_PROVIDER",
        description="`local`: processes and folders of this machine. `aws`: ECS on Fargate, EFS.",
    )
    root: str = Field(
        alias="DPP_WORKSPACE_ROOT", pattern=r"^/", description="The folder of homes; on AWS the mount point of EFS."
    )
    command: str | None = Field(
        default=None,
        alias="DPP_WORKSPACE_COMMAND",
        description="The command of a local container; by default a process that only waits.",
    )
