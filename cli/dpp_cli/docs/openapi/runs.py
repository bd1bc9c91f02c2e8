"""Operations for tenants: runs and health checks.

Schemas come from dpp/runs/api/contract.py and dpp/packs/registry.py, problems from the table of each context.
"""

from dpp.packs.registry import INPUT_MODELS
from dpp.platform.http import problem
from dpp.runs.api.contract import RunCreateRequest, RunReceipt, RunView
from dpp.runs.api.problems import PROBLEMS
from dpp.runs.errors import RunsError
from dpp_cli.docs.openapi import run_examples
from dpp_cli.docs.openapi.parts import (
    COST_HEADERS,
    OF_ANY_BODY,
    OF_ANY_CALL,
    RATE_HEADERS,
    REF,
    Family,
    Json,
    idempotency_key,
    in_path,
    maybe,
    sent,
    trace_id,
)
from dpp_cli.docs.openapi.schemas import merged, of_answers, of_models, one_of

_FAMILY = Family(
    always=(*COST_HEADERS, "X-Trace-Id"),
    texts={
        kind: (error.__doc__ or "").partition("\n")[0]
        for error, kind in PROBLEMS.items()
        if issubclass(error, RunsError)
    },
    # Problems after the rate limit was applied have its headers.
    of_status={
        402: RATE_HEADERS,
        404: maybe(RATE_HEADERS),
        409: ("Retry-After", *RATE_HEADERS),
        410: RATE_HEADERS,
        503: maybe(RATE_HEADERS),
    },
)
_OF_RUNS = {kind.reason_code: kind for kind in PROBLEMS.values()}
_SUBMIT_PROBLEMS = (
    problem.MALFORMED_REQUEST,
    problem.AUTH_INVALID,
    _OF_RUNS["BUDGET_DRAINED"],
    _OF_RUNS["IDEMPOTENCY_CONFLICT"],
    _OF_RUNS["IDEMPOTENCY_IN_PROGRESS"],
    *OF_ANY_BODY,
    _OF_RUNS["PACK_NOT_AVAILABLE"],
    _OF_RUNS["RATE_LIMITED"],
    problem.DEPENDENCY_UNAVAILABLE,
    _OF_RUNS["QUEUE_ENQUEUE_FAILED"],
    _OF_RUNS["EXECUTION_DISABLED"],
    *OF_ANY_CALL,
)
_READ_PROBLEMS = (
    problem.MALFORMED_REQUEST,
    problem.AUTH_INVALID,
    problem.NOT_FOUND,
    _OF_RUNS["RUN_EXPIRED"],
    _OF_RUNS["RATE_LIMITED"],
    problem.DEPENDENCY_UNAVAILABLE,
    *OF_ANY_CALL,
)


def paths() -> Json:
    """The operations."""
    return {
        "/v1/runs": {"post": _submit()},
        "/v1/runs/{run_id}": {"get": _read()},
        "/healthz": {"get": _healthz()},
        "/readyz": {"get": _readyz()},
    }


def schemas() -> Json:
    """Return the schemas of requests and responses."""
    taken = of_models([RunCreateRequest, *INPUT_MODELS.values()], "validation")
    general = taken.pop("RunCreateRequest")
    probes: Json = {"Health": _HEALTH, "Readiness": _READINESS}
    return merged(of_answers([RunReceipt, RunView]), taken, _one_request_a_pack(general), probes)


def _submit() -> Json:
    key = idempotency_key(
        run_examples.KEY, "For 30 days, the same key with the same payload returns the first receipt."
    )
    headers = (*RATE_HEADERS, "Idempotent-Replayed")
    accepted = _FAMILY.answer("Accepted, now or earlier with this key.", headers, "RunReceipt", run_examples.RECEIPT)
    return {
        "operationId": "submitRun",
        "summary": "Submit a run",
        "description": "Reserves `max_cost_usd`, queues the run and returns where to poll it.",
        "parameters": [key, trace_id()],
        "requestBody": sent("RunCreateRequest", run_examples.REQUESTS),
        "responses": {"202": accepted, **_FAMILY.problems(_SUBMIT_PROBLEMS, "/v1/runs")},
    }


def _read() -> Json:
    run_id = in_path("run_id", run_examples.RUN_ID, {"type": "string", "format": "uuid"})
    found = _FAMILY.answer("The run as it stands.", RATE_HEADERS, "RunView", run_examples.VIEW)
    return {
        "operationId": "readRun",
        "summary": "Poll a run",
        "description": "Unknown, foreign and malformed ids get the same 404.",
        "parameters": [run_id, trace_id()],
        "responses": {"200": found, **_FAMILY.problems(_READ_PROBLEMS, f"/v1/runs/{run_examples.RUN_ID}")},
    }


def _healthz() -> Json:
    return {
        "operationId": "healthz",
        "summary": "Whether the API runs",
        "description": "Checks no dependency.",
        "security": [],
        "parameters": [trace_id()],
        "responses": {
            "200": _FAMILY.answer("It runs.", (), "Health", {"status": "ok"}),
            **_FAMILY.problems(OF_ANY_CALL, "/healthz"),
        },
    }


def _readyz() -> Json:
    ready = dict.fromkeys(("postgres", "redis", "s3", "sqs"), "ok")
    lost = {"status": "unavailable", "checks": ready | {"redis": "unavailable"}}
    return {
        "operationId": "readyz",
        "summary": "Check the API's dependencies",
        "description": "Checks Postgres, Redis, S3 and SQS, and names those that do not answer.",
        "security": [],
        "parameters": [trace_id()],
        "responses": {
            "200": _FAMILY.answer("All of it answers.", (), "Readiness", {"status": "ok", "checks": ready}),
            "503": _FAMILY.answer("A dependency does not answer.", (), "Readiness", lost),
            **_FAMILY.problems(OF_ANY_CALL, "/readyz"),
        },
    }


def _one_request_a_pack(general: Json) -> Json:
    """Describe `RunCreateRequest` as one schema per pack, discriminated by `pack_type`."""
    made: Json = {}
    names: dict[str, str] = {}
    for pack, model in INPUT_MODELS.items():
        names[pack.value] = name = f"{pack.value.title()}RunCreateRequest"
        properties = general["properties"] | {
            "pack_type": {"const": pack.value, "type": "string"},
            "inputs": {"$ref": REF + model.__name__},
        }
        made[name] = general | {"properties": properties, "title": name}
    described = "The body of a submit; `inputs` depend on the pack."
    return made | {"RunCreateRequest": one_of("pack_type", names, described)}


_CHECK: Json = {"type": "string", "enum": ["ok", "unavailable"]}
_HEALTH: Json = {"type": "object", "required": ["status"], "properties": {"status": {"const": "ok"}}}
_READINESS: Json = {
    "type": "object",
    "required": ["status", "checks"],
    "properties": {"status": _CHECK, "checks": {"type": "object", "additionalProperties": _CHECK}},
}
