"""Parses and checks one message of the Model Context Protocol over stateless streamable HTTP.

A message of the modern era (2026-07-28 and later) has its version in `_meta` and in headers that must agree with it. A
message of the handshake era (up to 2025-11-25) comes from a client that began with `initialize`. Both are handled
without a session: none is created, and a client's session id is ignored.

The models, codes and versions are the SDK's own (mcp_types). The SDK's server is not used in Lambda because of its
import time (docs/mcp.md); tests compare the two, message by message.
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
# The status of an error of the modern era; an error of the handshake era is an answer with status 200.
_STATUSES = {METHOD_NOT_FOUND: 404}
_NEVER_READ = {PARSE_ERROR, INVALID_REQUEST}


class ProtocolFault(Exception):
    """A message that the protocol or this server does not have. The error's text repeats nothing that was sent."""

    def __init__(self, code: int, message: str, data: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    def status(self, *, modern: bool) -> int:
        """The HTTP status of the error's answer."""
        return _STATUSES.get(self.code, 400) if modern or self.code in _NEVER_READ else 200

    def answer(self, request_id: RequestId | None) -> dict[str, object]:
        """The error's answer."""
        error: dict[str, object] = {"code": self.code, "message": str(self)}
        if self.data is not None:
            error["data"] = self.data
        return {"jsonrpc": "2.0", "id": request_id, "error": error}


@dataclass(frozen=True, slots=True)
class Message:
    """A request, or a notification, which has no `id`. Numbers in `params` are exact, never floats."""

    id: RequestId | None
    method: str
    params: Params
    modern: bool


def read(event: "APIGatewayProxyEvent") -> Message:
    """Parse the message of a request. Raises ProtocolFault, ProblemError 400, 406, 413 or 415."""
    _expects_json(event)
    try:
        body = parse_exact(json_text(event))
    except JsonRefused as refused:
        raise ProtocolFault(PARSE_ERROR, f"The body can't be read: {refused}.") from None
    return _message(body, _modern(event, body))


def check(event: "APIGatewayProxyEvent", message: Message) -> None:
    """Check the metadata that a modern request must have (versioning; transports, "Server Validation").

    Raises ProtocolFault.
    """
    if not message.modern:
        return
    version = single_header(event, _VERSION_HEADER) or ""
    if message.id is not None:
        _check_headers(event, message, version)
    if version not in MODERN_PROTOCOL_VERSIONS:
        data = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": version}
        raise ProtocolFault(UNSUPPORTED_PROTOCOL_VERSION, "This protocol version is not supported.", data)


def _check_headers(event: "APIGatewayProxyEvent", message: Message, version: str) -> None:
    meta = message.params.get("_meta")
    for key in (PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY):
        if not isinstance(meta, dict) or key not in meta:
            raise ProtocolFault(INVALID_PARAMS, f"params._meta needs {key}.")
    pairs = {
        _VERSION_HEADER: (version, cast(Params, meta)[PROTOCOL_VERSION_META_KEY]),
        "Mcp-Method": (single_header(event, "Mcp-Method"), message.method),
    }
    if message.method == "tools/call" and message.params.get("name") is not None:
        pairs["Mcp-Name"] = (_decoded(single_header(event, "Mcp-Name")), message.params["name"])
    for header, (sent, expected) in pairs.items():
        if sent != expected:
            raise ProtocolFault(HEADER_MISMATCH, f"{header} must match the body.")


def _modern(event: "APIGatewayProxyEvent", body: ExactJson) -> bool:
    """Decide by the header; without one, by a version in the body (whose header is then missing)."""
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
    """Refuse clients that do not accept JSON: an answer is never a stream. No header accepts anything (RFC 9110)."""
    accept = single_header(event, "Accept")
    if accept is None:
        return
    if _ACCEPTED.isdisjoint(one.partition(";")[0].strip().lower() for one in accept.split(",")):
        raise ProblemError(NOT_ACCEPTABLE, "Answers are application/json: accept it, and text/event-stream.")


def _decoded(value: str | None) -> str | None:
    """A header's value, decoded if it is the Base64 form of characters that a header cannot have."""
    match = _SENTINEL.fullmatch(value or "")
    if match is None:
        return value
    try:
        return base64.b64decode(match.group(1), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None
