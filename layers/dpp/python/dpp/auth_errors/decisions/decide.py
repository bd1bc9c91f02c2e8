"""Decide what becomes of an error (AUTH-11): an operator by a word, the system by its policies.

Each decision is kept with its actor, its reason and the inputs it saw, in the transaction that moves the error, so that
a crash leaves both or neither; a repetition under the same decision_id finds it made.
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
"""As many errors of a cluster as one call decides."""


@dataclass(frozen=True, slots=True)
class OperatorDecision:
    """What an operator decides; `decision_id` is chosen by who decides, the same one decides once."""

    decision_id: UUID
    decision_type: DecisionType
    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision that stands; `made` false where it stood before."""

    decision: Decision
    made: bool


def decide(
    order: OperatorDecision, auth_error_id: UUID | None, database: Database, now: datetime | None = None
) -> Decided:
    """Decide of one error. Raises AuthErrorNotFound (for no id, too), DecisionRefused, DecisionConflict."""
    with database.connection() as connection, connection.transaction():
        error = store.lock(connection, auth_error_id) if auth_error_id else None
        if error is None:
            raise AuthErrorNotFound
        if (known := store.decision(connection, order.decision_id)) is not None:
            return Decided(_same(known, order, error), made=False)
        if not ERROR_MACHINE.allows(error.status, DECIDED[order.decision_type]):
            raise DecisionRefused(order.decision_type, error.status)
        decision = _of_operator(connection, order, error, now)
        if not store.insert_decision(connection, decision, now):  # under this id, of another error, just now
            raise DecisionConflict
        _move(connection, decision, now)
    _LOG.info(
        "decided",
        extra={
            "auth_error_id": str(error.auth_error_id),
            "decision": order.decision_type,
            "actor": order.actor,
        },
    )
    return Decided(decision, made=True)


@dataclass(frozen=True, slots=True)
class ClusterDecided:
    """How many errors of a cluster were decided, and whether some are left to be."""

    decided: int
    more: bool


def decide_cluster(
    order: OperatorDecision,
    cluster_id: UUID | None,
    database: Database,
    *,
    limit: int = MAX_OF_CLUSTER,
    now: datetime | None = None,
) -> ClusterDecided:
    """Decide of all errors of a cluster that may be decided so, the oldest first, up to `limit`.

    Each is a decision of its own, under an id of its own: what a crash or another's decision left is found again.
    Raises ClusterNotFound.
    """
    statuses = _may_be_decided(order.decision_type)
    with database.connection() as connection:
        if cluster_id is None or store.cluster(connection, cluster_id) is None:
            raise ClusterNotFound
        escalates = order.decision_type is DecisionType.ESCALATE
        ids = store.open_of_cluster(connection, cluster_id, statuses, limit + 1, escalates=escalates)
    decided = 0
    for auth_error_id in ids[:limit]:
        one = OperatorDecision(uuid4(), order.decision_type, order.actor, order.reason)
        try:
            decided += decide(one, auth_error_id, database, now).made
        except DecisionRefused:  # somebody was faster
            continue
    return ClusterDecided(decided, more=len(ids) > limit)


def decide_by_policy(
    connection: Connection, error: AuthError, cluster: Cluster, now: datetime | None = None
) -> Decision | None:
    """What the policies decide of an error just analysed, in the caller's transaction; None where none matches."""
    kept = store.latest_policies(connection)
    if kept is None:
        return None
    version, data = kept
    try:
        found = policies.read_policies(data)
    except (
        policies.PoliciesRefused
    ) as refused:  # kept by an older version: analyses go on, and none is decided
        _LOG.error("policies can't be read", extra={"version": version, "error": str(refused)})
        return None
    inputs = gather(connection, error, cluster, policies.windows(found), now)
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


def gather(
    connection: Connection,
    error: AuthError,
    cluster: Cluster,
    windows: dict[int, int],
    now: datetime | None,
) -> policies.Inputs:
    """What policies look at, by Postgres's clock (D1)."""
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


def _of_operator(
    connection: Connection, order: OperatorDecision, error: AuthError, now: datetime | None
) -> Decision:
    clusters = store.clusters_of(connection, error.auth_error_id)
    inputs = {
        "status": error.status,
        "retryCount": error.retry_count,
        "clusters": [
            {
                "clusterId": str(one.cluster_id),
                "hashVersion": one.hash_version,
                "errorCount": one.error_count,
            }
            for one in clusters
        ],
    }
    if order.decision_type is DecisionType.ESCALATE and clusters:
        store.escalate_cluster(connection, clusters[0].cluster_id, now)
    return Decision(
        decision_id=order.decision_id,
        auth_error_id=error.auth_error_id,
        decision_type=order.decision_type,
        decided_by=DecidedBy.OPERATOR,
        actor=order.actor,
        reason=order.reason,
        inputs=inputs,
        policy_version=None,
        policy_name=None,
        from_status=error.status,
        to_status=DECIDED[order.decision_type],
        decided_at=store.clock(connection, now),
    )


def _move(connection: Connection, decision: Decision, now: datetime | None) -> None:
    if store.decide(connection, decision, now) is None:
        raise AssertionError("an error that is locked was moved")


def _same(known: Decision, order: OperatorDecision, error: AuthError) -> Decision:
    """The decision that stands under this id. Raises DecisionConflict where it is another."""
    of_order = (error.auth_error_id, order.decision_type, order.reason)
    if (known.auth_error_id, known.decision_type, known.reason) != of_order:
        raise DecisionConflict
    return known


def _may_be_decided(decision_type: DecisionType) -> Sequence[AuthErrorStatus]:
    """Where an error may stand to be decided so. An escalation of what was escalated says nothing new."""
    target = DECIDED[decision_type]
    return [
        status
        for status in AuthErrorStatus
        if status not in TERMINAL and ERROR_MACHINE.allows(status, target)
    ]
