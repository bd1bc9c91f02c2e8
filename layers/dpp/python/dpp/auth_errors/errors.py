"""Errors of this context. The first docstring line of a class is its default message."""

from collections.abc import Mapping


class AuthErrorsError(Exception):
    """Base of this context's errors. `members` are additional members of the problem document."""

    def __init__(self, detail: str | None = None, **members: str | int) -> None:
        super().__init__(detail or (type(self).__doc__ or "").partition("\n")[0])
        self.members: Mapping[str, str | int] = members


class AuthErrorNotFound(AuthErrorsError):
    """There is no authentication error with this id."""


class ClusterNotFound(AuthErrorsError):
    """There is no cluster with this id."""


class AuthErrorConflict(AuthErrorsError):
    """This requestId belongs to a different error. Use a new requestId."""


class DecisionConflict(AuthErrorsError):
    """This decisionId belongs to a different decision. Use a new decisionId."""


class DecisionRefused(AuthErrorsError):
    """The error's status doesn't allow this decision."""

    def __init__(self, decision_type: str, status: str) -> None:
        super().__init__(f"The decision {decision_type} is not allowed in status {status}.", current_status=status)


class OutboxConflict(AuthErrorsError):
    """The idempotency key belongs to an event with another payload. Events never change."""


class LeaseLost(AuthErrorsError):
    """The lease expired and another consumer took it. This attempt is rolled back."""


class EventTooEarly(AuthErrorsError):
    """The event arrived before the event that precedes it."""
