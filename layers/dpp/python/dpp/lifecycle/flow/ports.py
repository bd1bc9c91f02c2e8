"""The ports of the roles, and the values that pass through them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

MAX_REPLY_BYTES = 4_000_000
"""The limit of a reply body; Lambda returns at most 6 MB."""


class Role(StrEnum):
    """The roles of 002; each sends heartbeats (LIFE-11)."""

    SENTINEL = "SENTINEL"
    KING = "KING"
    GENERAL = "GENERAL"
    ENVOY = "ENVOY"
    CHAMBERLAIN = "CHAMBERLAIN"


class Target(StrEnum):
    """A system outside the VPC. Its base URL and credentials are known only to the function outside."""

    GITHUB = "GITHUB"
    JIRA = "JIRA"
    SLACK = "SLACK"


class OutsideRequest(BaseModel):
    """An HTTP request without credentials. `path` is appended to the base URL of the target; it is empty for SLACK."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    target: Target
    method: Literal["GET", "POST"]
    path: str = Field(default="", max_length=4_000, pattern=r"^(/.*)?$")
    headers: Mapping[str, str] = {}
    body: str | None = Field(default=None, max_length=100_000, repr=False)


class OutsideReply(BaseModel):
    """An HTTP reply; header names are in lower case."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    status: int = Field(ge=100, le=599)
    headers: Mapping[str, str] = {}
    body: str = Field(default="", repr=False)


OUTCOME_HEADER = "x-dpp-outside"
"""The header of a reply that the function outside created itself: the target was not called, or its reply can't be
returned."""


class OutsideOutcome(StrEnum):
    """The value of `OUTCOME_HEADER`: the target has no address or credentials (501), or its reply is too large
    (502)."""

    NOT_CONFIGURED = "NOT_CONFIGURED"
    REPLY_TOO_LARGE = "REPLY_TOO_LARGE"


class Outside(Protocol):
    """Sends HTTP requests to the internet, which functions inside the VPC can't reach (PLAT-2)."""

    def ask(self, request: OutsideRequest) -> OutsideReply:
        """Send one request once. Raises OutsideUnavailable if no complete reply was received."""


class TaskRunState(StrEnum):
    """The state of a task's run."""

    AT_WORK = "AT_WORK"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class TaskRunRequest:
    """The input of a task's run. A repeated submit with the same key returns the same run (RUN-4)."""

    key: str
    session_id: str
    question: str
    context: str | None


@dataclass(frozen=True, slots=True)
class TaskRunReport:
    """The state of a task's run. `raw`: the envelope of a run that succeeded. `needs_person`: the run failed because
    its answer was not reliable enough (PACK_RELIABILITY_BELOW_MINIMUM), and a person may help."""

    run_id: UUID
    state: TaskRunState
    charged_usd: str
    tokens_consumed: int
    created_at: datetime
    updated_at: datetime
    reason_code: str | None = None
    detail: str | None = None
    needs_person: bool = False
    raw: Mapping[str, Any] | None = None


class TaskRuns(Protocol):
    """Submits and reads the runs of tasks (the soldiers of 002). Both calls may be repeated."""

    def send(self, request: TaskRunRequest) -> UUID:
        """Submit a run and return its id. Raises TaskRunRefused, TaskRunsUnavailable, DependencyUnavailable."""

    def report(self, run_id: UUID) -> TaskRunReport | None:
        """The state of the run, None if it no longer exists. Raises DependencyUnavailable."""


class Objects(Protocol):
    """The state bucket. Raises StorageUnavailable."""

    def put(self, key: str, body: bytes, content_type: str) -> None:
        """Write an object atomically (LIFE-12)."""

    def get(self, key: str) -> bytes | None:
        """An object, None if there is none."""

    def delete(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Delete up to 1,000 objects. Returns the keys that S3 refused, with the error code. A missing object counts as
        deleted."""


class Wake(Protocol):
    """Invokes a role's function at once. Best effort: its schedule does so within a minute."""

    def __call__(self, role: str) -> None:
        """Wake a role. Never raises because of the other function."""
