"""Runs as tools of a model (RUN-33, 001 §22): a call becomes the body of POST /v1/runs, and its result is a receipt.

The body is validated as for POST; errors name the tool's arguments.

Two calls are one run if they have the same `idempotency_key`, as with POST; without a key, if they buy the same: one
tenant, the same tool and arguments, while the first run is kept (30 days). The id of a JSON-RPC request does not count.
A client that lost a reply calls again with another id, because the protocol forbids to reuse one, and would pay twice;
and each session counts its ids from 1, so different calls would be taken for one (docs/mcp.md).
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from functools import cache
from types import MappingProxyType
from typing import Any

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from dpp.money.micros import MICROS_PER_STEP, format_usd
from dpp.packs.contract import PackType
from dpp.platform.http.problem import VALIDATION_FAILED, FieldFault, ProblemDocument, ProblemError
from dpp.platform.http.request import IDEMPOTENCY_KEY_PATTERN, pointer, validated
from dpp.platform.keys.api_keys import Caller
from dpp.runs.api.contract import RunCreateRequest, RunReceipt
from dpp.runs.api.http import receipt, request_of
from dpp.runs.api.tool_schemas import INPUT_SCHEMAS, TITLES
from dpp.runs.model import SubmitRequest
from dpp.runs.submit import Submitted

type Arguments = Mapping[str, Any]

TOOLS: Mapping[str, PackType] = MappingProxyType(
    {f"dpp_{pack}_run_submit": pack for pack in (PackType.OCR, PackType.URL, PackType.DECISION)}
)
LEAST_USD_MICROS = 10_000
"""The minimum that a tool reserves; POST accepts less."""

_RESERVATION = ("max_cost_usd", "timebox_sec", "min_reliability_score")
_MAX_DIGITS = 10  # before the point; more is above the maximum amount
_PLACES = 4
_TOO_SMALL = f"must be at least {format_usd(LEAST_USD_MICROS)}"
_MAX_FAULTS = 20
# From a pointer into the body to the tool's argument.
_ARGUMENTS = (
    (re.compile(r"/inputs/images/(\d+).*"), r"/input_files/\1"),
    (re.compile(r"/inputs/images"), "/input_files"),
    (re.compile(r"/(?:inputs|reservation)(/.*)"), r"\1"),
)


@cache
def list_tools() -> list[Tool]:
    """The list of tools, in the specification's order."""
    schema = RunReceipt.model_json_schema(mode="serialization")
    return [
        Tool(
            name=name,
            title=TITLES[pack][0],
            description=TITLES[pack][1],
            input_schema=INPUT_SCHEMAS[pack],
            output_schema=schema,
            annotations=ToolAnnotations(
                read_only_hint=False,  # it reserves money
                destructive_hint=False,
                idempotent_hint=True,
                open_world_hint=pack is PackType.URL,
            ),
        )
        for name, pack in TOOLS.items()
    ]


def request_of_call(tool: str, arguments: Arguments, trace_id: str, caller: Caller, bucket: str) -> SubmitRequest:
    """The submit of a call. Raises ProblemError, whose pointers name the arguments, and PackNotAvailable."""
    pack = TOOLS[tool]
    if faults := tuple(_faults(pack, arguments)):
        raise ProblemError(VALIDATION_FAILED, "Each entry of `errors` names an argument.", faults=faults)
    try:
        body = validated(RunCreateRequest, _body(pack, arguments))
        request = request_of(body, "", trace_id, caller, bucket)
    except ProblemError as refused:
        refused.faults = tuple(replace(fault, pointer=_argument(fault.pointer)) for fault in refused.faults)
        raise
    return replace(request, idempotency_key=arguments.get("idempotency_key") or _key(request))


def receipt_result(accepted: Submitted) -> CallToolResult:
    """The receipt as structured content for programs, and as text for models."""
    body = receipt(accepted.run).model_dump(mode="json", exclude_none=True)
    again = (
        f" These arguments were sent before, at {accepted.run.created_at:%Y-%m-%dT%H:%M:%SZ}: this is that run, and"
        " nothing more was reserved. To run them again, pass a new idempotency_key."
    )
    text = f"Accepted, not finished. Poll GET {body['poll']['href']} until status is COMPLETED or FAILED."
    return CallToolResult(
        content=[_text(json.dumps(body)), _text(text + (again if accepted.replayed else ""))], structured_content=body
    )


def refused_result(problem: ProblemDocument, headers: Mapping[str, str]) -> CallToolResult:
    """A problem that a model can act on; the document includes what is otherwise in headers."""
    members: dict[str, str | int] = dict(problem.members)
    if "Retry-After" in headers:
        members["retry_after_seconds"] = int(headers["Retry-After"])
    if problem.kind.status == 402:
        members["budget_remaining_usd"] = headers["X-DPP-Budget-Remaining"]
    return CallToolResult(content=[_text(replace(problem, members=members).to_json())], is_error=True)


def exact_usd(number: int | Decimal) -> str:
    """A JSON number as the decimal string for POST, without a float (RUN-23). Raises ValueError."""
    sign, places, exponent = Decimal(number).as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("must be a number")  # noqa: TRY004 - NaN and infinities are no JSON numbers
    written = "".join(map(str, places))
    digits = written.rstrip("0")
    exponent += len(written) - len(digits)
    if sign or not digits:
        raise ValueError(_TOO_SMALL)
    if exponent < -_PLACES:
        raise ValueError(f"must have at most {_PLACES} decimal places")
    if len(digits) + exponent > _MAX_DIGITS:
        raise ValueError("is larger than the platform can hold")
    micros = int(digits) * 10 ** (exponent + _PLACES) * MICROS_PER_STEP
    if micros < LEAST_USD_MICROS:
        raise ValueError(_TOO_SMALL)
    return format_usd(micros)


def _faults(pack: PackType, arguments: Arguments) -> list[FieldFault]:
    """Faults that validating the body does not find: unknown arguments, and arguments that POST does not have."""
    known = INPUT_SCHEMAS[pack]["properties"]
    other = [name for name in arguments if name not in known][:_MAX_FAULTS]
    faults = [
        FieldFault(pointer((name,)), f"is not an argument of this tool; it has {', '.join(known)}") for name in other
    ]
    key = arguments.get("idempotency_key")
    if "idempotency_key" in arguments and not (isinstance(key, str) and re.fullmatch(IDEMPOTENCY_KEY_PATTERN, key)):
        faults.append(FieldFault("/idempotency_key", "must be 8 to 64 visible ASCII characters"))
    cost = arguments.get("max_cost_usd")
    try:
        if isinstance(cost, int | Decimal) and not isinstance(cost, bool):
            exact_usd(cost)
        elif "max_cost_usd" in arguments:
            faults.append(FieldFault("/max_cost_usd", "must be a number"))
    except ValueError as error:
        faults.append(FieldFault("/max_cost_usd", str(error)))
    files = arguments.get("input_files")
    if "input_files" in arguments and pack is PackType.OCR:
        most = known["input_files"]["maxItems"]
        if not isinstance(files, list) or not all(isinstance(file, str) for file in files):
            faults.append(FieldFault("/input_files", "must be an array of strings"))
        elif len(files) > most:
            faults.append(FieldFault("/input_files", f"must have at most {most} items"))
    return faults


def _body(pack: PackType, arguments: Arguments) -> dict[str, object]:
    """The locked mapping (001 §22.1); arguments that were left out get the defaults of POST."""
    reservation = {name: arguments[name] for name in _RESERVATION if name in arguments}
    if "max_cost_usd" in reservation:
        reservation["max_cost_usd"] = exact_usd(reservation["max_cost_usd"])
    score = reservation.get("min_reliability_score")
    if isinstance(score, Decimal):
        reservation["min_reliability_score"] = float(score)
    kept = (*_RESERVATION, "idempotency_key", "input_files")
    inputs = {name: value for name, value in arguments.items() if name not in kept}
    if "input_files" in arguments:
        inputs["images"] = [_image(file) for file in arguments["input_files"]]
    return {"pack_type": pack, "inputs": inputs, "reservation": reservation}


def _image(file: str) -> dict[str, str]:
    """The image of an `input_files` entry: an object of the bucket, or the file itself as a data URL (RFC 2397)."""
    head, comma, data = file.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return {"kind": "inline", "data": data}
    if file.startswith("s3://"):
        bucket, _, key = file.removeprefix("s3://").partition("/")
        return {"kind": "s3", "bucket": bucket, "key": key}
    return {"kind": "s3", "key": file}


def _argument(pointer: str) -> str:
    for place, argument in _ARGUMENTS:
        if match := place.fullmatch(pointer):
            return match.expand(argument)
    return pointer


def _key(request: SubmitRequest) -> str:
    """An idempotency key derived from what the call buys and its minimum reliability, which the hash leaves out."""
    text = json.dumps(["mcp", request.payload_hash, request.min_reliability_score])
    digest = hashlib.sha256(text.encode("ascii")).digest()
    return f"mcp-{base64.urlsafe_b64encode(digest).decode('ascii').rstrip('=')}"


def _text(text: str) -> TextContent:
    return TextContent(text=text)
