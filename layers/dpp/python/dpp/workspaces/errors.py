"""What can be wrong about a workspace; a class's first line is its message."""

from collections.abc import Mapping

from dpp.platform.errors import DependencyUnavailable


class WorkspacesError(Exception):
    """Base of this context's refusals. `members`: what the problem document says besides."""

    def __init__(self, detail: str | None = None, **members: str | int) -> None:
        super().__init__(detail or (type(self).__doc__ or "").partition("\n")[0])
        self.members: Mapping[str, str | int] = members


class WorkspaceNotFound(WorkspacesError):
    """There is no such workspace."""


class IdempotencyConflict(WorkspacesError):
    """This Idempotency-Key was used for another workspace."""


class TooManyWorkspaces(WorkspacesError):
    """You have as many workspaces as you may: delete one first."""


class WorkspaceDeleted(WorkspacesError):
    """The workspace is deleted; nothing about it changes any more."""


class NotDeletable(WorkspacesError):
    """A workspace is deleted from PENDING, ARCHIVED or ERROR, and while no operation is under way."""

    def __init__(self, phase: str, operation: str) -> None:
        told = (
            f"It is {phase}, and {operation} is under way: wait for its end."
            if operation != "NONE"
            else f"It is {phase}: set desired_state to PENDING or ARCHIVED first, and wait until it is there."
        )
        super().__init__(told, phase=phase, operation=operation)


class NotRecoverable(WorkspacesError):
    """There is no error to recover from."""


class ArchiveUnknown(WorkspacesError):
    """There is no proved archive under this key."""


class LeaseLost(WorkspacesError):
    """Another process has the operation by now: this one leaves it."""


class ProviderUnavailable(DependencyUnavailable):
    """The provider of containers or volumes gave no answer; what was asked may have been done."""

    dependency = "workspace provider"


class OperationFailed(Exception):
    """The operation can't be done. `reason` in CamelCase, as conditions have it; terminal: trying again won't help."""

    def __init__(self, reason: str, message: str, *, is_terminal: bool = False) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.is_terminal = is_terminal
