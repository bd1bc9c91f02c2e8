"""Operations for tenants: runs and health checks.

Schemas come from dpp/runs/api/contract.py and dpp/packs/inputs, problems from the table of each context.
"""

from dpp.packs.registry import INPUT_MODELS
from dpp.platform.http import problem
from dpp.runs.api.contract import RunCreateRequest, RunReceipt, RunView
from dpp.runs.api.problems import PROBLEMS
from dpp.runs.errors import RunsError
from dpp_cli.docs.openapi.examples import RUNS
from dpp_cli.docs.openapi.parts import (
    COST_HEADERS,
    OF_ANY_BODY,
    OF_ANY_CALL,
    RATE_HEADERS,
    REF,
    Family,
    Json,
    by_path,
    idempotency_key,
    maybe,
    operation,
    sent,
    texts_of,
)
from dpp_cli.docs.openapi.schemas import merged, of_answers, of_models, one_of

_FAMILY = Family(
    always=(*COST_HEADERS, "X-Trace-Id"),
    texts=texts_of({error: kind for error, kind in PROBLEMS.items() if issubclass(error, RunsError)}),
    in_path={"run_id": RUNS["run_id"]},
    security="apiKey",
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
_KEY = idempotency_key(RUNS["key"], "For 30 days, the same key with the same payload returns the first receipt.")
_ACCEPTED = _FAMILY.answer(
    "Accepted, now or earlier with this key.", RunReceipt, RUNS["receipt"], (*RATE_HEADERS, "Idempotent-Replayed")
)
_READY = dict.fromkeys(("postgres", "redis", "s3", "sqs"), "ok")
_LOST = {"status": "unavailable", "checks": _READY | {"redis": "unavailable"}}


def _probe(name: str, summary: str, description: str, answers: Json) -> Json:
    """Describe a health check, which needs no key and has no body."""
    found = answers | _FAMILY.problems(OF_ANY_CALL, f"/{name}")
    return {f"/{name}": {"get": operation(name, summary, description, parameters=(), responses=found, security=None)}}


PATHS = by_path(
    _FAMILY.operation(
        "POST /v1/runs",
        "submitRun",
        "Submit a run",
        "Reserves `max_cost_usd`, queues the run and returns where to poll it.",
        {"202": _ACCEPTED},
        _OF_RUNS["BUDGET_DRAINED"],
        _OF_RUNS["IDEMPOTENCY_CONFLICT"],
        _OF_RUNS["IDEMPOTENCY_IN_PROGRESS"],
        *OF_ANY_BODY,
        _OF_RUNS["PACK_NOT_AVAILABLE"],
        _OF_RUNS["RATE_LIMITED"],
        _OF_RUNS["QUEUE_ENQUEUE_FAILED"],
        _OF_RUNS["EXECUTION_DISABLED"],
        parameters=[_KEY],
        body=sent("RunCreateRequest", RUNS["requests"]),
    ),
    _FAMILY.operation(
        "GET /v1/runs/{run_id}",
        "readRun",
        "Poll a run",
        "Unknown, foreign and malformed ids get the same 404.",
        {"200": _FAMILY.answer("The run as it stands.", RunView, RUNS["view"], RATE_HEADERS)},
        problem.NOT_FOUND,
        _OF_RUNS["RUN_EXPIRED"],
        _OF_RUNS["RATE_LIMITED"],
    ),
    _probe(
        "healthz",
        "Whether the API runs",
        "Checks no dependency.",
        {"200": _FAMILY.answer("It runs.", "Health", {"status": "ok"})},
    ),
    _probe(
        "readyz",
        "Check the API's dependencies",
        "Checks Postgres, Redis, S3 and SQS, and names those that do not answer.",
        {
            "200": _FAMILY.answer("All of it answers.", "Readiness", {"status": "ok", "checks": _READY}),
            "503": _FAMILY.answer("A dependency does not answer.", "Readiness", _LOST),
        },
    ),
)


def schemas() -> Json:
    """Return the schemas of requests and responses."""
    taken = of_models([RunCreateRequest, *INPUT_MODELS.values()], "validation")
    general = taken.pop("RunCreateRequest")
    probes: Json = {"Health": _HEALTH, "Readiness": _READINESS}
    return merged(of_answers(_FAMILY.answers), taken, _one_request_a_pack(general), probes)


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
