"""The API of authentication errors: services report with a tenant's key, operators decide (AUTH-1, AUTH-11)."""

from dpp.platform.observability import cold_start

# First, so that no import after it is held up.
# isort: split

from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.utilities.typing import LambdaContext

from auth_errors_api.wiring import Wiring, wiring
from dpp.auth_errors import store
from dpp.auth_errors.api import read
from dpp.auth_errors.api.contract import ClusterQuery
from dpp.auth_errors.api.http import (
    PROBLEMS,
    cluster_decided_view,
    cluster_view,
    clusters_view,
    decision_view,
    error_headers,
    page_view,
    read_cluster_decision,
    read_decision,
    read_filter,
    read_report,
    receipt,
    whole_view,
)
from dpp.auth_errors.api.record import record
from dpp.auth_errors.decisions.decide import decide, decide_cluster
from dpp.platform.http.api import Api
from dpp.platform.http.auth import authenticate, authenticate_operator
from dpp.platform.http.request import read_query
from dpp.platform.ids import parse_uuid
from dpp.platform.keys.operator_keys import Operator
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import AUTH_ERROR_DECISIONS, AUTH_ERRORS_RECORDED

cold_start.imported()
logger = service_logger("auth_errors")
meter = Meter()
api = Api(PROBLEMS, error_headers, meter)


@api.route("POST", "/api/auth-errors")
def report_error() -> Response[str]:
    """Record an authentication error; 201, and 200 for one that was recorded before."""
    parts = wiring()
    caller = authenticate(api.event, parts.database)
    logger.append_keys(tenant_id=caller.tenant_id, trace_id=api.trace_id)
    recorded = record(read_report(api.event), caller.tenant_id, parts.database, parts.waker)
    if recorded.created:
        meter.add(AUTH_ERRORS_RECORDED)
    location = {"Location": f"auth-errors/{recorded.error.auth_error_id}"}
    return api.json(201 if recorded.created else 200, receipt(recorded.error), location)


@api.route("GET", "/api/auth-errors")
def list_errors() -> Response[str]:
    """Errors, the newest occurrence first."""
    parts, _ = _asked()
    which, place, limit = read_filter(api.event)
    with parts.database.connection() as connection:
        page = read.page(connection, which, place, limit)
    return api.json(200, page_view(page), {})


@api.route("GET", "/api/auth-errors/clusters")
def list_clusters() -> Response[str]:
    """The clusters that were seen last."""
    parts, _ = _asked()
    query = read_query(api.event, ClusterQuery)
    with parts.database.connection() as connection:
        found = store.clusters(connection, query.limit)
    return api.json(200, clusters_view(found), {})


@api.route("GET", "/api/auth-errors/clusters/<cluster_id>")
def read_cluster(cluster_id: str) -> Response[str]:
    """One cluster."""
    parts, _ = _asked()
    with parts.database.connection() as connection:
        found = read.cluster(connection, parse_uuid(cluster_id))
    return api.json(200, cluster_view(found), {})


@api.route("POST", "/api/auth-errors/clusters/<cluster_id>/decisions")
def decide_of_cluster(cluster_id: str) -> Response[str]:
    """Decide of the errors of a cluster, as many as a call may."""
    parts, operator = _asked()
    order = read_cluster_decision(api.event, operator)
    decided = decide_cluster(order, parse_uuid(cluster_id), parts.database)
    meter.add(AUTH_ERROR_DECISIONS, decided.decided, DecisionType=order.decision_type, DecidedBy="OPERATOR")
    return api.json(200, cluster_decided_view(decided), {})


@api.route("GET", "/api/auth-errors/<auth_error_id>")
def read_one(auth_error_id: str) -> Response[str]:
    """An error with its clusters, decisions, history and events."""
    parts, _ = _asked()
    with parts.database.connection() as connection:
        whole = read.read(connection, parse_uuid(auth_error_id))
    return api.json(200, whole_view(whole), {})


@api.route("POST", "/api/auth-errors/<auth_error_id>/decisions")
def decide_of_error(auth_error_id: str) -> Response[str]:
    """Decide of an error; 201, and 200 for a decision that was made before."""
    parts, operator = _asked()
    order = read_decision(api.event, operator)
    decided = decide(order, parse_uuid(auth_error_id), parts.database)
    if decided.made:
        meter.add(AUTH_ERROR_DECISIONS, DecisionType=order.decision_type, DecidedBy="OPERATOR")
    return api.json(201 if decided.made else 200, decision_view(decided.decision), {})


def _asked() -> tuple[Wiring, Operator]:
    """The parts, and the operator who asks; everybody else is refused."""
    parts = wiring()
    operator = authenticate_operator(api.event, parts.database)
    logger.append_keys(actor=operator.operator_id, trace_id=api.trace_id)
    return parts, operator


@invocation(logger, meter)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one API Gateway event."""
    return api.answer(event, context)
