"""Decisions on errors (AUTH-11), by operators and by policies.

Each decision is stored with its actor, reason and inputs, in the transaction that changes the error's status. A
repeated request with the same decision_id finds the stored decision.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from dpp.auth_errors import store
from dpp.auth_errors.decisions import policies
from dpp.auth_errors.errors import AuthErrorNotFound, ClusterNotFound, DecisionConflict, DecisionRefused
from dpp.auth_errors.machine import DECIDED, ERROR_MACHINE, TERMINAL, AuthErrorStatus, DecisionType
from dpp.auth_errors.model import AuthError, Cluster, DecidedBy, Decision
from dpp.platform.db.postgres import Connection, Database

_LOG = logging.getLogger("dpp.auth_errors.decisions.decide")
MAX_OF_CLUSTER = 500
"""The number of errors of a cluster that one call decides at most."""


@dataclass(frozen=True, slots=True)
class OperatorDecision:
    """A decision that an operator requests; repeated requests with one `decision_id` decide once."""

    decision_id: UUID
    decision_type: DecisionType
    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class Decided:
    """A stored decision. `made` is false if an earlier request made it."""

    decision: Decision
    made: bool


def decide(
    requested: OperatorDecision, auth_error_id: UUID | None, database: Database, now: datetime | None = None
) -> Decided:
    """Decide on one error. Raises AuthErrorNotFound (also for None), DecisionRefused, DecisionConflict."""
    with database.connection() as connection, connection.transaction():
        error = store.lock(connection, auth_error_id) if auth_error_id else None
        if error is None:
            raise AuthErrorNotFound
        if (known := store.decision(connection, requested.decision_id)) is not None:
            return Decided(_require_same(known, requested, error), made=False)
        if not ERROR_MACHINE.allows(error.status, DECIDED[requested.decision_type]):
            raise DecisionRefused(requested.decision_type, error.status)
        decision = _operator_decision(connection, requested, error, now)
        if not store.insert_decision(connection, decision, now):  # a concurrent decision on another error
            raise DecisionConflict
        _move(connection, decision, now)
    _LOG.info(
        "decided",
        extra={
            "auth_error_id": str(error.auth_error_id),
            "decision": requested.decision_type,
            "actor": requested.actor,
        },
    )
    return Decided(decision, made=True)


@dataclass(frozen=True, slots=True)
class ClusterDecided:
    """The number of decided errors of a cluster; `more` is true if open ones are left."""

    decided: int
    more: bool


def decide_cluster(
    requested: OperatorDecision,
    cluster_id: UUID | None,
    database: Database,
    *,
    limit: int = MAX_OF_CLUSTER,
    now: datetime | None = None,
) -> ClusterDecided:
    """Decide on all errors of a cluster that allow this decision, the oldest first, up to `limit`.

    Each error gets a decision with its own id, so the call can be repeated after a crash. Raises ClusterNotFound.
    """
    statuses = _decidable_statuses(requested.decision_type)
    with database.connection() as connection:
        if cluster_id is None or store.cluster(connection, cluster_id) is None:
            raise ClusterNotFound
        escalates = requested.decision_type is DecisionType.ESCALATE
        ids = store.open_of_cluster(connection, cluster_id, statuses, limit + 1, escalates=escalates)
    decided = 0
    for auth_error_id in ids[:limit]:
        one = OperatorDecision(uuid4(), requested.decision_type, requested.actor, requested.reason)
        try:
            decided += decide(one, auth_error_id, database, now).made
        except DecisionRefused:  # decided concurrently
            continue
    return ClusterDecided(decided, more=len(ids) > limit)


def decide_by_policy(
    connection: Connection, error: AuthError, cluster: Cluster, now: datetime | None = None
) -> Decision | None:
    """Decide on an analysed error by the policies, in the caller's transaction; None if no policy matches."""
    latest = store.latest_policies(connection)
    if latest is None:
        return None
    version, data = latest
    try:
        found = policies.read_policies(data)
    except policies.PoliciesRefused as refused:  # stored by another version: the analysis is valid without a decision
        _LOG.error("policies can't be read", extra={"version": version, "error": str(refused)})
        return None
    inputs = collect_inputs(connection, error, cluster, policies.windows(found), now)
    policy = policies.first_match(found, inputs)
    if policy is None:
        return None
    decision = Decision(
        decision_id=uuid4(),
        auth_error_id=error.auth_error_id,
        decision_type=policy.decide,
        decided_by=DecidedBy.SYSTEM,
        actor=f"POLICY/{policy.name}",
        reason=policy.reason,
        inputs=inputs.as_data(),
        policy_version=version,
        policy_name=policy.name,
        from_status=error.status,
        to_status=DECIDED[policy.decide],
        decided_at=store.clock(connection, now),
    )
    store.insert_decision(connection, decision, now)
    _move(connection, decision, now)
    if policy.decide is DecisionType.ESCALATE:
        store.escalate_cluster(connection, cluster.cluster_id, now)
    return decision


def collect_inputs(
    connection: Connection, error: AuthError, cluster: Cluster, windows: dict[int, int], now: datetime | None
) -> policies.Inputs:
    """The inputs of policies, by Postgres's clock (D1)."""
    at = store.clock(connection, now)
    return policies.Inputs(
        exception_class=error.exception_class,
        http_status=error.http_status,
        service=error.service,
        cluster_id=str(cluster.cluster_id),
        cluster_age_minutes=_minutes(at, cluster.first_seen_at) or 0,
        minutes_since_deploy=store.minutes_since_deploy(connection, error.service, now),
        minutes_since_escalation=_minutes(at, cluster.escalated_at),
        seen={
            minutes: store.seen_lately(connection, cluster.cluster_id, minutes, at_most, now)
            for minutes, at_most in windows.items()
        },
    )


def _minutes(now: datetime, then: datetime | None) -> int | None:
    return None if then is None else max(0, int((now - then).total_seconds()) // 60)


def _operator_decision(
    connection: Connection, requested: OperatorDecision, error: AuthError, now: datetime | None
) -> Decision:
    clusters = store.clusters_of(connection, error.auth_error_id)
    inputs = {
        "status": error.status,
        "retryCount": error.retry_count,
        "clusters": [
            {"clusterId": str(one.cluster_id), "hashVersion": one.hash_version, "errorCount": one.error_count}
            for one in clusters
        ],
    }
    if requested.decision_type is DecisionType.ESCALATE and clusters:
        store.escalate_cluster(connection, clusters[0].cluster_id, now)
    return Decision(
        decision_id=requested.decision_id,
        auth_error_id=error.auth_error_id,
        decision_type=requested.decision_type,
        decided_by=DecidedBy.OPERATOR,
        actor=requested.actor,
        reason=requested.reason,
        inputs=inputs,
        policy_version=None,
        policy_name=None,
        from_status=error.status,
        to_status=DECIDED[requested.decision_type],
        decided_at=store.clock(connection, now),
    )


def _move(connection: Connection, decision: Decision, now: datetime | None) -> None:
    if store.decide(connection, decision, now) is None:
        raise AssertionError(f"the locked error {decision.auth_error_id} changed its status")


def _require_same(known: Decision, requested: OperatorDecision, error: AuthError) -> Decision:
    """The stored decision, if it equals the requested one. Raises DecisionConflict."""
    expected = (error.auth_error_id, requested.decision_type, requested.reason)
    if (known.auth_error_id, known.decision_type, known.reason) != expected:
        raise DecisionConflict
    return known


def _decidable_statuses(decision_type: DecisionType) -> Sequence[AuthErrorStatus]:
    """The open statuses that allow this decision."""
    target = DECIDED[decision_type]
    return [status for status in AuthErrorStatus if status not in TERMINAL and ERROR_MACHINE.allows(status, target)]
