"""The API of authentication errors: services report with a tenant's key, operators decide (AUTH-1, AUTH-11)."""

from dpp.platform.observability import cold_start

# First, so that the garbage collector is off during the imports below.
# isort: split

from dataclasses import dataclass
from functools import cache

from aws_lambda_powertools.event_handler import Response

from dpp.auth_errors import store
from dpp.auth_errors.api import http, read
from dpp.auth_errors.api.contract import ClusterQuery
from dpp.auth_errors.api.record import record
from dpp.auth_errors.config import WakeQueueSettings
from dpp.auth_errors.decisions.decide import decide, decide_cluster
from dpp.auth_errors.outbox.publish import Waker
from dpp.platform.aws.queue import Queue
from dpp.platform.config import PostgresSettings
from dpp.platform.db.postgres import Database
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
api = Api(http.PROBLEMS, http.error_headers, meter)


class AuthErrorsApiSettings(PostgresSettings, WakeQueueSettings):
    """Rows, and the queue that wakes the publisher."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The database with keys and errors, and the publisher's waker."""

    database: Database
    waker: Waker


@cache
def wiring() -> Wiring:
    """Read the environment and build; connections open at their first use."""
    settings = AuthErrorsApiSettings.load()
    return Wiring(Database(settings.database), Waker(Queue(settings.wake_queue_url)))


@api.route("POST", "/api/auth-errors")
def report_error() -> Response[str]:
    """Record an authentication error. 201; 200 for one that was recorded before."""
    wired = wiring()
    caller = authenticate(api.event, wired.database)
    logger.append_keys(tenant_id=caller.tenant_id, trace_id=api.trace_id)
    recorded = record(http.read_report(api.event), caller.tenant_id, wired.database, wired.waker)
    if recorded.created:
        meter.add(AUTH_ERRORS_RECORDED)
    location = {"Location": f"auth-errors/{recorded.error.auth_error_id}"}
    return api.json(201 if recorded.created else 200, http.receipt(recorded.error), location)


@api.route("GET", "/api/auth-errors")
def list_errors() -> Response[str]:
    """Errors, the newest occurrence first."""
    wired, _ = _authenticated()
    which, place, limit = http.read_filter(api.event)
    return api.json(200, http.page_view(wired.database.using(read.page, which, place, limit)), {})


@api.route("GET", "/api/auth-errors/clusters")
def list_clusters() -> Response[str]:
    """The clusters with the latest occurrences."""
    wired, _ = _authenticated()
    query = read_query(api.event, ClusterQuery)
    return api.json(200, http.clusters_view(wired.database.using(store.clusters, query.limit)), {})


@api.route("GET", "/api/auth-errors/clusters/<cluster_id>")
def read_cluster(cluster_id: str) -> Response[str]:
    """One cluster."""
    wired, _ = _authenticated()
    return api.json(200, http.cluster_view(wired.database.using(read.cluster, parse_uuid(cluster_id))), {})


@api.route("POST", "/api/auth-errors/clusters/<cluster_id>/decisions")
def decide_on_cluster(cluster_id: str) -> Response[str]:
    """Decide on the errors of a cluster, up to the maximum of one call."""
    wired, operator = _authenticated()
    order = http.read_cluster_decision(api.event, operator)
    decided = decide_cluster(order, parse_uuid(cluster_id), wired.database)
    meter.add(AUTH_ERROR_DECISIONS, decided.decided, DecisionType=order.decision_type, DecidedBy="OPERATOR")
    return api.json(200, http.cluster_decided_view(decided), {})


@api.route("GET", "/api/auth-errors/<auth_error_id>")
def read_one(auth_error_id: str) -> Response[str]:
    """An error with its clusters, decisions, history and events."""
    wired, _ = _authenticated()
    return api.json(200, http.whole_view(wired.database.using(read.read, parse_uuid(auth_error_id))), {})


@api.route("POST", "/api/auth-errors/<auth_error_id>/decisions")
def decide_on_error(auth_error_id: str) -> Response[str]:
    """Decide on an error. 201; 200 for a decision that was made before."""
    wired, operator = _authenticated()
    order = http.read_decision(api.event, operator)
    decided = decide(order, parse_uuid(auth_error_id), wired.database)
    if decided.made:
        meter.add(AUTH_ERROR_DECISIONS, DecisionType=order.decision_type, DecidedBy="OPERATOR")
    return api.json(201 if decided.made else 200, http.decision_view(decided.decision), {})


def _authenticated() -> tuple[Wiring, Operator]:
    """The wiring and the calling operator. Raises ProblemError 401 for anybody else."""
    wired = wiring()
    operator = authenticate_operator(api.event, wired.database)
    logger.append_keys(actor=operator.operator_id, trace_id=api.trace_id)
    return wired, operator


handler = invocation(logger, meter)(api.answer)
