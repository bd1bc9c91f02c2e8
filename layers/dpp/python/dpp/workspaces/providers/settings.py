"""Which provider there is, and where it keeps volumes (WS-9)."""

from typing import Literal

from pydantic import Field

from dpp.workspaces.config import ArchiveSettings


class ProviderSettings(ArchiveSettings):
    """`local`: processes and folders of this machine, for developing. `aws`: ECS on Fargate, EFS.

    `root`: the folder of the volumes, which on AWS is where EFS is mounted. What else `aws` needs is read when it is
    built (aws_settings.py). `command`: what a local container runs; None: a process that only waits.
    """

    provider: Literal["local", "aws"] = Field(
        alias="DPP_WORKSPACE_PROVIDER",
        description="`local`: processes and folders of this machine. `aws`: ECS on Fargate, EFS.",
    )
    root: str = Field(
        alias="DPP_WORKSPACE_ROOT",
        pattern=r"^/",
        description="The folder of homes, which on AWS is where EFS is mounted.",
    )
    command: str | None = Field(
        default=None,
        alias="DPP_WORKSPACE_COMMAND",
        description="What a local container runs; without it one that only waits.",
    )
