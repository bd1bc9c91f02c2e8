"""Errors of workspaces. The first line of a class's docstring is its default message."""

from collections.abc import Mapping

from dpp.platform.errors import DependencyUnavailable


class WorkspacesError(Exception):
    """Base of the errors that refuse a request. `members`: additional members of the problem document."""

    def __init__(self, detail: str | None = None, **members: str | int) -> None:
        super().__init__(detail or (type(self).__doc__ or "").partition("\n")[0])
        self.members: Mapping[str, str | int] = members


class WorkspaceNotFound(WorkspacesError):
    """There is no such workspace."""


class IdempotencyConflict(WorkspacesError):
    """This Idempotency-Key was already used to create a different workspace; use a new key."""


class TooManyWorkspaces(WorkspacesError):
    """You have reached your limit of workspaces: delete one first."""


class WorkspaceDeleted(WorkspacesError):
    """The workspace is deleted and can no longer be changed."""


class NotDeletable(WorkspacesError):
    """A workspace can be deleted in PENDING, ARCHIVED or ERROR, while no operation is under way."""

    def __init__(self, phase: str, operation: str) -> None:
        detail = (
            f"The workspace is {phase}, and {operation} is under way: wait until it ends."
            if operation != "NONE"
            else f"The workspace is {phase}: set desired_state to PENDING or ARCHIVED, and delete it once it is there."
        )
        super().__init__(detail, phase=phase, operation=operation)


class NotRecoverable(WorkspacesError):
    """The workspace has no error to recover from."""


class ArchiveUnknown(WorkspacesError):
    """The workspace has no proved archive under this key."""


class LeaseLost(WorkspacesError):
    """Another process has taken over the operation."""


class ProviderUnavailable(DependencyUnavailable):
    """The provider of containers or volumes did not answer; the call may have taken effect."""

    dependency = "workspace provider"


class OperationFailed(Exception):
    """The operation can't be done. `reason`: CamelCase, as in conditions; terminal: a retry would not help."""

    def __init__(self, reason: str, message: str, *, is_terminal: bool = False) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.is_terminal = is_terminal
