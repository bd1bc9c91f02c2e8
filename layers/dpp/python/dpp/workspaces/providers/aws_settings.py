"""Where workspaces run on AWS, and what their containers are given."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from dpp.platform.config import Settings

_ROLE = r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/.+$"
_GIB = 1024

FARGATE_SIZES = {
    256: (512, 1024, 2048),
    512: tuple(range(1 * _GIB, 4 * _GIB + 1, _GIB)),
    1024: tuple(range(2 * _GIB, 8 * _GIB + 1, _GIB)),
    2048: tuple(range(4 * _GIB, 16 * _GIB + 1, _GIB)),
    4096: tuple(range(8 * _GIB, 30 * _GIB + 1, _GIB)),
    8192: tuple(range(16 * _GIB, 60 * _GIB + 1, 4 * _GIB)),
    16384: tuple(range(32 * _GIB, 120 * _GIB + 1, 8 * _GIB)),
}
"""Memory in MiB by CPU units, 1,024 of which are one CPU (ECS guide, "Task definition parameters for Fargate")."""


def _split(value: object) -> object:
    """A list as an environment variable holds it: parts between commas."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


type _Subnet = Annotated[str, StringConstraints(pattern=r"^subnet-[0-9a-f]+$")]


class ContainerSizeSettings(Settings):
    """How large each container is, as Fargate gives them."""

    cpu: int = Field(
        description="CPU units of a container, 1024 of which are one CPU; a size that Fargate gives.",
        default=1024,
        alias="DPP_WORKSPACE_CPU",
    )
    memory_mib: int = Field(
        description="Memory of a container; what Fargate gives with its CPU.",
        default=2048,
        alias="DPP_WORKSPACE_MEMORY_MIB",
    )

    @model_validator(mode="after")
    def _is_a_size_of_fargate(self) -> Self:
        if self.cpu not in FARGATE_SIZES:
            known = ", ".join(map(str, FARGATE_SIZES))
            raise ValueError(f"DPP_WORKSPACE_CPU: Fargate gives {known}")
        if self.memory_mib not in (fitting := FARGATE_SIZES[self.cpu]):
            raise ValueError(
                f"DPP_WORKSPACE_MEMORY_MIB: Fargate gives {fitting[0]} to {fitting[-1]} in its steps with"
                f" DPP_WORKSPACE_CPU={self.cpu}"
            )
        return self


class AwsWorkspaceSettings(ContainerSizeSettings):
    """Fargate and EFS (WS-9). The network, the roles and the file system are those of dpp_cdk/resources/workspaces.py.

    `posix_uid`, `posix_gid`: whose every file is that a container writes, whoever it thinks it is; EFS sees to that.
    """

    ecs_cluster: str = Field(
        description="The cluster of containers.", alias="DPP_WORKSPACE_ECS_CLUSTER", min_length=1
    )
    efs_id: str = Field(
        description="The file system of homes.", alias="DPP_WORKSPACE_EFS_ID", pattern=r"^fs-[0-9a-f]+$"
    )
    image: str = Field(
        description="What containers run, from ECR.", alias="DPP_WORKSPACE_IMAGE", pattern=r"^\S+$"
    )
    architecture: Literal["ARM64", "X86_64"] = Field(
        description="What the image of containers is built for.",
        default="ARM64",
        alias="DPP_WORKSPACE_ARCHITECTURE",
    )
    subnets: Annotated[tuple[_Subnet, ...], BeforeValidator(_split)] = Field(
        description="Where containers stand, between commas.",
        alias="DPP_WORKSPACE_SUBNETS",
        min_length=1,
        max_length=16,  # as many as ECS takes
    )
    security_group: str = Field(
        description="What containers may talk to.",
        alias="DPP_WORKSPACE_SECURITY_GROUP",
        pattern=r"^sg-[0-9a-f]+$",
    )
    task_role_arn: str = Field(
        description="The role of containers.", alias="DPP_WORKSPACE_TASK_ROLE_ARN", pattern=_ROLE
    )
    execution_role_arn: str = Field(
        description="The role with which containers are started.",
        alias="DPP_WORKSPACE_EXECUTION_ROLE_ARN",
        pattern=_ROLE,
    )
    log_group: str = Field(
        description="The log of containers.", alias="DPP_WORKSPACE_LOG_GROUP", min_length=1
    )
    home_in_container: str = Field(
        description="Where the home is in the container.",
        default="/home/workspace",
        alias="DPP_WORKSPACE_HOME",
        pattern=r"^(/[\w.-]+)+$",
    )
    posix_uid: int = Field(
        description="Whose every file is that a container writes.",
        default=1000,
        alias="DPP_WORKSPACE_UID",
        ge=1,
        le=2**32 - 1,
    )
    posix_gid: int = Field(
        description="Of which group every file is that a container writes.",
        default=1000,
        alias="DPP_WORKSPACE_GID",
        ge=1,
        le=2**32 - 1,
    )
