"""Operations for operators: tickets, the reaper, the emergency stop, the ops cycle.

Schemas come from dpp/tickets, problems from the context's table.
"""

from datetime import datetime

from pydantic import BaseModel

from dpp.platform.http import problem
from dpp.runs.api.contract import ReservationRequest
from dpp.tickets.contract import (
    EmergencyStopRequest,
    EmergencyStopView,
    OpsCountersView,
    ReaperRunRequest,
    TicketCreateRequest,
    TicketPageView,
    TicketQuery,
    TicketView,
    WholeTicketView,
)
from dpp.tickets.errors import EmergencyStopSet, ReaperRunning
from dpp.tickets.http import PROBLEMS
from dpp.tickets.receipt import OpsRunReceipt
from dpp.tickets.report import ReaperReport
from dpp.tickets.requests import PARAMS, Params
from dpp_cli.docs.openapi import ticket_examples as examples
from dpp_cli.docs.openapi.parts import OF_ANY_BODY, REF, Family, Json, in_path, sent
from dpp_cli.docs.openapi.schemas import merged, of_answers, of_models, one_of, query_parameters

_OF_TICKETS = {kind.reason_code: kind for kind in PROBLEMS.values()}
_RUNNING, _STOPPED = _OF_TICKETS["REAPER_RUNNING"], _OF_TICKETS["EMERGENCY_STOP_SET"]
_SINCE = "2026-01-23T21:00:00+09:00"
_FAMILY = Family(
    always=("X-Trace-Id",),
    texts={kind: (error.__doc__ or "").partition("\n")[0] for error, kind in PROBLEMS.items()}
    | {
        _RUNNING: str(ReaperRunning(datetime.fromisoformat(_SINCE), "OPS_CYCLE")),
        _STOPPED: str(EmergencyStopSet("kim", "credits go to the wrong tenant")),
    },
    of_status={409: ("Retry-After",)},
    members={_RUNNING: {"started_at": _SINCE, "actor": "OPS_CYCLE"}, _STOPPED: {"actor": "kim"}},
)


def paths() -> Json:
    """The operations."""
    return {
        "/api/tickets": {"post": _file(), "get": _list()},
        "/api/tickets/counters": {"get": _counters()},
        "/api/tickets/{request_id}": {"get": _read()},
        "/api/tickets/reaper/latest": {"get": _latest_report()},
        "/api/tickets/reaper/snapshots/{name}": {"get": _snapshot()},
        "/api/tickets/reaper/run": {"post": _run_reaper()},
        "/api/ops/emergency-stop": {"get": _read_stop(), "put": _decide_stop()},
        "/api/ops/cycle/latest": {"get": _latest_receipt()},
    }


def schemas() -> Json:
    """Return the schemas of requests and responses."""
    answers = (
        TicketView,
        WholeTicketView,
        TicketPageView,
        OpsCountersView,
        ReaperReport,
        EmergencyStopView,
        OpsRunReceipt,
    )
    requests: list[type[BaseModel]] = [TicketCreateRequest, ReaperRunRequest, EmergencyStopRequest]
    taken = of_models([*requests, *dict.fromkeys(PARAMS.values())], "validation")
    for name in ("TicketCreateRequest", "EmergencyStopRequest"):
        taken[name]["properties"]["reason"]["pattern"] = r"\S"  # the model strips; something must be left
    amount = ReservationRequest.model_json_schema()["properties"]["max_cost_usd"]
    taken["BudgetCreditParams"]["properties"]["amount_usd"] = amount  # read by the same parser
    general = taken.pop("TicketCreateRequest")
    return merged(of_answers(answers), taken, _one_request_a_type(general))


def _file() -> Json:
    filed, known = (
        _FAMILY.answer(text, ("Location",), "TicketView", examples.TICKET)
        for text in ("Filed.", "Already filed by the same request; its current state.")
    )
    return _FAMILY.operation(
        "fileTicket",
        "File a ticket",
        "An audited request that the ops cycle carries out. A repeated `request_id` with the same type, params and"
        " reason files one ticket.",
        parameters=[],
        answers={"200": known, "201": filed},
        problems=(_OF_TICKETS["TICKET_CONFLICT"], *OF_ANY_BODY),
        path="/api/tickets",
    ) | {"requestBody": sent("TicketCreateRequest", examples.REQUESTS)}


def _list() -> Json:
    return _FAMILY.operation(
        "listTickets",
        "List tickets",
        "Newest first; `next_cursor` gets the next page.",
        parameters=query_parameters(TicketQuery),
        answers={"200": _FAMILY.answer("A page of matching tickets.", (), "TicketPageView", examples.PAGE)},
        problems=(problem.VALIDATION_FAILED,),
        path="/api/tickets",
    )


def _counters() -> Json:
    found = _FAMILY.answer("All tickets, counted.", (), "OpsCountersView", examples.COUNTERS)
    return _FAMILY.operation(
        "countTickets",
        "Count tickets",
        "By type and state. Stale tickets are not counted as in progress.",
        parameters=[],
        answers={"200": found},
        problems=(),
        path="/api/tickets/counters",
    )


def _read() -> Json:
    found = _FAMILY.answer("The ticket.", (), "WholeTicketView", examples.WHOLE_TICKET)
    return _FAMILY.operation(
        "readTicket",
        "Read a ticket",
        "With its result, if it has one, and its transitions.",
        parameters=[in_path("request_id", examples.REQUEST_ID, {"type": "string", "format": "uuid"})],
        answers={"200": found},
        problems=(_OF_TICKETS["TICKET_NOT_FOUND"], problem.NOT_FOUND),
        path=f"/api/tickets/{examples.REQUEST_ID}",
    )


def _latest_report() -> Json:
    found = _FAMILY.answer("The newest report.", ("Content-Location",), "ReaperReport", examples.REPORT)
    return _FAMILY.operation(
        "latestReaperReport",
        "Read the reaper's newest report",
        "Read from its row; the object in S3 is a copy.",
        parameters=[],
        answers={"200": found},
        problems=(_OF_TICKETS["NO_REPORT_YET"],),
        path="/api/tickets/reaper/latest",
    )


def _snapshot() -> Json:
    return _FAMILY.operation(
        "reaperReport",
        "Read an earlier report",
        "By its snapshot's name, the last part of its `evidence_refs`.",
        parameters=[in_path("name", examples.SNAPSHOT, {"type": "string"})],
        answers={"200": _FAMILY.answer("The report.", (), "ReaperReport", examples.REPORT)},
        problems=(_OF_TICKETS["SNAPSHOT_NOT_FOUND"], problem.NOT_FOUND),
        path=f"/api/tickets/reaper/snapshots/{examples.SNAPSHOT}",
    )


def _run_reaper() -> Json:
    ran = _FAMILY.answer("What it found and did.", ("X-DPP-Reaper-Breaker",), "ReaperReport", examples.REPORT)
    ran["headers"]["Location"] = {"$ref": "#/components/headers/SnapshotLocation"}
    return _FAMILY.operation(
        "runReaper",
        "Run the reaper",
        "Ends as FAILED the tickets not processed for longer than the threshold, oldest first. If too many"
        " are stale, the breaker trips and none is ended; find the cause and confirm with `confirm_stale_count`.",
        parameters=[],
        answers={"200": ran},
        problems=(_RUNNING, _STOPPED, _OF_TICKETS["REAPER_OVERTAKEN"], *OF_ANY_BODY),
        path="/api/tickets/reaper/run",
    ) | {"requestBody": sent("ReaperRunRequest", examples.REAPER_RUNS, required=False)}


def _read_stop() -> Json:
    found = _FAMILY.answer("The stop's state and its last change.", (), "EmergencyStopView", examples.STOP)
    return _FAMILY.operation(
        "readEmergencyStop",
        "Read the emergency stop",
        "While it is set, the ops cycle and the reaper change nothing.",
        parameters=[],
        answers={"200": found},
        problems=(),
        path="/api/ops/emergency-stop",
    )


def _decide_stop() -> Json:
    return _FAMILY.operation(
        "decideEmergencyStop",
        "Set or clear the emergency stop",
        "After the response nothing new is started. Every call is recorded, even if it changes nothing.",
        parameters=[],
        answers={"200": _FAMILY.answer("As it stands now.", (), "EmergencyStopView", examples.STOP)},
        problems=OF_ANY_BODY,
        path="/api/ops/emergency-stop",
    ) | {"requestBody": sent("EmergencyStopRequest", examples.STOPS)}


def _latest_receipt() -> Json:
    found = _FAMILY.answer("The newest receipt.", (), "OpsRunReceipt", examples.RECEIPT)
    return _FAMILY.operation(
        "latestOpsReceipt",
        "Read the receipt of the last ops cycle",
        "Step by step; for a running cycle, the steps so far.",
        parameters=[],
        answers={"200": found},
        problems=(_OF_TICKETS["NO_RECEIPT_YET"],),
        path="/api/ops/cycle/latest",
    )


def _one_request_a_type(general: Json) -> Json:
    """Describe `TicketCreateRequest` as one schema per type, discriminated by `request_type`."""
    made: Json = {}
    names: dict[str, str] = {}
    for kind, model in PARAMS.items():
        names[kind.value] = name = f"{kind.value.title().replace('_', '')}Ticket"
        properties = general["properties"] | {
            "request_type": {"const": kind.value, "type": "string"},
            "params": {"$ref": REF + model.__name__},
        }
        needed = [*general["required"], *(("params",) if _asks(model) else ())]
        described = f"A ticket that asks for {kind.value}."
        made[name] = general | {"description": described, "properties": properties, "required": needed}
    described = "The body of a filing; `params` depend on the type."
    return made | {"TicketCreateRequest": one_of("request_type", names, described)}


def _asks(model: type[Params]) -> bool:
    """Return whether the parameters may be empty."""
    return any(member.is_required() for member in model.model_fields.values())
