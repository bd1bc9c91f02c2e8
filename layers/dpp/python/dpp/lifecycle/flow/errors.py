"""What can be wrong about the life of data; a class's first line is its message."""

from datetime import datetime

from dpp.platform.errors import DependencyUnavailable


class LifecycleError(Exception):
    """Base of this context's refusals."""

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(detail or (type(self).__doc__ or "").partition("\n")[0])


class BadSignature(LifecycleError):
    """The signature is missing or wrong."""


class StaleDelivery(LifecycleError):
    """The delivery is too old, or from the future, to be believed."""


class UnreadableDelivery(LifecycleError):
    """The delivery is not what its source sends."""


class NotConfigured(LifecycleError):
    """This deployment was given nothing to talk to this source with."""


class EventNotFound(LifecycleError):
    """There is no such event."""

    def __init__(self, seen_at: datetime | None = None) -> None:
        """`seen_at`: when it came, of one that is gone and whose id is remembered."""
        super().__init__()
        self.seen_at = seen_at


class TaskNotFound(LifecycleError):
    """There is no such task."""


class NothingAwaited(LifecycleError):
    """This task waits for no answer."""


class RetentionContradiction(LifecycleError):
    """The retention section contradicts itself."""


class CleanupRunning(LifecycleError):
    """Another chamberlain is at it."""


class SourceUnavailable(DependencyUnavailable):
    """A source or Slack did not answer, or not with what it should; `retry_after_seconds`: what it asked for."""

    dependency = "source"

    def __init__(self, detail: str = "", retry_after_seconds: int | None = None) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class OutsideUnavailable(SourceUnavailable):
    """The way to the outside did not answer: nothing is known of what happened there."""

    dependency = "outside"


class TaskRunRefused(LifecycleError):
    """The run was refused, and will be as it stands: the detail says why."""


class TaskRunsUnavailable(DependencyUnavailable):
    """No run can be had for now: no budget, a limit, or execution is disabled; the detail says which."""

    dependency = "runs"


class NoSuchClass(LifecycleError):
    """There is no such class of data."""
