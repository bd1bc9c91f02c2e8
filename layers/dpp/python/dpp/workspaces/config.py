"""What the functions of workspaces read from their environment."""

from pydantic import Field

from dpp.platform.config import Settings

_LOOK_QUEUE = "DPP_WORKSPACE_LOOK_QUEUE_URL"
_WORK_QUEUE = "DPP_WORKSPACE_WORK_QUEUE_URL"
_ARCHIVES = "DPP_ARCHIVES_BUCKET"


class LookQueueSettings(Settings):
    """The queue of looks (D10)."""

    look_queue_url: str = Field(
        alias=_LOOK_QUEUE, pattern=r"^https?://", description="The queue of looks at workspaces."
    )


class KnownLookQueueSettings(Settings):
    """The same for who can do without: the beat finds what there is within half a minute."""

    known_look_queue_url: str | None = Field(
        default=None,
        alias=_LOOK_QUEUE,
        pattern=r"^https?://",
        description="The queue of looks at workspaces.",
    )


class WorkQueueSettings(Settings):
    """The queue of what takes long."""

    work_queue_url: str = Field(
        alias=_WORK_QUEUE, pattern=r"^https?://", description="The queue of what takes long about workspaces."
    )


class KnownWorkQueueSettings(Settings):
    """The same for operators, whose deployment may have no workspaces."""

    known_work_queue_url: str | None = Field(
        default=None,
        alias=_WORK_QUEUE,
        pattern=r"^https?://",
        description="The queue of what takes long about workspaces.",
    )


class ArchiveSettings(Settings):
    """The bucket of archives (WS-10)."""

    archives_bucket: str = Field(
        alias=_ARCHIVES, min_length=3, max_length=63, description="The bucket of archived homes."
    )


class KnownArchiveSettings(Settings):
    """The same for operators, whose deployment may have no workspaces."""

    known_archives_bucket: str | None = Field(
        default=None,
        alias=_ARCHIVES,
        min_length=3,
        max_length=63,
        description="The bucket of archived homes.",
    )


class LimitSettings(Settings):
    """How many workspaces a tenant may have."""

    workspaces_per_tenant: int = Field(
        default=100,
        alias="DPP_WORKSPACES_PER_TENANT",
        ge=1,
        le=100_000,
        description="How many workspaces a tenant may have.",
    )
