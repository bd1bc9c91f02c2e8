"""The operators' API: tickets, the reaper, the emergency stop, the ops cycle's receipts (TIX-5, TIX-6)."""

from dpp.platform.observability import cold_start

# First, so that no import after it is held up.
# isort: split

from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.http.api import Api
from dpp.platform.http.auth import authenticate_operator
from dpp.platform.http.request import read_body, read_query
from dpp.platform.ids import parse_uuid
from dpp.platform.keys.operator_keys import Operator
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import TICKETS_FILED
from dpp.tickets import counters, cycle, read, reports, stop
from dpp.tickets.contract import EmergencyStopRequest, TicketQuery
from dpp.tickets.file import file
from dpp.tickets.http import (
    PROBLEMS,
    counters_view,
    error_headers,
    page_view,
    read_reap_request,
    read_ticket,
    stop_view,
    ticket_view,
    whole_view,
)
from dpp.tickets.reap import reap
from dpp.tickets.staleness import snapshot_name
from tickets_api.wiring import Wiring, wiring

cold_start.imported()
logger = service_logger("tickets")
meter = Meter()
api = Api(PROBLEMS, error_headers, meter)


@api.route("POST", "/api/tickets")
def file_ticket() -> Response[str]:
    """File a ticket; 201, and 200 for one that was filed before."""
    parts, operator = _asked()
    filed = file(read_ticket(api.event, operator), parts.database)
    if filed.created:
        meter.add(TICKETS_FILED)
    location = {"Location": f"tickets/{filed.ticket.request_id}"}
    return api.json(201 if filed.created else 200, ticket_view(filed.ticket, parts.reaping.zone), location)


@api.route("GET", "/api/tickets")
def list_tickets() -> Response[str]:
    """Tickets, the newest first."""
    parts, _ = _asked()
    query = read_query(api.event, TicketQuery)
    with parts.database.connection() as connection:
        page = read.page(
            connection,
            below=int(query.cursor) if query.cursor else None,
            limit=query.limit,
            status=query.status,
            request_type=query.request_type,
        )
    return api.json(200, page_view(page, parts.reaping.zone), {})


@api.route("GET", "/api/tickets/counters")
def count_tickets() -> Response[str]:
    """The ops counters (TIX-7)."""
    parts, _ = _asked()
    with parts.database.connection() as connection:
        found = counters.count(connection, parts.rules)
    return api.json(200, counters_view(found, parts.reaping.zone), {})


@api.route("GET", "/api/tickets/reaper/latest")
def latest_report() -> Response[str]:
    """The reaper's newest report."""
    parts, _ = _asked()
    with parts.database.connection() as connection:
        kept = reports.latest(connection)
    return api.json(200, kept.report, {"Content-Location": _snapshot(kept.snapshot_key)})


@api.route("GET", "/api/tickets/reaper/snapshots/<name>")
def report_of_snapshot(name: str) -> Response[str]:
    """An earlier report, by the name of its snapshot."""
    parts, _ = _asked()
    with parts.database.connection() as connection:
        kept = reports.of_snapshot(connection, name)
    return api.json(200, kept.report, {})


@api.route("POST", "/api/tickets/reaper/run")
def run_reaper() -> Response[str]:
    """Run the reaper, and answer its report."""
    parts, operator = _asked()
    reaped = reap(read_reap_request(api.event, operator, parts.rules), parts.reaping)
    headers = {"X-DPP-Reaper-Breaker": "TRIPPED" if reaped.breaker_tripped else "CLOSED"}
    if reaped.snapshot_key is not None:
        headers["Location"] = _snapshot(reaped.snapshot_key)
    return api.json(200, reaped.report, headers)


@api.route("GET", "/api/tickets/<request_id>")
def read_one(request_id: str) -> Response[str]:
    """A ticket with its result and its history."""
    parts, _ = _asked()
    with parts.database.connection() as connection:
        whole = read.read(connection, parse_uuid(request_id))
    return api.json(200, whole_view(whole, parts.reaping.zone), {})


@api.route("GET", "/api/ops/emergency-stop")
def read_stop() -> Response[str]:
    """Whether the emergency stop is set."""
    parts, _ = _asked()
    with parts.database.connection() as connection:
        found = stop.read(connection)
    return api.json(200, stop_view(found, parts.reaping.zone), {})


@api.route("PUT", "/api/ops/emergency-stop")
def decide_stop() -> Response[str]:
    """Set the emergency stop, or clear it."""
    parts, operator = _asked()
    wanted = read_body(api.event, EmergencyStopRequest)
    with parts.database.connection() as connection:
        found = stop.decide(
            connection, stopped=wanted.stopped, actor=operator.operator_id, reason=wanted.reason
        )
    logger.warning("emergency stop", extra={"stopped": found.stopped, "actor": found.actor})
    return api.json(200, stop_view(found, parts.reaping.zone), {})


@api.route("GET", "/api/ops/cycle/latest")
def latest_receipt() -> Response[str]:
    """The receipt of the newest ops cycle (TIX-6)."""
    parts, _ = _asked()
    with parts.database.connection() as connection:
        (receipt,) = cycle.latest(connection)
    return api.json(200, receipt, {})


def _asked() -> tuple[Wiring, Operator]:
    """The parts, and the operator who asks; everybody else is refused."""
    parts = wiring()
    operator = authenticate_operator(api.event, parts.database)
    logger.append_keys(actor=operator.operator_id, trace_id=api.trace_id)
    return parts, operator


def _snapshot(key: str) -> str:
    """A snapshot's place, relative to that of the reaper's other routes: the gateway's stage is no business of ours."""
    return f"snapshots/{snapshot_name(key)}"


@invocation(logger, meter)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one API Gateway event."""
    return api.answer(event, context)
