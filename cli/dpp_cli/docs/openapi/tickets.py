"""Operations for operators: tickets, the reaper, the emergency stop, the ops cycle.

Schemas come from dpp/tickets, problems from the context's table.
"""

from datetime import datetime

from pydantic import BaseModel

from dpp.platform.http import problem
from dpp.runs.api.contract import ReservationRequest
from dpp.tickets import contract
from dpp.tickets.errors import EmergencyStopSet, ReaperRunning
from dpp.tickets.http import PROBLEMS
from dpp.tickets.receipt import OpsRunReceipt
from dpp.tickets.report import ReaperReport
from dpp.tickets.requests import PARAMS, Params
from dpp_cli.docs.openapi.examples import TICKETS
from dpp_cli.docs.openapi.parts import OF_ANY_BODY, REF, Family, Json, by_path, sent, texts_of
from dpp_cli.docs.openapi.schemas import merged, of_answers, of_models, one_of, query_parameters

_OF_TICKETS = {kind.reason_code: kind for kind in PROBLEMS.values()}
_RUNNING, _STOPPED = _OF_TICKETS["REAPER_RUNNING"], _OF_TICKETS["EMERGENCY_STOP_SET"]
_SINCE = "2026-01-23T21:00:00+09:00"
_FAMILY = Family(
    always=("X-Trace-Id",),
    texts=texts_of(PROBLEMS)
    | {
        _RUNNING: str(ReaperRunning(datetime.fromisoformat(_SINCE), "OPS_CYCLE")),
        _STOPPED: str(EmergencyStopSet("kim", "credits go to the wrong tenant")),
    },
    of_status={409: ("Retry-After",)},
    in_path={"request_id": TICKETS["request_id"], "name": TICKETS["snapshot"]},
    members={_RUNNING: {"started_at": _SINCE, "actor": "OPS_CYCLE"}, _STOPPED: {"actor": "kim"}},
)
_FILED, _KNOWN = (
    _FAMILY.answer(text, contract.TicketView, TICKETS["ticket"], ("Location",))
    for text in ("Filed.", "Already filed by the same request; its current state.")
)
_STOP = _FAMILY.answer("The stop's state and its last change.", contract.EmergencyStopView, TICKETS["stop"])
_NEWEST = _FAMILY.answer("The newest report.", ReaperReport, TICKETS["report"], ("Content-Location",))
_RAN = _FAMILY.answer("What it found and did.", ReaperReport, TICKETS["report"], ("X-DPP-Reaper-Breaker",))
_RAN["headers"]["Location"] = {"$ref": "#/components/headers/SnapshotLocation"}
PATHS = by_path(
    _FAMILY.operation(
        "POST /api/tickets",
        "fileTicket",
        "File a ticket",
        "An audited request that the ops cycle carries out. A repeated `request_id` with the same type, params and"
        " reason files one ticket.",
        {"200": _KNOWN, "201": _FILED},
        _OF_TICKETS["TICKET_CONFLICT"],
        *OF_ANY_BODY,
        body=sent("TicketCreateRequest", TICKETS["requests"]),
    ),
    _FAMILY.operation(
        "GET /api/tickets",
        "listTickets",
        "List tickets",
        "Newest first; `next_cursor` gets the next page.",
        {"200": _FAMILY.answer("A page of matching tickets.", contract.TicketPageView, TICKETS["page"])},
        problem.VALIDATION_FAILED,
        parameters=query_parameters(contract.TicketQuery),
    ),
    _FAMILY.operation(
        "GET /api/tickets/counters",
        "countTickets",
        "Count tickets",
        "By type and state. Stale tickets are not counted as in progress.",
        {"200": _FAMILY.answer("All tickets, counted.", contract.OpsCountersView, TICKETS["counters"])},
    ),
    _FAMILY.operation(
        "GET /api/tickets/{request_id}",
        "readTicket",
        "Read a ticket",
        "With its result, if it has one, and its transitions.",
        {"200": _FAMILY.answer("The ticket.", contract.WholeTicketView, TICKETS["whole_ticket"])},
        _OF_TICKETS["TICKET_NOT_FOUND"],
        problem.NOT_FOUND,
    ),
    _FAMILY.operation(
        "GET /api/tickets/reaper/latest",
        "latestReaperReport",
        "Read the reaper's newest report",
        "Read from its row; the object in S3 is a copy.",
        {"200": _NEWEST},
        _OF_TICKETS["NO_REPORT_YET"],
    ),
    _FAMILY.operation(
        "GET /api/tickets/reaper/snapshots/{name}",
        "reaperReport",
        "Read an earlier report",
        "By its snapshot's name, the last part of its `evidence_refs`.",
        {"200": _FAMILY.answer("The report.", ReaperReport, TICKETS["report"])},
        _OF_TICKETS["SNAPSHOT_NOT_FOUND"],
        problem.NOT_FOUND,
    ),
    _FAMILY.operation(
        "POST /api/tickets/reaper/run",
        "runReaper",
        "Run the reaper",
        "Ends as FAILED the tickets not processed for longer than the threshold, oldest first. If too many"
        " are stale, the breaker trips and none is ended; find the cause and confirm with `confirm_stale_count`.",
        {"200": _RAN},
        _RUNNING,
        _STOPPED,
        _OF_TICKETS["REAPER_OVERTAKEN"],
        *OF_ANY_BODY,
        body=sent("ReaperRunRequest", TICKETS["reaper_runs"], required=False),
    ),
    _FAMILY.operation(
        "GET /api/ops/emergency-stop",
        "readEmergencyStop",
        "Read the emergency stop",
        "While it is set, the ops cycle and the reaper change nothing.",
        {"200": _STOP},
    ),
    _FAMILY.operation(
        "PUT /api/ops/emergency-stop",
        "decideEmergencyStop",
        "Set or clear the emergency stop",
        "After the response nothing new is started. Every call is recorded, even if it changes nothing.",
        {"200": _FAMILY.answer("As it stands now.", contract.EmergencyStopView, TICKETS["stop"])},
        *OF_ANY_BODY,
        body=sent("EmergencyStopRequest", TICKETS["stops"]),
    ),
    _FAMILY.operation(
        "GET /api/ops/cycle/latest",
        "latestOpsReceipt",
        "Read the receipt of the last ops cycle",
        "Step by step; for a running cycle, the steps so far.",
        {"200": _FAMILY.answer("The newest receipt.", OpsRunReceipt, TICKETS["receipt"])},
        _OF_TICKETS["NO_RECEIPT_YET"],
    ),
)


def schemas() -> Json:
    """Return the schemas of requests and responses."""
    requests: list[type[BaseModel]] = [
        contract.TicketCreateRequest,
        contract.ReaperRunRequest,
        contract.EmergencyStopRequest,
    ]
    taken = of_models([*requests, *dict.fromkeys(PARAMS.values())], "validation")
    for name in ("TicketCreateRequest", "EmergencyStopRequest"):
        taken[name]["properties"]["reason"]["pattern"] = r"\S"  # the model strips; something must be left
    amount = ReservationRequest.model_json_schema()["properties"]["max_cost_usd"]
    taken["BudgetCreditParams"]["properties"]["amount_usd"] = amount  # read by the same parser
    general = taken.pop("TicketCreateRequest")
    return merged(of_answers(_FAMILY.answers), taken, _one_request_a_type(general))


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
