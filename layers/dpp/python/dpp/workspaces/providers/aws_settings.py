"""Settings of workspaces on AWS."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, StringConstraints, model_validator

from dpp.platform.config import Settings, variable

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
"""Memory sizes in MiB by CPU units; 1,024 units are one CPU (ECS guide, "Task definition parameters for Fargate")."""


def _split(value: object) -> object:
    """Split the comma-separated value of an environment variable."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


type _Subnet = Annotated[str, StringConstraints(pattern=r"^subnet-[0-9a-f]+$")]


class ContainerSizeSettings(Settings):
    """The size of each container; must be a Fargate size."""

    cpu: int = variable(
        "DPP_WORKSPACE_CPU", "CPU units of a container (1024 are one CPU); must be a Fargate size.", 1024
    )
    memory_mib: int = variable(
        "DPP_WORKSPACE_MEMORY_MIB", "Memory of a container in MiB; must be a Fargate size for its CPU.", 2048
    )

    @model_validator(mode="after")
    def _must_be_a_fargate_size(self) -> Self:
        if self.cpu not in FARGATE_SIZES:
            known = ", ".join(map(str, FARGATE_SIZES))
            raise ValueError(f"DPP_WORKSPACE_CPU: Fargate offers {known}")
        if self.memory_mib not in (fitting := FARGATE_SIZES[self.cpu]):
            raise ValueError(
                f"DPP_WORKSPACE_MEMORY_MIB: for DPP_WORKSPACE_CPU={self.cpu} Fargate offers"
                f" {', '.join(map(str, fitting))}"
            )
        return self


class AwsWorkspaceSettings(ContainerSizeSettings):
    """Fargate and EFS (WS-9). The resources are created in dpp_cdk/resources/workspaces.py.

    `posix_uid`, `posix_gid`: the owner that EFS gives to every file a container writes, whatever its own user is.
    """

    ecs_cluster: str = variable("DPP_WORKSPACE_ECS_CLUSTER", "The ECS cluster of containers.", min_length=1)
    efs_id: str = variable("DPP_WORKSPACE_EFS_ID", "The EFS file system of homes.", pattern=r"^fs-[0-9a-f]+$")
    image: str = variable("DPP_WORKSPACE_IMAGE", "The image of containers, from ECR.", pattern=r"^\S+$")
    architecture: Literal["ARM64", "X86_64"] = variable(
        "DPP_WORKSPACE_ARCHITECTURE", "The architecture of the image.", "ARM64"
    )
    subnets: Annotated[tuple[_Subnet, ...], BeforeValidator(_split)] = variable(
        "DPP_WORKSPACE_SUBNETS",
        "The subnets of containers, comma-separated.",
        min_length=1,
        max_length=16,  # the limit of ECS
    )
    security_group: str = variable(
        "DPP_WORKSPACE_SECURITY_GROUP", "The security group of containers.", pattern=r"^sg-[0-9a-f]+$"
    )
    task_role_arn: str = variable("DPP_WORKSPACE_TASK_ROLE_ARN", "The task role of containers.", pattern=_ROLE)
    execution_role_arn: str = variable(
        "DPP_WORKSPACE_EXECUTION_ROLE_ARN", "The execution role of containers.", pattern=_ROLE
    )
    log_group: str = variable("DPP_WORKSPACE_LOG_GROUP", "The log group of containers.", min_length=1)
    home_in_container: str = variable(
        "DPP_WORKSPACE_HOME", "The path of the home in the container.", "/home/workspace", pattern=r"^(/[\w.-]+)+$"
    )
    posix_uid: int = variable(
        "DPP_WORKSPACE_UID", "The uid that owns every file a container writes.", 1000, ge=1, le=2**32 - 1
    )
    posix_gid: int = variable(
        "DPP_WORKSPACE_GID", "The gid that owns every file a container writes.", 1000, ge=1, le=2**32 - 1
    )
