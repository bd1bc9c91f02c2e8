"""One message of the Model Context Protocol over stateless streamable HTTP: read, told apart, checked.

A message of the modern era (2026-07-28 and later) says its version itself, in `_meta` and in headers that must agree
with it; one of the handshake era (up to 2025-11-25) belongs to a client that began with `initialize`. Both stand for
themselves here: no session is made, and none that a client names is looked at.

The models, codes and versions are the SDK's own (mcp_types). Its server is left out of Lambda for what its import
takes (docs/mcp.md); tests hold the two against each other, message by message.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    JSONRPCNotification,
    JSONRPCRequest,
    RequestId,
)
from mcp_types.jsonrpc import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from dpp.platform.http.problem import NOT_ACCEPTABLE, ProblemError
from dpp.platform.http.request import json_text, single_header
from dpp.platform.strict_json import ExactJson, JsonRefused, parse_exact

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent

type Params = Mapping[str, Any]

_VERSION_HEADER = "MCP-Protocol-Version"
_ACCEPTED = {"application/json", "application/*", "*/*"}
_SENTINEL = re.compile(r"=\?base64\?(.*)\?=", re.ASCII)
# What a message of the modern era is refused with; one of the handshake era is refused in an answer with status 200.
_STATUSES = {METHOD_NOT_FOUND: 404}
_NEVER_READ = {PARSE_ERROR, INVALID_REQUEST}


class ProtocolFault(Exception):
    """A message that the protocol doesn't have, or this server doesn't; the message repeats nothing that was sent."""

    def __init__(self, code: int, message: str, data: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    def status(self, *, modern: bool) -> int:
        """The HTTP status of its answer."""
        return _STATUSES.get(self.code, 400) if modern or self.code in _NEVER_READ else 200

    def answer(self, request_id: RequestId | None) -> dict[str, object]:
        """Its answer."""
        error: dict[str, object] = {"code": self.code, "message": str(self)}
        if self.data is not None:
            error["data"] = self.data
        return {"jsonrpc": "2.0", "id": request_id, "error": error}


@dataclass(frozen=True, slots=True)
class Message:
    """A request, or a notification, which has no `id`. Numbers in `params` are exact: no float is among them."""

    id: RequestId | None
    method: str
    params: Params
    modern: bool


def read(event: "APIGatewayProxyEvent") -> Message:
    """The message of a request. Raises ProtocolFault where it can't be read, ProblemError 400, 406, 413 or 415."""
    _expects_json(event)
    try:
        body = parse_exact(json_text(event))
    except JsonRefused as refused:
        raise ProtocolFault(PARSE_ERROR, f"The body can't be read: {refused}.") from None
    return _message(body, _modern(event, body))


def check(event: "APIGatewayProxyEvent", message: Message) -> None:
    """What a request of the modern era must say of itself (versioning; transports, "Server Validation").

    Raises ProtocolFault.
    """
    if not message.modern:
        return
    version = single_header(event, _VERSION_HEADER) or ""
    if message.id is not None:
        _agrees(event, message, version)
    if version not in MODERN_PROTOCOL_VERSIONS:
        data = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": version}
        raise ProtocolFault(UNSUPPORTED_PROTOCOL_VERSION, "This protocol version is not supported.", data)


def _agrees(event: "APIGatewayProxyEvent", message: Message, version: str) -> None:
    meta = message.params.get("_meta")
    for key in (PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY):
        if not isinstance(meta, dict) or key not in meta:
            raise ProtocolFault(INVALID_PARAMS, f"params._meta needs {key}.")
    said = {
        _VERSION_HEADER: (version, cast(Params, meta)[PROTOCOL_VERSION_META_KEY]),
        "Mcp-Method": (single_header(event, "Mcp-Method"), message.method),
    }
    if message.method == "tools/call" and message.params.get("name") is not None:
        said["Mcp-Name"] = (_decoded(single_header(event, "Mcp-Name")), message.params["name"])
    for header, (shown, meant) in said.items():
        if shown != meant:
            raise ProtocolFault(HEADER_MISMATCH, f"{header} must say what the body says.")


def _modern(event: "APIGatewayProxyEvent", body: ExactJson) -> bool:
    """By the header; without one, by a version in the body, which then lacks its header."""
    version = single_header(event, _VERSION_HEADER)
    if version is not None:
        return version not in HANDSHAKE_PROTOCOL_VERSIONS
    match body:
        case {"params": {"_meta": {**meta}}}:
            return PROTOCOL_VERSION_META_KEY in meta
        case _:
            return False


def _message(body: ExactJson, modern: bool) -> Message:
    model = JSONRPCRequest if isinstance(body, dict) and "id" in body else JSONRPCNotification
    try:
        message = model.model_validate(body)
    except ValidationError:
        raise ProtocolFault(
            INVALID_REQUEST, "Send one JSON-RPC 2.0 request or notification: no batch, no response."
        ) from None
    request_id = message.id if isinstance(message, JSONRPCRequest) else None
    return Message(request_id, message.method, message.params or {}, modern)


def _expects_json(event: "APIGatewayProxyEvent") -> None:
    """No header expects anything (RFC 9110); an answer is never a stream."""
    wanted = single_header(event, "Accept")
    if wanted is None:
        return
    if _ACCEPTED.isdisjoint(one.partition(";")[0].strip().lower() for one in wanted.split(",")):
        raise ProblemError(NOT_ACCEPTABLE, "Answers are application/json: accept it, and text/event-stream.")


def _decoded(value: str | None) -> str | None:
    """A header's value, where need be out of the Base64 that says what no header can."""
    match = _SENTINEL.fullmatch(value or "")
    if match is None:
        return value
    try:
        return base64.b64decode(match.group(1), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None
