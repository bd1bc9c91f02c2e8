"""An MCP server of tools over stateless streamable HTTP: its methods and their results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_types import (
    SERVER_INFO_META_KEY,
    CallToolRequestParams,
    CallToolResult,
    DiscoverResult,
    EmptyResult,
    Implementation,
    InitializeRequestParams,
    InitializeResult,
    ListToolsResult,
    RequestId,
    Result,
    ServerCapabilities,
    Tool,
    ToolsCapability,
)
from mcp_types.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from dpp.platform.mcp.message import Message, Params, ProtocolFault, check, read

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent

_CACHED_MS = 300_000
_CAPABILITIES = ServerCapabilities(tools=ToolsCapability())
_OF_THE_MODERN_ERA = ("resultType", "ttlMs", "cacheScope")
_HANDSHAKE_METHODS = ("initialize", "ping", "tools/list", "tools/call")
_MODERN_METHODS = ("server/discover", "tools/list", "tools/call")


@dataclass(frozen=True, slots=True)
class Called:
    """The result of a tool call, and the headers of its answer."""

    result: CallToolResult
    headers: Mapping[str, str]


type Call = Callable[[str, Mapping[str, Any]], Called]
"""Calls a tool by its name with its arguments, whose numbers are exact."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer; that of a notification has no body."""

    status: int
    body: Mapping[str, object] | None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Server:
    """The server's name, its instructions for a model, and its tools, which are built when first listed."""

    info: Implementation
    instructions: str
    names: Sequence[str]
    list_tools: Callable[[], list[Tool]]

    def reply(self, event: "APIGatewayProxyEvent", call: Call) -> Reply:
        """Answer one message. Raises ProblemError, and the exceptions of `call`."""
        try:
            message = read(event)
        except ProtocolFault as fault:
            return Reply(fault.status(modern=True), fault.answer(None))
        try:
            check(event, message)
            if message.id is None:
                return Reply(202, None)  # nothing to do: there is no state between two requests
            return self._reply(message, message.id, call)
        except ProtocolFault as fault:
            # A refused notification has no id to answer to.
            modern = message.modern or message.id is None
            return Reply(fault.status(modern=modern), fault.answer(message.id))

    def _reply(self, message: Message, request_id: RequestId, call: Call) -> Reply:
        if message.method not in (_MODERN_METHODS if message.modern else _HANDSHAKE_METHODS):
            raise ProtocolFault(METHOD_NOT_FOUND, "No such method.")
        if message.method == "tools/call":
            tool_call = _params(CallToolRequestParams, message.params)
            if tool_call.name not in self.names:
                raise ProtocolFault(INVALID_PARAMS, f"No such tool. The tools are {', '.join(self.names)}.")
            called = call(tool_call.name, tool_call.arguments or {})
            return Reply(200, self._answer(message, request_id, called.result), called.headers)
        return Reply(200, self._answer(message, request_id, self._result(message)))

    def _result(self, message: Message) -> Result:
        match message.method:
            case "initialize":
                requested = _params(InitializeRequestParams, message.params).protocol_version
                return InitializeResult(
                    protocol_version=requested
                    if requested in HANDSHAKE_PROTOCOL_VERSIONS
                    else LATEST_HANDSHAKE_VERSION,
                    capabilities=_CAPABILITIES,
                    server_info=self.info,
                    instructions=self.instructions,
                )
            case "server/discover":
                return DiscoverResult(
                    supported_versions=list(MODERN_PROTOCOL_VERSIONS),
                    capabilities=_CAPABILITIES,
                    instructions=self.instructions,
                    ttl_ms=_CACHED_MS,
                    cache_scope="public",
                )
            case "tools/list":
                if message.params.get("cursor") is not None:
                    raise ProtocolFault(INVALID_PARAMS, "There is only one page: send no cursor.")
                return ListToolsResult(tools=self.list_tools(), ttl_ms=_CACHED_MS, cache_scope="public")
            case _:  # ping
                return EmptyResult()

    def _answer(self, message: Message, request_id: RequestId, result: Result) -> dict[str, object]:
        answer: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        if message.modern:
            info = self.info.model_dump(mode="json", by_alias=True, exclude_none=True)
            answer["_meta"] = {SERVER_INFO_META_KEY: info}
        else:
            for name in _OF_THE_MODERN_ERA:
                answer.pop(name, None)
        return {"jsonrpc": "2.0", "id": request_id, "result": answer}


def _params[Model: BaseModel](model: type[Model], params: Params) -> Model:
    """Validate parameters as `model`, by alias only. Raises ProtocolFault."""
    try:
        return model.model_validate(params, by_name=False, by_alias=True)
    except ValidationError as error:
        places = sorted({".".join(str(part) for part in fault["loc"][:1]) for fault in error.errors()})
        raise ProtocolFault(INVALID_PARAMS, f"Missing or invalid in params: {', '.join(places)}.") from None
