"""The SQL of authentication errors, their clusters and decisions.

A compare-and-swap returns None for zero rows and never raises. `now` sets the clock in tests; in production it is None,
and Postgres's clock decides (D1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from dpp.auth_errors.machine import AuthErrorStatus, DecisionType
from dpp.auth_errors.model import AuthError, AuthErrorReport, AuthErrorTransition, Cluster, Decision
from dpp.platform.db.clock import transaction_start
from dpp.platform.db.postgres import Connection
from dpp.platform.db.rows import row_as, rows_as
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.auth_errors", "queries.sql")
clock = transaction_start


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of errors; a member of None matches all. `since` is inclusive."""

    status: AuthErrorStatus | None = None
    exception_class: str | None = None
    cluster_id: UUID | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class PageKey:
    """The start of a page: errors before this occurrence, or at the same instant with a lower sequence."""

    before: datetime
    below: int


def record(
    connection: Connection,
    auth_error_id: UUID,
    report: AuthErrorReport,
    *,
    reported_by: str,
    payload_hash: str,
    now: datetime | None = None,
) -> AuthError | None:
    """Record an error; None if its reporter's requestId exists."""
    params = asdict(report) | {
        "auth_error_id": auth_error_id,
        "reported_by": reported_by,
        "payload_hash": payload_hash,
        "now": now,
    }
    return _one(connection, "record", params)


def find_by_key(connection: Connection, reported_by: str, request_id: str) -> AuthError | None:
    return _one(connection, "find_by_key", {"reported_by": reported_by, "request_id": request_id})


def find(connection: Connection, auth_error_id: UUID) -> AuthError | None:
    return _one(connection, "find", {"auth_error_id": auth_error_id})


def lock(connection: Connection, auth_error_id: UUID) -> AuthError | None:
    """The error, locked until the transaction ends."""
    return _one(connection, "lock", {"auth_error_id": auth_error_id})


def request_analysis(
    connection: Connection, auth_error_id: UUID, actor: str, now: datetime | None = None
) -> AuthError | None:
    """NEW or RETRY to ANALYSIS_REQUESTED."""
    return _one(connection, "request_analysis", {"auth_error_id": auth_error_id, "actor": actor, "now": now})


def complete_analysis(
    connection: Connection, auth_error_id: UUID, actor: str, now: datetime | None = None
) -> AuthError | None:
    """ANALYSIS_REQUESTED or RETRY to ANALYSIS_COMPLETED."""
    return _one(connection, "complete_analysis", {"auth_error_id": auth_error_id, "actor": actor, "now": now})


def note_failure(
    connection: Connection,
    auth_error_id: UUID,
    *,
    actor: str,
    failure: str,
    next_retry_at: datetime,
    now: datetime | None = None,
) -> AuthError | None:
    """To RETRY; None if the error is further or terminal."""
    params = {
        "auth_error_id": auth_error_id,
        "actor": actor,
        "failure": failure,
        "next_retry_at": next_retry_at,
        "now": now,
    }
    return _one(connection, "note_failure", params)


def decide(connection: Connection, decision: Decision, now: datetime | None = None) -> AuthError | None:
    """Apply a decision; None if the error doesn't have the expected status."""
    params = {
        "auth_error_id": decision.auth_error_id,
        "actor": decision.actor,
        "from_status": decision.from_status,
        "to_status": decision.to_status,
        "escalates": decision.decision_type is DecisionType.ESCALATE,
        "now": now,
    }
    return _one(connection, "decide", params)


def insert_decision(connection: Connection, decision: Decision, now: datetime | None = None) -> bool:
    """Store a decision; False if its id exists."""
    params = asdict(decision) | {"inputs": Jsonb(dict(decision.inputs)), "now": now}
    return connection.execute(QUERIES["insert_decision"], params).fetchone() is not None


def decision(connection: Connection, decision_id: UUID) -> Decision | None:
    return row_as(Decision, connection, QUERIES["decision"], {"decision_id": decision_id})


def decisions(connection: Connection, auth_error_id: UUID) -> list[Decision]:
    """The decisions on an error, the oldest first."""
    return rows_as(Decision, connection, QUERIES["decisions"], {"auth_error_id": auth_error_id})


@dataclass(frozen=True, slots=True)
class SystemDecision:
    """A decision of a policy, with the policies of its version."""

    sequence: int
    decision_id: UUID
    decision_type: DecisionType
    policy_name: str
    inputs: Mapping[str, Any]
    version: int
    policies: Sequence[Mapping[str, Any]]


def system_decisions(connection: Connection, below: int, limit: int) -> list[SystemDecision]:
    """Up to `limit` decisions of policies below a sequence, the newest first."""
    return rows_as(SystemDecision, connection, QUERIES["system_decisions"], {"below": below, "limit": limit})


def transitions(connection: Connection, auth_error_id: UUID) -> list[AuthErrorTransition]:
    """An error's history, the oldest first."""
    return rows_as(AuthErrorTransition, connection, QUERIES["transitions"], {"auth_error_id": auth_error_id})


def page(connection: Connection, which: Filter, start: PageKey, limit: int) -> list[AuthError]:
    """Up to `limit` errors behind a page key, the newest occurrence first."""
    params = asdict(which) | asdict(start) | {"limit": limit}
    name = "page" if which.cluster_id is None else "page_of_cluster"
    return rows_as(AuthError, connection, QUERIES[name], params)


def open_of_cluster(
    connection: Connection,
    cluster_id: UUID,
    statuses: Sequence[AuthErrorStatus],
    limit: int,
    *,
    escalates: bool = False,
) -> list[UUID]:
    """Up to `limit` errors of a cluster with these statuses, the oldest first; `escalates`: only unescalated ones."""
    params = {"cluster_id": cluster_id, "statuses": list(statuses), "limit": limit, "escalates": escalates}
    return [row[0] for row in connection.execute(QUERIES["open_of_cluster"], params)]


def join_cluster(
    connection: Connection, error: AuthError, cluster_id: UUID, hash_version: str, stack_hash: str
) -> Cluster:
    """Add the error to the cluster of its hash and return it; a new cluster gets `cluster_id`."""
    params = {
        "cluster_id": cluster_id,
        "hash_version": hash_version,
        "stack_hash": stack_hash,
        "exception_class": error.exception_class,
        "auth_error_id": error.auth_error_id,
        "occurred_at": error.occurred_at,
        "sequence": error.sequence,
        "reported_at": error.created_at,
    }
    (joined,) = rows_as(Cluster, connection, QUERIES["join_cluster"], params)
    return joined


def cluster(connection: Connection, cluster_id: UUID) -> Cluster | None:
    return row_as(Cluster, connection, QUERIES["cluster"], {"cluster_id": cluster_id})


def clusters_of(connection: Connection, auth_error_id: UUID) -> list[Cluster]:
    """The clusters of an error, the newest version of the hash first."""
    return rows_as(Cluster, connection, QUERIES["clusters_of"], {"auth_error_id": auth_error_id})


def clusters(connection: Connection, limit: int) -> list[Cluster]:
    """The clusters with the newest errors."""
    return rows_as(Cluster, connection, QUERIES["clusters"], {"limit": limit})


def seen_lately(
    connection: Connection, cluster_id: UUID, minutes: int, at_most: int, now: datetime | None = None
) -> int:
    """The number of errors of a cluster that were recorded within `minutes`, counted up to `at_most`."""
    params = {"cluster_id": cluster_id, "minutes": minutes, "at_most": at_most, "now": now}
    (row,) = connection.execute(QUERIES["seen_lately"], params).fetchall()
    return int(row[0])


def growing(connection: Connection, now: datetime | None = None) -> tuple[int, int]:
    """The numbers of clusters with an error within ten minutes, and of those less than an hour old."""
    (row,) = connection.execute(QUERIES["growing"], {"now": now}).fetchall()
    return int(row[0]), int(row[1])


def escalated_lately(connection: Connection, seconds: int, now: datetime | None = None) -> int:
    """The number of escalations by policies within `seconds`, among the last 1,000 decisions."""
    (row,) = connection.execute(QUERIES["escalated_lately"], {"seconds": seconds, "now": now}).fetchall()
    return int(row[0])


def escalate_cluster(connection: Connection, cluster_id: UUID, now: datetime | None = None) -> None:
    connection.execute(QUERIES["escalate_cluster"], {"cluster_id": cluster_id, "now": now})


def minutes_since_deploy(connection: Connection, service: str | None, now: datetime | None = None) -> int | None:
    """Whole minutes since the newest deployment of a service or of all services; None if there is none."""
    row = connection.execute(QUERIES["latest_deploy"], {"service": service, "now": now}).fetchone()
    return None if row is None else int(row[0])


def insert_deploy(
    connection: Connection, deploy_id: UUID, *, service: str | None, label: str, actor: str, now: datetime | None = None
) -> datetime:
    """Store a deployment, and return its time."""
    params = {"deploy_id": deploy_id, "service": service, "label": label, "actor": actor, "now": now}
    (row,) = connection.execute(QUERIES["insert_deploy"], params).fetchall()
    deployed_at: datetime = row[0]
    return deployed_at


def latest_policies(connection: Connection) -> tuple[int, list[Mapping[str, Any]]] | None:
    """The version in force and its policies; None if no policies were set."""
    row = connection.execute(QUERIES["latest_policies"]).fetchone()
    return None if row is None else (int(row[0]), list(row[1]))


@dataclass(frozen=True, slots=True)
class PolicySet:
    """A version of the policies, with its author and reason."""

    version: int
    policies: Sequence[Mapping[str, Any]]
    actor: str
    reason: str
    created_at: datetime


def policy_set(connection: Connection, version: int | None = None) -> PolicySet | None:
    """This version, or the newest for None; None if it doesn't exist."""
    return row_as(PolicySet, connection, QUERIES["policy_set"], {"version": version})


def insert_policies(connection: Connection, policies: Sequence[Mapping[str, Any]], actor: str, reason: str) -> int:
    """Store a new version of the policies, and return its number."""
    params = {"policies": Jsonb(list(policies)), "actor": actor, "reason": reason, "now": None}
    (row,) = connection.execute(QUERIES["insert_policies"], params).fetchall()
    return int(row[0])


def not_hashed(connection: Connection, hash_version: str, above: int, limit: int) -> list[AuthError]:
    """Analysed errors that are in no cluster of this hash version, in the order of recording."""
    params = {"hash_version": hash_version, "above": above, "limit": limit}
    return rows_as(AuthError, connection, QUERIES["not_hashed"], params)


def _one(connection: Connection, name: str, params: Mapping[str, object]) -> AuthError | None:
    return row_as(AuthError, connection, QUERIES[name], params)
