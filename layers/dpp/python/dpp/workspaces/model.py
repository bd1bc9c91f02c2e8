"""Workspaces as they are passed around (003 §1, §3; WS-2, WS-3). What is derived of them is in other modules."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

VOLUME_READY = "storage.volume_ready"
ARCHIVE_READY = "storage.archive_ready"
HEALTHY = "policy.healthy"
CONTAINER_NOT_FOUND = "ContainerNotFound"
"""The reason of a container's condition where there is nothing of it at all."""
_CONTAINER = ("infra.", ".container_ready")


def container_condition(infra: str) -> str:
    """The name of the condition of a container on `infra` (003 §1): `infra.ecs.container_ready`."""
    return infra.join(_CONTAINER)


def is_container_condition(name: str) -> bool:
    """True for `infra.*.container_ready`."""
    return name.startswith(_CONTAINER[0]) and name.endswith(_CONTAINER[1])


class Phase(StrEnum):
    """Where a workspace really is, as its conditions say (003 §5)."""

    DELETED = "DELETED"
    ERROR = "ERROR"
    RUNNING = "RUNNING"
    STANDBY = "STANDBY"
    ARCHIVED = "ARCHIVED"
    PENDING = "PENDING"


class DesiredState(StrEnum):
    """Where its owner wants it; only the API writes it (WS-6)."""

    DELETED = "DELETED"
    PENDING = "PENDING"
    ARCHIVED = "ARCHIVED"
    STANDBY = "STANDBY"
    RUNNING = "RUNNING"


LEVELS: Mapping[str, int] = {"DELETED": -1, "PENDING": 0, "ARCHIVED": 5, "STANDBY": 10, "RUNNING": 20}
"""The order of phases and desired states (003 §5). ERROR has none: it is an axis of its own."""


class Operation(StrEnum):
    """What the reconciler is at; one a workspace at a time (WS-7)."""

    NONE = "NONE"
    PROVISIONING = "PROVISIONING"
    RESTORING = "RESTORING"
    STARTING = "STARTING"
    STOPPING = "STOPPING"
    ARCHIVING = "ARCHIVING"
    DISCARDING = "DISCARDING"
    DELETING = "DELETING"


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that was observed; `last_transition_time` moves when `status` does, and only then."""

    status: bool
    reason: str
    message: str
    last_transition_time: datetime


type Conditions = Mapping[str, Condition]


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive that was read back and found whole: its proof. `sha256`: of the object's bytes, in hexadecimal.

    `etag` is S3's, so that one HEAD tells whether these are still the bytes that were proved.
    """

    key: str
    size_bytes: int
    sha256: str
    etag: str


def archive_key_of(workspace_id: UUID, op_id: UUID) -> str:
    """Where the archive that an operation makes stands (WS-10): `{workspace}/{op}/home.tar.zst`."""
    return f"{workspace_id}/{op_id}/home.tar.zst"


@dataclass(frozen=True, slots=True)
class HomeContext:
    """What the reconciler knows of the home (`home_ctx`).

    `restore_marker`: the archive that the volume was made from; set means that the home stands on the volume, whole.
    `generation`: which of the volumes that the workspace has had; a step meant for an older one does nothing.
    `archive`: the proof of what `archive_key` names. `last_action`: what was done last in the operation under way.
    """

    restore_marker: str | None = None
    generation: str | None = None
    archive: Archive | None = None
    last_action: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """Why an operation failed (003 §4). `retry_count`: how often this operation did; terminal: nobody tries again."""

    reason: str
    message: str
    is_terminal: bool
    retry_count: int
    operation: Operation
    failed_at: datetime
    context: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workspace:
    """A row of `workspaces`. Who writes which column: dpp/workspaces/machine.py, and the database's grants (WS-6)."""

    workspace_id: UUID
    sequence: int
    tenant_id: str
    created_at: datetime
    # The API's.
    name: str
    desired_state: DesiredState
    desired_by: str
    deleted_at: datetime | None
    standby_ttl_seconds: int | None
    archive_ttl_seconds: int | None
    last_access_at: datetime
    # The monitor's.
    conditions: Conditions
    phase: Phase
    observed_at: datetime | None
    # The reconciler's.
    operation: Operation
    op_id: UUID | None
    op_started_at: datetime | None
    acted_at: datetime | None
    archive_key: str | None
    home_ctx: HomeContext
    error_info: ErrorInfo | None
    error_count: int
    start_count: int
    next_attempt_at: datetime | None
    tried_at: datetime | None
    settled_at: datetime | None
    cleaned_at: datetime | None
    lease_until: datetime | None
    handed_at: datetime | None
    next_look_at: datetime | None

    @property
    def container_ready(self) -> bool:
        """True where any infrastructure has its container running."""
        return any(
            condition.status for name, condition in self.conditions.items() if is_container_condition(name)
        )

    @property
    def container_gone(self) -> bool:
        """True where there is nothing of a container; one that is not ready may still be on its way, and write."""
        return all(
            not condition.status and condition.reason == CONTAINER_NOT_FOUND
            for name, condition in self.conditions.items()
            if is_container_condition(name)
        )

    @property
    def volume_ready(self) -> bool:
        """True where its volume exists."""
        return self._status(VOLUME_READY)

    @property
    def archive_ready(self) -> bool:
        """True where its archive can be had."""
        return self._status(ARCHIVE_READY)

    @property
    def healthy(self) -> bool:
        """What the monitor says of it; True before its first look."""
        return HEALTHY not in self.conditions or self.conditions[HEALTHY].status

    def _status(self, name: str) -> bool:
        condition = self.conditions.get(name)
        return condition is not None and condition.status
