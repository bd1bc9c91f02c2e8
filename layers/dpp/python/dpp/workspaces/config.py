"""Settings of the workspaces functions."""

from pydantic import Field

from dpp.platform.config import Settings

_OBSERVE_QUEUE = "DPP_WORKSPACE_LOOK_QUEUE_URL"
_WORK_QUEUE = "DPP_WORKSPACE_WORK_QUEUE_URL"
_ARCHIVES = "DPP_ARCHIVES_BUCKET"
_URL = r"^https?://"
_OBSERVE_TEXT = "The queue of workspaces to observe."
_WORK_TEXT = "The queue of long-running work on workspaces."
_ARCHIVES_TEXT = "The bucket of archived homes."


class ObserveQueueSettings(Settings):
    """The queue of workspaces to observe (D10)."""

    observe_queue_url: str = Field(alias=_OBSERVE_QUEUE, pattern=_URL, description=_OBSERVE_TEXT)


class OptionalObserveQueueSettings(Settings):
    """The observe queue, for callers that can do without it: the next tick finds the work within half a minute."""

    optional_observe_queue_url: str | None = Field(
        default=None, alias=_OBSERVE_QUEUE, pattern=_URL, description=_OBSERVE_TEXT
    )


class WorkQueueSettings(Settings):
    """The queue of long-running work."""

    work_queue_url: str = Field(alias=_WORK_QUEUE, pattern=_URL, description=_WORK_TEXT)


class OptionalWorkQueueSettings(Settings):
    """The work queue, for operators whose deployment may have no workspaces."""

    optional_work_queue_url: str | None = Field(default=None, alias=_WORK_QUEUE, pattern=_URL, description=_WORK_TEXT)


class ArchiveSettings(Settings):
    """The bucket of archives (WS-10)."""

    archives_bucket: str = Field(alias=_ARCHIVES, min_length=3, max_length=63, description=_ARCHIVES_TEXT)


class OptionalArchiveSettings(Settings):
    """The bucket of archives, for operators whose deployment may have no workspaces."""

    optional_archives_bucket: str | None = Field(
        default=None, alias=_ARCHIVES, min_length=3, max_length=63, description=_ARCHIVES_TEXT
    )


class LimitSettings(Settings):
    """The limit of workspaces per tenant."""

    workspaces_per_tenant: int = Field(
        default=100,
        alias="DPP_WORKSPACES_PER_TENANT",
        ge=1,
        le=100_000,
        description="The limit of workspaces per tenant; deleted ones do not count.",
    )
