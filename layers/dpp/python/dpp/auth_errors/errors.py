"""What can be wrong about an authentication error; a class's first line is its message."""

from collections.abc import Mapping


class AuthErrorsError(Exception):
    """Base of this context's refusals. `members`: what the problem document says besides."""

    def __init__(self, detail: str | None = None, **members: str | int) -> None:
        super().__init__(detail or (type(self).__doc__ or "").partition("\n")[0])
        self.members: Mapping[str, str | int] = members


class AuthErrorNotFound(AuthErrorsError):
    """There is no such authentication error."""


class ClusterNotFound(AuthErrorsError):
    """There is no such cluster."""


class AuthErrorConflict(AuthErrorsError):
    """This requestId stands for another error: report under a new one."""


class DecisionConflict(AuthErrorsError):
    """This decisionId stands for another decision: decide under a new one."""


class DecisionRefused(AuthErrorsError):
    """The error can't be decided so from where it stands."""

    def __init__(self, decision_type: str, status: str) -> None:
        super().__init__(
            f"{decision_type} can't be decided of an error that is {status}.", current_status=status
        )


class OutboxConflict(AuthErrorsError):
    """The same idempotency key with another payload: an event never changes."""


class LeaseLost(AuthErrorsError):
    """The lease was over and another has it: nothing of this attempt stays."""


class EventTooEarly(AuthErrorsError):
    """The event came before the one that it follows from."""
