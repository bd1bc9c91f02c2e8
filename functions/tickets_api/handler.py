"""The operators' API: tickets, the reaper, the emergency stop, the ops cycle's receipts (TIX-5, TIX-6)."""

from dpp.platform.observability import cold_start

# First, so that the garbage collector is off during the imports below.
# isort: split

from dataclasses import dataclass
from functools import cache

from aws_lambda_powertools.event_handler import Response

from dpp.platform.aws.storage import ObjectStore
from dpp.platform.config import PostgresSettings
from dpp.platform.db.postgres import Database
from dpp.platform.http.api import Api
from dpp.platform.http.auth import authenticate_operator
from dpp.platform.http.request import read_body, read_query
from dpp.platform.ids import parse_uuid
from dpp.platform.keys.operator_keys import Operator
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import TICKETS_FILED
from dpp.tickets import counters, cycle, http, read, reports, stop
from dpp.tickets.config import ReaperSettings, ReportsSettings
from dpp.tickets.contract import EmergencyStopRequest, TicketQuery
from dpp.tickets.file import file
from dpp.tickets.reap import ReapEffects, reap
from dpp.tickets.staleness import ReaperRules, snapshot_name

cold_start.imported()
logger = service_logger("tickets")
meter = Meter()
api = Api(http.PROBLEMS, http.error_headers, meter)


class TicketsApiSettings(PostgresSettings, ReportsSettings, ReaperSettings):
    """Rows, the reports bucket and the reaper's rules."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The database with operators and tickets, the reaper's connections, and its rules."""

    database: Database
    reaping: ReapEffects
    rules: ReaperRules


@cache
def wiring() -> Wiring:
    """Read the environment and build; connections open at their first use."""
    settings = TicketsApiSettings.load()
    database = Database(settings.database)
    reaping = ReapEffects(database, ObjectStore(settings.reports_bucket), settings.zone)
    return Wiring(database, reaping, settings.rules)


@api.route("POST", "/api/tickets")
def file_ticket() -> Response[str]:
    """File a ticket. 201; 200 for a repeated request."""
    wired, operator = _authenticated()
    filed = file(http.read_ticket(api.event, operator), wired.database)
    if filed.created:
        meter.add(TICKETS_FILED)
    location = {"Location": f"tickets/{filed.ticket.request_id}"}
    return api.json(201 if filed.created else 200, http.ticket_view(filed.ticket, wired.reaping.zone), location)


@api.route("GET", "/api/tickets")
def list_tickets() -> Response[str]:
    """Tickets, the newest first."""
    wired, _ = _authenticated()
    query = read_query(api.event, TicketQuery)
    page = wired.database.using(
        read.page,
        below=int(query.cursor) if query.cursor else None,
        limit=query.limit,
        status=query.status,
        request_type=query.request_type,
    )
    return api.json(200, http.page_view(page, wired.reaping.zone), {})


@api.route("GET", "/api/tickets/counters")
def count_tickets() -> Response[str]:
    """The ops counters (TIX-7)."""
    wired, _ = _authenticated()
    found = wired.database.using(counters.count, wired.rules)
    return api.json(200, http.counters_view(found, wired.reaping.zone), {})


@api.route("GET", "/api/tickets/reaper/latest")
def latest_report() -> Response[str]:
    """The reaper's newest report."""
    wired, _ = _authenticated()
    kept = wired.database.using(reports.latest)
    return api.json(200, kept.report, {"Content-Location": _snapshot(kept.snapshot_key)})


@api.route("GET", "/api/tickets/reaper/snapshots/<name>")
def report_of_snapshot(name: str) -> Response[str]:
    """An earlier report, by the name of its snapshot."""
    wired, _ = _authenticated()
    return api.json(200, wired.database.using(reports.of_snapshot, name).report, {})


@api.route("POST", "/api/tickets/reaper/run")
def run_reaper() -> Response[str]:
    """Run the reaper and return its report."""
    wired, operator = _authenticated()
    reaped = reap(http.read_reap_request(api.event, operator, wired.rules), wired.reaping)
    headers = {"X-DPP-Reaper-Breaker": "TRIPPED" if reaped.breaker_tripped else "CLOSED"}
    if reaped.snapshot_key is not None:
        headers["Location"] = _snapshot(reaped.snapshot_key)
    return api.json(200, reaped.report, headers)


@api.route("GET", "/api/tickets/<request_id>")
def read_one(request_id: str) -> Response[str]:
    """A ticket with its result and its history."""
    wired, _ = _authenticated()
    whole = wired.database.using(read.read, parse_uuid(request_id))
    return api.json(200, http.whole_view(whole, wired.reaping.zone), {})


@api.route("GET", "/api/ops/emergency-stop")
def read_stop() -> Response[str]:
    """Read the emergency stop."""
    wired, _ = _authenticated()
    return api.json(200, http.stop_view(wired.database.using(stop.read), wired.reaping.zone), {})


@api.route("PUT", "/api/ops/emergency-stop")
def decide_stop() -> Response[str]:
    """Set or clear the emergency stop."""
    wired, operator = _authenticated()
    decision = read_body(api.event, EmergencyStopRequest)
    found = wired.database.using(
        stop.decide, stopped=decision.stopped, actor=operator.operator_id, reason=decision.reason
    )
    logger.warning("emergency stop", extra={"stopped": found.stopped, "actor": found.actor})
    return api.json(200, http.stop_view(found, wired.reaping.zone), {})


@api.route("GET", "/api/ops/cycle/latest")
def latest_receipt() -> Response[str]:
    """The receipt of the newest ops cycle (TIX-6)."""
    wired, _ = _authenticated()
    (receipt,) = wired.database.using(cycle.latest)
    return api.json(200, receipt, {})


def _authenticated() -> tuple[Wiring, Operator]:
    """The wiring and the calling operator. Raises ProblemError 401 for anybody else."""
    wired = wiring()
    operator = authenticate_operator(api.event, wired.database)
    logger.append_keys(actor=operator.operator_id, trace_id=api.trace_id)
    return wired, operator


def _snapshot(key: str) -> str:
    """A snapshot's URL relative to the reaper's other routes, so that it does not depend on the gateway's stage."""
    return f"snapshots/{snapshot_name(key)}"


handler = invocation(logger, meter)(api.answer)
