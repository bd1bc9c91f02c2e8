"""What the roles need from outside of their context. Pure: protocols and the values that pass through them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

MAX_REPLY_BYTES = 4_000_000
"""What a reply from outside may have; Lambda hands on 6 MB."""


class Role(StrEnum):
    """Who works on the life of data; each leaves a heartbeat (LIFE-11)."""

    SENTINEL = "SENTINEL"
    KING = "KING"
    GENERAL = "GENERAL"
    ENVOY = "ENVOY"
    CHAMBERLAIN = "CHAMBERLAIN"


class Target(StrEnum):
    """Where the way outside leads: each has its base URL and its credentials there, and nowhere else."""

    GITHUB = "GITHUB"
    JIRA = "JIRA"
    SLACK = "SLACK"


class OutsideRequest(BaseModel):
    """One HTTP request, without credentials. `path` is appended to the target's base URL; SLACK's is empty."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    target: Target
    method: Literal["GET", "POST"]
    path: str = Field(default="", max_length=4_000, pattern=r"^(/.*)?$")
    headers: Mapping[str, str] = {}
    body: str | None = Field(default=None, max_length=100_000, repr=False)


class OutsideReply(BaseModel):
    """What came back; header names in lower case."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    status: int = Field(ge=100, le=599)
    headers: Mapping[str, str] = {}
    body: str = Field(default="", repr=False)


OUTCOME_HEADER = "x-dpp-outside"
"""In a reply that the way outside gave itself, since the target was not asked or its reply can't be handed on."""


class OutsideOutcome(StrEnum):
    """What `OUTCOME_HEADER` says: the target has no address or credentials (501), or its reply is too large (502)."""

    NOT_CONFIGURED = "NOT_CONFIGURED"
    REPLY_TOO_LARGE = "REPLY_TOO_LARGE"


class Outside(Protocol):
    """The way to the internet, which the functions beside the database have not (PLAT-2)."""

    def ask(self, request: OutsideRequest) -> OutsideReply:
        """One request, tried once. Raises OutsideUnavailable where no whole reply came."""


class TaskRunState(StrEnum):
    """Where a soldier's run stands."""

    AT_WORK = "AT_WORK"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class TaskRunRequest:
    """What a soldier is told. `key`: told twice under one key, it is one run (RUN-4)."""

    key: str
    session_id: str
    question: str
    context: str | None


@dataclass(frozen=True, slots=True)
class TaskRunReport:
    """What is known of a soldier's run. `raw`: the envelope, of one that succeeded; `needs_person`: it failed since
    it could not be sure enough (PACK_RELIABILITY_BELOW_MINIMUM), which a person may help with."""

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
    """The run pipeline, with the budget that tasks have. Both may be repeated."""

    def send(self, orders: TaskRunRequest) -> UUID:
        """The soldier's id. Raises TaskRunRefused, TaskRunsUnavailable, DependencyUnavailable."""

    def report(self, run_id: UUID) -> TaskRunReport | None:
        """What is known, None where there is no such run any more. Raises DependencyUnavailable."""


class Objects(Protocol):
    """The bucket that keeps what tasks leave. Raises StorageUnavailable."""

    def put(self, key: str, body: bytes, content_type: str) -> None:
        """Write an object, whole or not at all (LIFE-12)."""

    def get(self, key: str) -> bytes | None:
        """An object, None where there is none."""

    def delete(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Delete up to 1,000 objects; those that S3 refused, with its code. One that is gone counts as deleted."""


class Wake(Protocol):
    """Starts a role at once; best effort, since its schedule starts it within a minute."""

    def __call__(self, role: str) -> None:
        """Wake a role, by its name in `Role`. Never raises for the other function."""
