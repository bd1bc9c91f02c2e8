"""How authentication errors look over HTTP: problems, the reading of requests, and bodies (AUTH-1, AUTH-11)."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from dpp.auth_errors.api.contract import (
    MAX_BODY_BYTES,
    AuthErrorPageView,
    AuthErrorQuery,
    AuthErrorReceiptView,
    AuthErrorRequest,
    AuthErrorTransitionView,
    AuthErrorView,
    ClusterDecidedView,
    ClusterDecisionRequest,
    ClusterPageView,
    ClusterView,
    DecisionRequest,
    DecisionView,
    EventView,
    WholeAuthErrorView,
)
from dpp.auth_errors.api.read import Page, WholeAuthError
from dpp.auth_errors.decisions.decide import ClusterDecided, OperatorDecision
from dpp.auth_errors.errors import (
    AuthErrorConflict,
    AuthErrorNotFound,
    ClusterNotFound,
    DecisionConflict,
    DecisionRefused,
)
from dpp.auth_errors.model import AuthError, AuthErrorReport, Cluster, Decision
from dpp.auth_errors.store import Filter, PageKey
from dpp.platform.http.problem import ProblemKind
from dpp.platform.http.request import read_body, read_query
from dpp.platform.keys.operator_keys import Operator

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent

_NOTHING_HERE = "There is nothing here"
PROBLEMS: Mapping[type[Exception], ProblemKind] = {
    AuthErrorNotFound: ProblemKind(404, "AUTH_ERROR_NOT_FOUND", _NOTHING_HERE),
    ClusterNotFound: ProblemKind(404, "CLUSTER_NOT_FOUND", _NOTHING_HERE),
    AuthErrorConflict: ProblemKind(409, "AUTH_ERROR_CONFLICT", "The requestId stands for another error"),
    DecisionConflict: ProblemKind(409, "DECISION_CONFLICT", "The decisionId stands for another decision"),
    DecisionRefused: ProblemKind(409, "DECISION_REFUSED", "The error can't be decided so"),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def error_headers(_error: Exception | None) -> dict[str, str]:
    """No header of this context's own."""
    return {}


def read_report(event: "APIGatewayProxyEvent") -> AuthErrorReport:
    """The report in a request, sanitised. Raises ProblemError."""
    return AuthErrorReport(**read_body(event, AuthErrorRequest, MAX_BODY_BYTES).model_dump())


def read_decision(event: "APIGatewayProxyEvent", operator: Operator) -> OperatorDecision:
    """The decision in a request. Raises ProblemError."""
    body = read_body(event, DecisionRequest)
    return OperatorDecision(body.decision_id, body.decision_type, operator.operator_id, body.reason)


def read_cluster_decision(event: "APIGatewayProxyEvent", operator: Operator) -> OperatorDecision:
    """The decision about all errors of a cluster; each gets an id of its own. Raises ProblemError."""
    body = read_body(event, ClusterDecisionRequest)
    return OperatorDecision(uuid4(), body.decision_type, operator.operator_id, body.reason)


def read_filter(event: "APIGatewayProxyEvent") -> tuple[Filter, PageKey | None, int]:
    """Which errors a request asks for, from where, how many. Raises ProblemError."""
    query = read_query(event, AuthErrorQuery)
    which = Filter(query.status, query.exception_class, query.cluster_id, query.occurred_since)
    place = PageKey(query.occurred_before, 0) if query.occurred_before else None
    if query.cursor:
        cursor = parse_cursor(query.cursor)
        place = min(cursor, place, key=lambda one: (one.before, one.below)) if place else cursor
    return which, place, query.limit


def receipt(error: AuthError) -> AuthErrorReceiptView:
    """What a reporter is told."""
    return AuthErrorReceiptView(
        auth_error_id=error.auth_error_id,
        request_id=error.dedup_key,
        status=error.status,
        created_at=error.created_at,
    )


def error_view(error: AuthError) -> AuthErrorView:
    """An error in a list."""
    return AuthErrorView.model_validate(_fields(error))


def whole_view(whole: WholeAuthError) -> WholeAuthErrorView:
    """An error with all that is known of it."""
    return WholeAuthErrorView.model_validate(
        _fields(whole.error)
        | {
            "clusters": tuple(cluster_view(one) for one in whole.clusters),
            "decisions": tuple(decision_view(one) for one in whole.decisions),
            "transitions": tuple(
                AuthErrorTransitionView.model_validate(asdict(one)) for one in whole.transitions
            ),
            "events": tuple(EventView.model_validate(asdict(one)) for one in whole.events),
        }
    )


def page_view(page: Page) -> AuthErrorPageView:
    """A page of errors."""
    cursor = None if page.place is None else format_cursor(page.place)
    return AuthErrorPageView(auth_errors=tuple(error_view(one) for one in page.errors), next_cursor=cursor)


def cluster_view(cluster: Cluster) -> ClusterView:
    """A cluster."""
    return ClusterView.model_validate(asdict(cluster))


def clusters_view(clusters: list[Cluster]) -> ClusterPageView:
    """Clusters."""
    return ClusterPageView(clusters=tuple(cluster_view(one) for one in clusters))


def decision_view(decision: Decision) -> DecisionView:
    """A decision."""
    return DecisionView.model_validate(asdict(decision))


def cluster_decided_view(decided: ClusterDecided) -> ClusterDecidedView:
    """What a decision about a cluster did."""
    return ClusterDecidedView(decided=decided.decided, more=decided.more)


def format_cursor(place: PageKey) -> str:
    """A place as text: microseconds since 1970, and the sequence."""
    return f"{(place.before - _EPOCH) // _MICROSECOND}_{place.below}"


def parse_cursor(cursor: str) -> PageKey:
    """The place that `format_cursor` wrote."""
    micros, below = re.split("_", cursor, maxsplit=1)
    return PageKey(_EPOCH + int(micros) * _MICROSECOND, int(below))


def _fields(error: AuthError) -> dict[str, object]:
    return asdict(error) | {"request_id": error.dedup_key}
