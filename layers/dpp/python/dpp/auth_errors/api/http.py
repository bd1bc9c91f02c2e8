"""Authentication errors over HTTP: problems, request parsing and response bodies (AUTH-1, AUTH-11)."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from dpp.auth_errors import errors
from dpp.auth_errors.api import contract
from dpp.auth_errors.api.read import Page, WholeAuthError
from dpp.auth_errors.decisions.decide import ClusterDecided, OperatorDecision
from dpp.auth_errors.model import AuthError, AuthErrorReport, Cluster, Decision
from dpp.auth_errors.store import Filter, PageKey
from dpp.platform.http.problem import NOT_FOUND, ProblemKind
from dpp.platform.http.request import read_body, read_query
from dpp.platform.keys.operator_keys import Operator

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent

PROBLEMS: Mapping[type[Exception], ProblemKind] = {
    errors.AuthErrorNotFound: ProblemKind(404, "AUTH_ERROR_NOT_FOUND", NOT_FOUND.title),
    errors.ClusterNotFound: ProblemKind(404, "CLUSTER_NOT_FOUND", NOT_FOUND.title),
    errors.AuthErrorConflict: ProblemKind(409, "AUTH_ERROR_CONFLICT", "The requestId belongs to a different error"),
    errors.DecisionConflict: ProblemKind(409, "DECISION_CONFLICT", "The decisionId belongs to a different decision"),
    errors.DecisionRefused: ProblemKind(409, "DECISION_REFUSED", "The error's status doesn't allow this decision"),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def error_headers(_error: Exception | None) -> dict[str, str]:
    """No error of this context has headers of its own."""
    return {}


def read_report(event: "APIGatewayProxyEvent") -> AuthErrorReport:
    """Parse and sanitise the report of a request. Raises ProblemError."""
    return AuthErrorReport(**read_body(event, contract.AuthErrorRequest, contract.MAX_BODY_BYTES).model_dump())


def read_decision(event: "APIGatewayProxyEvent", operator: Operator) -> OperatorDecision:
    """Parse the decision of a request. Raises ProblemError."""
    body = read_body(event, contract.DecisionRequest)
    return OperatorDecision(body.decision_id, body.decision_type, operator.operator_id, body.reason)


def read_cluster_decision(event: "APIGatewayProxyEvent", operator: Operator) -> OperatorDecision:
    """Parse a decision on all errors of a cluster; each error gets its own decision id. Raises ProblemError."""
    body = read_body(event, contract.ClusterDecisionRequest)
    return OperatorDecision(uuid4(), body.decision_type, operator.operator_id, body.reason)


def read_filter(event: "APIGatewayProxyEvent") -> tuple[Filter, PageKey | None, int]:
    """Parse the filter, the start and the size of a page. Raises ProblemError."""
    query = read_query(event, contract.AuthErrorQuery)
    which = Filter(query.status, query.exception_class, query.cluster_id, query.occurred_since)
    start = PageKey(query.occurred_before, 0) if query.occurred_before else None
    if query.cursor:
        cursor = parse_cursor(query.cursor)
        start = min(cursor, start, key=lambda one: (one.before, one.below)) if start else cursor
    return which, start, query.limit


def receipt(error: AuthError) -> contract.AuthErrorReceiptView:
    """The response to a report."""
    return contract.AuthErrorReceiptView(
        auth_error_id=error.auth_error_id, request_id=error.dedup_key, status=error.status, created_at=error.created_at
    )


def error_view(error: AuthError) -> contract.AuthErrorView:
    return contract.AuthErrorView.model_validate(_fields(error))


def whole_view(whole: WholeAuthError) -> contract.WholeAuthErrorView:
    return contract.WholeAuthErrorView.model_validate(asdict(whole) | _fields(whole.error))


def page_view(page: Page) -> contract.AuthErrorPageView:
    cursor = None if page.next_key is None else format_cursor(page.next_key)
    return contract.AuthErrorPageView(auth_errors=tuple(error_view(one) for one in page.errors), next_cursor=cursor)


def cluster_view(cluster: Cluster) -> contract.ClusterView:
    return contract.ClusterView.model_validate(asdict(cluster))


def clusters_view(clusters: list[Cluster]) -> contract.ClusterPageView:
    return contract.ClusterPageView(clusters=tuple(cluster_view(one) for one in clusters))


def decision_view(decision: Decision) -> contract.DecisionView:
    return contract.DecisionView.model_validate(asdict(decision))


def cluster_decided_view(decided: ClusterDecided) -> contract.ClusterDecidedView:
    return contract.ClusterDecidedView(decided=decided.decided, more=decided.more)


def format_cursor(key: PageKey) -> str:
    """A page key as text: microseconds since 1970, and the sequence."""
    return f"{(key.before - _EPOCH) // _MICROSECOND}_{key.below}"


def parse_cursor(cursor: str) -> PageKey:
    """The inverse of `format_cursor`."""
    micros, below = re.split("_", cursor, maxsplit=1)
    return PageKey(_EPOCH + int(micros) * _MICROSECOND, int(below))


def _fields(error: AuthError) -> dict[str, object]:
    return asdict(error) | {"request_id": error.dedup_key}
