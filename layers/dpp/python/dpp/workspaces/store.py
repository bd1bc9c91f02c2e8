"""The SQL of workspaces.

Each writer changes rows in a transaction with its own role (`writing`); the database refuses every other change (WS-6).
A compare-and-swap that changes no row returns None. `now` sets the time in tests; in production it is None, and
Postgres's clock is used (D1).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from dpp.platform.db.clock import present_time
from dpp.platform.db.postgres import Connection, named_rows
from dpp.platform.db.rows import row_as, rows_as
from dpp.platform.db.sql import Queries
from dpp.workspaces.archives.garbage import ArchiveReferences
from dpp.workspaces.model import Conditions, DesiredState, ErrorInfo, HomeContext, Operation, Phase, Workspace
from dpp.workspaces.rows import conditions_json, error_json, home_json

QUERIES = Queries("dpp.workspaces", "queries.sql")
clock = present_time
NO_BOUND = 2**62


class Writer(Enum):
    """A writer of columns; the value is the query that assumes its role."""

    API = "as_api"
    MONITOR = "as_monitor"
    RECONCILER = "as_reconciler"


@contextmanager
def writing(connection: Connection, writer: Writer) -> Iterator[None]:
    """A transaction with the role of a writer."""
    with connection.transaction():
        connection.execute(QUERIES[writer.value])
        yield


def find(connection: Connection, workspace_id: UUID) -> Workspace | None:
    """The workspace, or None."""
    return _one(connection, "find", {"workspace_id": workspace_id})


def find_many(connection: Connection, workspace_ids: Sequence[UUID]) -> list[Workspace]:
    """The workspaces with these ids that exist."""
    return _many(connection, "find_many", {"workspace_ids": list(workspace_ids)})


def page(
    connection: Connection, tenant_id: str, *, phase: Phase | None = None, below: int | None = None, limit: int
) -> list[Workspace]:
    """A page of a tenant's workspaces that are not deleted, newest first."""
    params = {
        "tenant_id": tenant_id,
        "phase": phase and phase.value,
        "below": NO_BOUND if below is None else below,
        "limit": limit,
    }
    return _many(connection, "page_of_tenant", params)


def page_of_all(
    connection: Connection, *, tenant_id: str | None = None, phase: Phase | None = None, limit: int
) -> list[Workspace]:
    """All workspaces, or a tenant's, that are not cleaned up yet; newest first. For operators."""
    params = {"tenant_id": tenant_id, "phase": phase and phase.value, "below": NO_BOUND, "limit": limit}
    return _many(connection, "page_of_all", params)


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a workspace's history."""

    event_id: int
    happened_at: datetime
    actor: str
    kind: str
    from_value: str | None
    to_value: str | None
    reason: str | None
    message: str | None


def events(connection: Connection, workspace_id: UUID, limit: int) -> list[Event]:
    """The latest events of a workspace, newest first."""
    return rows_as(Event, connection, QUERIES["events"], {"workspace_id": workspace_id, "limit": limit})


@dataclass(frozen=True, slots=True)
class Change:
    """A change by the owner. None leaves a member as it is. A TTL changes if its `sets_…` is true; None: no TTL."""

    desired_state: DesiredState | None = None
    name: str | None = None
    sets_standby_ttl: bool = False
    standby_ttl_seconds: int | None = None
    sets_archive_ttl: bool = False
    archive_ttl_seconds: int | None = None


def change(
    connection: Connection,
    workspace_id: UUID,
    tenant_id: str,
    requested: Change,
    *,
    by: str,
    now: datetime | None = None,
) -> Workspace | None:
    """Apply a change; None if there is no such workspace, or it is deleted."""
    params = {"workspace_id": workspace_id, "tenant_id": tenant_id, "desired_by": by, "now": now}
    return _one(connection, "change", asdict(requested) | params)


def wake(
    connection: Connection, workspace_id: UUID, tenant_id: str, by: str, now: datetime | None = None
) -> Workspace | None:
    """Record that the workspace is used, and set its desired state to RUNNING; None as for `change`."""
    params = {"workspace_id": workspace_id, "tenant_id": tenant_id, "desired_by": by, "now": now}
    return _one(connection, "wake", params)


def delete(
    connection: Connection,
    workspace_id: UUID,
    tenant_id: str,
    *,
    phases: Sequence[Phase],
    by: str,
    now: datetime | None = None,
) -> Workspace | None:
    """Mark a workspace as deleted; None if it is in another phase, or an operation is under way."""
    params = {
        "workspace_id": workspace_id,
        "tenant_id": tenant_id,
        "phases": [phase.value for phase in phases],
        "desired_by": by,
        "now": now,
    }
    return _one(connection, "delete", params)


def lower_idle(connection: Connection, by: str, limit: int, now: datetime | None = None) -> list[UUID]:
    """Lower the desired state of idle workspaces by one level, and return their ids."""
    params = {"desired_by": by, "limit": limit, "now": now}
    return [row["workspace_id"] for row in named_rows(connection, QUERIES["lower_idle"], params)]


def record_observation(
    connection: Connection, read: Workspace, conditions: Conditions, phase: Phase, observed_at: datetime
) -> Workspace | None:
    """Store an observation of the workspace as it was read; None if the row has changed or was observed later."""
    params = {
        "workspace_id": read.workspace_id,
        "conditions": Jsonb(conditions_json(conditions)),
        "phase": phase.value,
        "observed_at": observed_at,
        "archive_key": read.archive_key,
        "error_info": _error(read.error_info),
        "deleted_at": read.deleted_at,
    }
    return _one(connection, "record_observation", params)


def refresh_observed_at(connection: Connection, workspace_ids: Sequence[UUID], observed_at: datetime) -> None:
    """Store that an observation found no change."""
    params = {"workspace_ids": list(workspace_ids), "observed_at": observed_at}
    connection.execute(QUERIES["refresh_observed_at"], params)


def fleet_page(connection: Connection, above: int, limit: int) -> list[Workspace]:
    """A page of all workspaces that are not cleaned up, in order of creation."""
    return _many(connection, "fleet_page", {"above": above, "limit": limit})


def begin(
    connection: Connection, decided_on: Workspace, operation: Operation, op_id: UUID, now: datetime | None = None
) -> Workspace | None:
    """Begin an operation; None if the row no longer matches what the decision was based on."""
    params = {
        "workspace_id": decided_on.workspace_id,
        "operation": operation.value,
        "op_id": op_id,
        "desired_state": decided_on.desired_state.value,
        "observed_at": decided_on.observed_at,
        "error_info": _error(decided_on.error_info),
        "now": now,
    }
    return _one(connection, "begin", params)


def complete(
    connection: Connection, decided_on: Workspace, home: HomeContext, start_count: int, now: datetime | None = None
) -> Workspace | None:
    """End an operation that was observed to be complete; None as for `begin`."""
    params = _decided_on(decided_on, now) | {"home_ctx": Jsonb(home_json(home)), "start_count": start_count}
    return _one(connection, "complete", params)


def give_up(
    connection: Connection,
    decided_on: Workspace,
    error: ErrorInfo,
    owner: UUID | None = None,
    now: datetime | None = None,
) -> Workspace | None:
    """End an operation with a terminal error (WS-7); None as for `begin`."""
    params = _decided_on(decided_on, now) | {"error_info": _error(error), "owner": owner}
    return _one(connection, "give_up", params)


def note_failure(
    connection: Connection,
    decided_on: Workspace,
    error: ErrorInfo,
    *,
    home: HomeContext,
    owner: UUID | None = None,
    now: datetime | None = None,
) -> Workspace | None:
    """Record a failure that is retried; None if another process has the operation."""
    params = _decided_on(decided_on, now) | {
        "error_info": _error(error),
        "error_before": _error(decided_on.error_info),
        "home_ctx": Jsonb(home_json(home)),
        "owner": owner,
    }
    return _one(connection, "note_failure", params)


def plan_observation(connection: Connection, workspace_id: UUID, seconds: float, now: datetime | None = None) -> bool:
    """True if the caller is to send the next observe message; there is at most one delayed message at a time."""
    params = {"workspace_id": workspace_id, "seconds": seconds, "now": now}
    return bool(connection.execute(QUERIES["plan_observation"], params).fetchall())


def claim_unsettled(
    connection: Connection, lost_after_seconds: float, limit: int, now: datetime | None = None
) -> list[UUID]:
    """Claim workspaces whose observation is overdue, and return their ids."""
    params = {"lost_after_seconds": lost_after_seconds, "limit": limit, "now": now}
    return [row["workspace_id"] for row in named_rows(connection, QUERIES["claim_unsettled"], params)]


@dataclass(frozen=True, slots=True)
class FleetStats:
    """Figures of the fleet for metrics and `dpp top`. Counts stop at the given bound."""

    unsettled: int
    oldest_operation_seconds: float
    in_error: int
    lost: int


def fleet_stats(connection: Connection, at_most: int, now: datetime | None = None) -> FleetStats:
    """Count the workspaces that differ from their desired state, and those in ERROR."""
    params = {"at_most": at_most, "now": now}
    (unsettled,) = connection.execute(QUERIES["unsettled"], params).fetchall()
    (in_error,) = connection.execute(QUERIES["in_error"], params).fetchall()
    return FleetStats(int(unsettled[0]), float(unsettled[1]), int(in_error[0]), int(in_error[1]))


def count_by_phase(connection: Connection, at_most: int) -> dict[Phase, int]:
    """The number of workspaces in each phase, among the `at_most` oldest."""
    found = connection.execute(QUERIES["count_by_phase"], {"at_most": at_most})
    return {Phase(row[0]): int(row[1]) for row in found}


def archive_references(connection: Connection, workspace_ids: Sequence[UUID]) -> dict[UUID, ArchiveReferences]:
    """The archives that workspaces refer to (WS-13)."""
    return {
        one.workspace_id: ArchiveReferences(
            deleted=one.deleted_at is not None,
            healthy=one.healthy and not (one.error_info is not None and one.error_info.is_terminal),
            archive_key=one.archive_key,
            op_id=one.op_id,
        )
        for one in find_many(connection, workspace_ids)
    }


def recover(
    connection: Connection,
    decided_on: Workspace,
    archive_key: str | None,
    home: HomeContext,
    now: datetime | None = None,
) -> Workspace | None:
    """Clear an error, on an operator's order; None if the row has changed meanwhile."""
    params = {
        "workspace_id": decided_on.workspace_id,
        "archive_key": archive_key,
        "home_ctx": Jsonb(home_json(home)),
        "error_info": _error(decided_on.error_info),
        "archive_key_before": decided_on.archive_key,
        "now": now,
    }
    return _one(connection, "recover", params)


def set_event_actor(connection: Connection, actor: str, reason: str) -> None:
    """Set the actor and the reason that the events of this transaction record."""
    connection.execute(QUERIES["set_event_actor"], {"actor": actor, "reason": reason})


def _decided_on(workspace: Workspace, now: datetime | None) -> dict[str, Any]:
    return {
        "workspace_id": workspace.workspace_id,
        "op_id": workspace.op_id,
        "operation": workspace.operation.value,
        "observed_at": workspace.observed_at,
        "acted_at": workspace.acted_at,
        "now": now,
    }


def _error(error: ErrorInfo | None) -> Jsonb | None:
    json = error_json(error)
    return None if json is None else Jsonb(json)


def _one(connection: Connection, name: str, params: Mapping[str, object]) -> Workspace | None:
    return row_as(Workspace, connection, QUERIES[name], params)


def _many(connection: Connection, name: str, params: Mapping[str, object]) -> list[Workspace]:
    return rows_as(Workspace, connection, QUERIES[name], params)
