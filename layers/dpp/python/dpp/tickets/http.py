"""Tickets over HTTP: problems, request parsing and response bodies (TIX-5)."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from dpp.platform.http.problem import NOT_FOUND, ProblemKind
from dpp.platform.http.request import read_body, read_optional_body, validation_failed
from dpp.platform.keys.operator_keys import Operator
from dpp.tickets import contract, errors
from dpp.tickets.counters import OpsCounters
from dpp.tickets.model import Ticket
from dpp.tickets.read import TicketPage, WholeTicket
from dpp.tickets.reap import ReapRequest
from dpp.tickets.requests import read_params
from dpp.tickets.staleness import ReaperRules
from dpp.tickets.stop import EmergencyStop
from dpp.tickets.store import NewTicket

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent

_NOT_FOUND = NOT_FOUND.title
PROBLEMS: Mapping[type[Exception], ProblemKind] = {
    errors.TicketNotFound: ProblemKind(404, "TICKET_NOT_FOUND", _NOT_FOUND),
    errors.NoReportYet: ProblemKind(404, "NO_REPORT_YET", _NOT_FOUND),
    errors.SnapshotNotFound: ProblemKind(404, "SNAPSHOT_NOT_FOUND", _NOT_FOUND),
    errors.NoReceiptYet: ProblemKind(404, "NO_RECEIPT_YET", _NOT_FOUND),
    errors.TicketConflict: ProblemKind(409, "TICKET_CONFLICT", "The request_id belongs to a different request"),
    errors.ReaperRunning: ProblemKind(409, "REAPER_RUNNING", "The reaper is already running"),
    errors.ReaperOvertaken: ProblemKind(503, "REAPER_OVERTAKEN", "The run took too long"),
    errors.EmergencyStopSet: ProblemKind(409, "EMERGENCY_STOP_SET", "The emergency stop is set"),
}
_RETRY_AFTER_SECONDS: Mapping[type[Exception], int] = {errors.ReaperRunning: 10, errors.ReaperOvertaken: 10}


def error_headers(error: Exception | None) -> dict[str, str]:
    """Retry-After for errors that a retry can resolve."""
    seconds = _RETRY_AFTER_SECONDS.get(type(error)) if error else None
    return {} if seconds is None else {"Retry-After": str(seconds)}


def read_ticket(event: "APIGatewayProxyEvent", operator: Operator) -> NewTicket:
    """Parse the ticket of a request. Raises ProblemError."""
    body = read_body(event, contract.TicketCreateRequest)
    try:
        params = read_params(body.request_type, body.params)
    except ValidationError as error:
        raise validation_failed(error, ("params",)) from None
    return NewTicket(
        request_id=body.request_id,
        request_type=body.request_type,
        params=params,
        reason=body.reason,
        requested_by=operator.operator_id,
    )


def read_reap_request(event: "APIGatewayProxyEvent", operator: Operator, rules: ReaperRules) -> ReapRequest:
    """Parse a request to run the reaper; `rules` apply where the body has no value. Raises ProblemError."""
    body = read_optional_body(event, contract.ReaperRunRequest)
    chosen = rules.with_overrides(body.threshold_seconds, body.max_clean)
    return ReapRequest(operator.operator_id, chosen, body.confirm_stale_count, body.dry_run)


def ticket_view(ticket: Ticket, zone: ZoneInfo) -> contract.TicketView:
    """A ticket, with times in the deployment's time zone."""
    return contract.TicketView(**_ticket_fields(ticket, zone))


def whole_view(whole: WholeTicket, zone: ZoneInfo) -> contract.WholeTicketView:
    """A ticket with its result and its history."""
    result = whole.result
    return contract.WholeTicketView(
        **_ticket_fields(whole.ticket, zone),
        result=contract.ResultView(**_local(asdict(result), zone)) if result else None,
        transitions=tuple(contract.TransitionView(**_local(asdict(one), zone)) for one in whole.transitions),
    )


def page_view(page: TicketPage, zone: ZoneInfo) -> contract.TicketPageView:
    tickets = tuple(ticket_view(ticket, zone) for ticket in page.tickets)
    return contract.TicketPageView(tickets=tickets, next_cursor=None if page.below is None else str(page.below))


def counters_view(found: OpsCounters, zone: ZoneInfo) -> contract.OpsCountersView:
    return contract.OpsCountersView(
        asof=found.asof.astimezone(zone).replace(microsecond=0),
        threshold_seconds=found.threshold_seconds,
        total=contract.CountersView.model_validate(_local(asdict(found.total), zone)),
        by_type={
            kind: contract.CountersView.model_validate(_local(asdict(counters), zone))
            for kind, counters in found.by_type.items()
        },
    )


def stop_view(found: EmergencyStop, zone: ZoneInfo) -> contract.EmergencyStopView:
    return contract.EmergencyStopView(**_local(asdict(found), zone))


def _ticket_fields(ticket: Ticket, zone: ZoneInfo) -> dict[str, object]:
    fields = _local(asdict(ticket), zone)
    del fields["sequence"]
    return fields


def _local(values: Mapping[str, object], zone: ZoneInfo) -> dict[str, object]:
    """`values`, with every time in the deployment's time zone (TIX-7)."""
    return {name: _in_zone(value, zone) for name, value in values.items()}


def _in_zone(value: object, zone: ZoneInfo) -> object:
    if isinstance(value, datetime):
        return value.astimezone(zone)
    return _local(value, zone) if isinstance(value, dict) else value
