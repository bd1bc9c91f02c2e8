"""The errors of this context; the first line of a class's docstring is its default message."""

from datetime import datetime

from dpp.platform.errors import DependencyUnavailable


class LifecycleError(Exception):
    """Base of this context's errors."""

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(detail or (type(self).__doc__ or "").partition("\n")[0])


class BadSignature(LifecycleError):
    """The signature is missing or wrong."""


class StaleDelivery(LifecycleError):
    """The delivery's timestamp is too old, or in the future."""


class UnreadableDelivery(LifecycleError):
    """The delivery does not have the format of its source."""


class NotConfigured(LifecycleError):
    """This deployment has no secret or account for this source."""


class EventNotFound(LifecycleError):
    """There is no such event."""

    def __init__(self, seen_at: datetime | None = None) -> None:
        """`seen_at`: when the event arrived, if it was deleted and its id is still known."""
        super().__init__()
        self.seen_at = seen_at


class TaskNotFound(LifecycleError):
    """There is no such task."""


class NothingAwaited(LifecycleError):
    """This task waits for no answer."""


class RetentionContradiction(LifecycleError):
    """The retention section contradicts itself."""


class CleanupRunning(LifecycleError):
    """Another cleanup is running."""


class SourceUnavailable(DependencyUnavailable):
    """A source or Slack sent no reply, or an unexpected one. `retry_after_seconds`: the pause that it asked for."""

    dependency = "source"

    def __init__(self, detail: str = "", retry_after_seconds: int | None = None) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class OutsideUnavailable(SourceUnavailable):
    """The function outside the VPC sent no reply, so that the effect of the request is unknown."""

    dependency = "outside"


class TaskRunRefused(LifecycleError):
    """The run was rejected, and would be rejected again; the detail says why."""


class TaskRunsUnavailable(DependencyUnavailable):
    """No run can be submitted now: no budget, a limit, or execution is disabled; the detail says which."""

    dependency = "runs"


class NoSuchClass(LifecycleError):
    """There is no such retention class."""
