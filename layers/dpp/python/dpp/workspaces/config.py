"""Settings of the workspaces functions."""

from dpp.platform.config import Settings, variable

_OBSERVE_QUEUE = "DPP_WORKSPACE_LOOK_QUEUE_URL"
_WORK_QUEUE = "DPP_WORKSPACE_WORK_QUEUE_URL"
_ARCHIVES = "DPP_ARCHIVES_BUCKET"
_URL = r"^https?://"
_OBSERVE_TEXT = "The queue of workspaces to observe."
_WORK_TEXT = "The queue of long-running work on workspaces."
_ARCHIVES_TEXT = "The bucket of archived homes."


class ObserveQueueSettings(Settings):
    """The queue of workspaces to observe (D10)."""

    observe_queue_url: str = variable(_OBSERVE_QUEUE, _OBSERVE_TEXT, pattern=_URL)


class OptionalObserveQueueSettings(Settings):
    """The observe queue, for callers that can do without it: the next tick finds the work within half a minute."""

    optional_observe_queue_url: str | None = variable(_OBSERVE_QUEUE, _OBSERVE_TEXT, None, pattern=_URL)


class WorkQueueSettings(Settings):
    """The queue of long-running work."""

    work_queue_url: str = variable(_WORK_QUEUE, _WORK_TEXT, pattern=_URL)


class OptionalWorkQueueSettings(Settings):
    """The work queue, for operators whose deployment may have no workspaces."""

    optional_work_queue_url: str | None = variable(_WORK_QUEUE, _WORK_TEXT, None, pattern=_URL)


class ArchiveSettings(Settings):
    """The bucket of archives (WS-10)."""

    archives_bucket: str = variable(_ARCHIVES, _ARCHIVES_TEXT, min_length=3, max_length=63)


class OptionalArchiveSettings(Settings):
    """The bucket of archives, for operators whose deployment may have no workspaces."""

    optional_archives_bucket: str | None = variable(_ARCHIVES, _ARCHIVES_TEXT, None, min_length=3, max_length=63)


class LimitSettings(Settings):
    """The limit of workspaces per tenant."""

    workspaces_per_tenant: int = variable(
        "DPP_WORKSPACES_PER_TENANT",
        "The limit of workspaces per tenant; deleted ones do not count.",
        100,
        ge=1,
        le=100_000,
    )
