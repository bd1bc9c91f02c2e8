"""The SQL of workspaces, and nothing else.

Each writer has a transaction of its own role (`writing`), outside of which the database refuses every change (WS-6).
Zero rows of a compare-and-swap come back as None, never as an error. `now` moves the clock in tests; in production it
is None and Postgres's own clock decides (D1).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from dpp.platform.db.postgres import Connection, named_rows
from dpp.platform.db.sql import Queries
from dpp.workspaces.archives.garbage import Claim
from dpp.workspaces.model import (
    Conditions,
    DesiredState,
    ErrorInfo,
    HomeContext,
    Operation,
    Phase,
    Workspace,
)
from dpp.workspaces.rows import conditions_json, error_json, home_json, workspace_of

QUERIES = Queries("dpp.workspaces", "queries.sql")
NO_BOUND = 2**62


class Writer(Enum):
    """Who writes: the query that takes on its role."""

    API = "as_api"
    MONITOR = "as_monitor"
    RECONCILER = "as_reconciler"


@contextmanager
def writing(connection: Connection, writer: Writer) -> Iterator[None]:
    """A transaction under a writer's role."""
    with connection.transaction():
        connection.execute(QUERIES[writer.value])
        yield


def clock(connection: Connection, now: datetime | None = None) -> datetime:
    """Postgres's clock (D1)."""
    (row,) = connection.execute(QUERIES["clock"], {"now": now}).fetchall()
    found: datetime = row[0]
    return found


def find(connection: Connection, workspace_id: UUID) -> Workspace | None:
    """The workspace."""
    return _one(connection, "find", {"workspace_id": workspace_id})


def find_many(connection: Connection, workspace_ids: Sequence[UUID]) -> list[Workspace]:
    """Those that there are."""
    return _many(connection, "find_many", {"workspace_ids": list(workspace_ids)})


def page(
    connection: Connection,
    tenant_id: str,
    *,
    phase: Phase | None = None,
    below: int | None = None,
    limit: int,
) -> list[Workspace]:
    """An owner's that are not deleted, the newest first."""
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
    """Everybody's or a tenant's of which something may be left, for an operator; the newest first."""
    params = {"tenant_id": tenant_id, "phase": phase and phase.value, "below": NO_BOUND, "limit": limit}
    return _many(connection, "page_of_all", params)


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a workspace's history."""

    event_id: int
    happened_at: datetime
    actor: str
    kind: str
    from_value: str | None
    to_value: str | None
    reason: str | None
    message: str | None


def events(connection: Connection, workspace_id: UUID, limit: int) -> list[Event]:
    """What happened to it last, the newest first."""
    rows = named_rows(connection, QUERIES["events"], {"workspace_id": workspace_id, "limit": limit})
    return [Event(**row) for row in rows]


@dataclass(frozen=True, slots=True)
class Change:
    """What an owner changes; None of a member: it stays. A time to live is set by `sets_…`, to None for ever."""

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
    wanted: Change,
    *,
    by: str,
    now: datetime | None = None,
) -> Workspace | None:
    """Carry a change out; None where there is no such workspace, or it is deleted."""
    params = {
        "workspace_id": workspace_id,
        "tenant_id": tenant_id,
        "desired_state": wanted.desired_state and wanted.desired_state.value,
        "name": wanted.name,
        "sets_standby_ttl": wanted.sets_standby_ttl,
        "standby_ttl_seconds": wanted.standby_ttl_seconds,
        "sets_archive_ttl": wanted.sets_archive_ttl,
        "archive_ttl_seconds": wanted.archive_ttl_seconds,
        "desired_by": by,
        "now": now,
    }
    return _one(connection, "change", params)


def wake(
    connection: Connection, workspace_id: UUID, tenant_id: str, by: str, now: datetime | None = None
) -> Workspace | None:
    """Note that it is used, and have it run; None as `change`."""
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
    """Delete it; None where it stands in none of the phases, or something is being done."""
    params = {
        "workspace_id": workspace_id,
        "tenant_id": tenant_id,
        "phases": [phase.value for phase in phases],
        "desired_by": by,
        "now": now,
    }
    return _one(connection, "delete", params)


def lower_idle(connection: Connection, by: str, limit: int, now: datetime | None = None) -> list[UUID]:
    """Those that nobody has used for their time, wanted one level lower from now on."""
    params = {"desired_by": by, "limit": limit, "now": now}
    return [row["workspace_id"] for row in named_rows(connection, QUERIES["lower_idle"], params)]


def observe(
    connection: Connection, seen: Workspace, conditions: Conditions, phase: Phase, observed_at: datetime
) -> Workspace | None:
    """Write what a look found of the workspace as it was read; None where the look came too late."""
    params = {
        "workspace_id": seen.workspace_id,
        "conditions": Jsonb(conditions_json(conditions)),
        "phase": phase.value,
        "observed_at": observed_at,
        "archive_key": seen.archive_key,
        "error_info": _error(seen.error_info),
        "deleted_at": seen.deleted_at,
    }
    return _one(connection, "observe", params)


def refresh(connection: Connection, workspace_ids: Sequence[UUID], observed_at: datetime) -> None:
    """Note that nothing was found to be different."""
    connection.execute(QUERIES["refresh"], {"workspace_ids": list(workspace_ids), "observed_at": observed_at})


def fleet_page(connection: Connection, above: int, limit: int) -> list[Workspace]:
    """The fleet in the order of its making."""
    return _many(connection, "fleet_page", {"above": above, "limit": limit})


def begin(
    connection: Connection,
    decided_on: Workspace,
    operation: Operation,
    op_id: UUID,
    now: datetime | None = None,
) -> Workspace | None:
    """Begin an operation; None where what it was decided on holds no more."""
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
    connection: Connection,
    decided_on: Workspace,
    home: HomeContext,
    start_count: int,
    now: datetime | None = None,
) -> Workspace | None:
    """End an operation that was seen to be complete; None where what that was decided on holds no more."""
    params = _decided_on(decided_on, now) | {
        "home_ctx": Jsonb(home_json(home)),
        "start_count": start_count,
    }
    return _one(connection, "complete", params)


def give_up(
    connection: Connection,
    decided_on: Workspace,
    error: ErrorInfo,
    owner: UUID | None = None,
    now: datetime | None = None,
) -> Workspace | None:
    """End an operation for good, with its error (WS-7); None where what that was decided on holds no more."""
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
    """Count a failure that may be tried again; None where another process has the operation."""
    params = _decided_on(decided_on, now) | {
        "error_info": _error(error),
        "error_before": _error(decided_on.error_info),
        "home_ctx": Jsonb(home_json(home)),
        "owner": owner,
    }
    return _one(connection, "note_failure", params)


def plan_look(
    connection: Connection, workspace_id: UUID, seconds: float, now: datetime | None = None
) -> bool:
    """Whether the next look is this caller's to send: there is one at a time."""
    params = {"workspace_id": workspace_id, "seconds": seconds, "now": now}
    return bool(connection.execute(QUERIES["plan_look"], params).fetchall())


def claim_unsettled(
    connection: Connection, lost_after_seconds: float, limit: int, now: datetime | None = None
) -> list[UUID]:
    """Those that are to be looked at, and that nobody is about to."""
    params = {"lost_after_seconds": lost_after_seconds, "limit": limit, "now": now}
    return [row["workspace_id"] for row in named_rows(connection, QUERIES["claim_unsettled"], params)]


@dataclass(frozen=True, slots=True)
class Measures:
    """How the fleet does. Counts stop at the bound that was asked for."""

    unsettled: int
    oldest_operation_seconds: float
    in_error: int
    lost: int


def measures(connection: Connection, at_most: int, now: datetime | None = None) -> Measures:
    """How many are not as they are wanted, and how many wait for a person."""
    params = {"at_most": at_most, "now": now}
    (unsettled,) = connection.execute(QUERIES["unsettled"], params).fetchall()
    (in_error,) = connection.execute(QUERIES["in_error"], params).fetchall()
    return Measures(int(unsettled[0]), float(unsettled[1]), int(in_error[0]), int(in_error[1]))


def by_phase(connection: Connection, at_most: int) -> dict[Phase, int]:
    """How many stand in each phase, of so many at most."""
    found = connection.execute(QUERIES["by_phase"], {"at_most": at_most})
    return {Phase(row[0]): int(row[1]) for row in found}


def claims(connection: Connection, workspace_ids: Sequence[UUID]) -> dict[UUID, Claim]:
    """What workspaces say of their archives (WS-13)."""
    return {
        one.workspace_id: Claim(
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
    """Take an error off, as a person says; None where it stands otherwise by now."""
    params = {
        "workspace_id": decided_on.workspace_id,
        "archive_key": archive_key,
        "home_ctx": Jsonb(home_json(home)),
        "error_info": _error(decided_on.error_info),
        "archive_key_before": decided_on.archive_key,
        "now": now,
    }
    return _one(connection, "recover", params)


def say_who(connection: Connection, actor: str, reason: str) -> None:
    """For the events of this transaction: who does it, and why."""
    connection.execute(QUERIES["say_who"], {"actor": actor, "reason": reason})


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
    rows = named_rows(connection, QUERIES[name], params)
    return workspace_of(rows[0]) if rows else None


def _many(connection: Connection, name: str, params: Mapping[str, object]) -> list[Workspace]:
    return [workspace_of(row) for row in named_rows(connection, QUERIES[name], params)]
