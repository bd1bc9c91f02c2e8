"""A workspace and its parts, as stored in the table `workspaces` (003 §1, §3; WS-2, WS-3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

VOLUME_READY = "storage.volume_ready"
ARCHIVE_READY = "storage.archive_ready"
HEALTHY = "policy.healthy"
CONTAINER_NOT_FOUND = "ContainerNotFound"
"""The reason of a container's condition if nothing of the container exists."""
_CONTAINER = ("infra.", ".container_ready")


def container_condition(infra: str) -> str:
    """The name of the condition for containers on `infra` (003 §1), such as `infra.ecs.container_ready`."""
    return infra.join(_CONTAINER)


def is_container_condition(name: str) -> bool:
    """True for `infra.*.container_ready`."""
    return name.startswith(_CONTAINER[0]) and name.endswith(_CONTAINER[1])


class Phase(StrEnum):
    """The observed state of a workspace, computed from its conditions (003 §5)."""

    DELETED = "DELETED"
    ERROR = "ERROR"
    RUNNING = "RUNNING"
    STANDBY = "STANDBY"
    ARCHIVED = "ARCHIVED"
    PENDING = "PENDING"


class DesiredState(StrEnum):
    """The state that the owner wants; only the API writes it (WS-6)."""

    DELETED = "DELETED"
    PENDING = "PENDING"
    ARCHIVED = "ARCHIVED"
    STANDBY = "STANDBY"
    RUNNING = "RUNNING"


LEVELS: Mapping[str, int] = {"DELETED": -1, "PENDING": 0, "ARCHIVED": 5, "STANDBY": 10, "RUNNING": 20}
"""The order of phases and desired states (003 §5). ERROR has no level."""


class Operation(StrEnum):
    """The operation under way; at most one per workspace (WS-7)."""

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
    """An observed condition. `last_transition_time` changes only together with `status`."""

    status: bool
    reason: str
    message: str
    last_transition_time: datetime


type Conditions = Mapping[str, Condition]


@dataclass(frozen=True, slots=True)
class Archive:
    """The proof of an archive: it was read back completely, and had these properties.

    `sha256`: of the object's bytes, in hexadecimal. `etag`: S3's, so that one HEAD shows whether the bytes still are
    the proved ones.
    """

    key: str
    size_bytes: int
    sha256: str
    etag: str


def archive_key_of(workspace_id: UUID, op_id: UUID) -> str:
    """The S3 key of an operation's archive (WS-10): `{workspace}/{op}/home.tar.zst`."""
    return f"{workspace_id}/{op_id}/home.tar.zst"


@dataclass(frozen=True, slots=True)
class HomeContext:
    """The reconciler's knowledge of the home (column `home_ctx`).

    `restore_marker`: the archive that the volume was restored from; if set, the volume holds the complete home.
    `generation`: identifies one of the workspace's successive volumes; an action for an older one does nothing.
    `archive`: the proof of the archive that `archive_key` names. `last_action`: of the operation under way.
    """

    restore_marker: str | None = None
    generation: str | None = None
    archive: Archive | None = None
    last_action: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """The failure of an operation (003 §4). `retry_count`: how often it failed; terminal: it is not retried."""

    reason: str
    message: str
    is_terminal: bool
    retry_count: int
    operation: Operation
    failed_at: datetime
    context: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workspace:
    """A row of `workspaces`. machine.py lists which role writes which column (WS-6)."""

    workspace_id: UUID
    sequence: int
    tenant_id: str
    created_at: datetime
    # Written by the API.
    name: str
    desired_state: DesiredState
    desired_by: str
    deleted_at: datetime | None
    standby_ttl_seconds: int | None
    archive_ttl_seconds: int | None
    last_access_at: datetime
    # Written by the monitor.
    conditions: Conditions
    phase: Phase
    observed_at: datetime | None
    # Written by the reconciler.
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
        """True if its container runs, on any infrastructure."""
        return any(condition.status for name, condition in self.conditions.items() if is_container_condition(name))

    @property
    def container_gone(self) -> bool:
        """True if nothing of its container exists. A container that is only not ready may be starting, and write."""
        return all(
            not condition.status and condition.reason == CONTAINER_NOT_FOUND
            for name, condition in self.conditions.items()
            if is_container_condition(name)
        )

    @property
    def volume_ready(self) -> bool:
        """True if its volume exists."""
        return self._status(VOLUME_READY)

    @property
    def archive_ready(self) -> bool:
        """True if its archive is available."""
        return self._status(ARCHIVE_READY)

    @property
    def healthy(self) -> bool:
        """The condition `policy.healthy`; True before the first observation."""
        return HEALTHY not in self.conditions or self.conditions[HEALTHY].status

    def _status(self, name: str) -> bool:
        condition = self.conditions.get(name)
        return condition is not None and condition.status
