"""The SDK's own server with our tools, stateless and answering JSON: what our endpoint is held against."""

import asyncio
from typing import Any

import httpx2
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from dpp.runs.api.tools import TOOLS, list_tools
from tests.mcp.posted import Posted
from tests.support.api import Answer


async def _list(_context: Any, _params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=list_tools(), ttl_ms=300_000, cache_scope="public")


async def _call(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name not in TOOLS:
        from mcp.shared.exceptions import MCPError

        raise MCPError(code=types.INVALID_PARAMS, message="There is no such tool.")
    return types.CallToolResult(content=[types.TextContent(text="called")], structured_content={})


def answered(method: str, posted: Posted, headers: dict[str, str]) -> Answer:
    """The SDK server's answer to a request."""

    async def run() -> Answer:
        server: Server[Any] = Server("dpp", title="DPP", version="1.0.0", on_list_tools=_list, on_call_tool=_call)
        manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
        transport = httpx2.ASGITransport(manager.asgi_app)
        async with manager.run(), httpx2.AsyncClient(transport=transport, base_url="https://api.example") as client:
            # Explicit headers, so that httpx2 adds none of its defaults.
            request = httpx2.Request(
                method, "https://api.example/mcp", content=posted.body, headers={**headers, **posted.headers}
            )
            answer = await client.send(request)
            return Answer(answer.status_code, dict(answer.headers), answer.text)

    return asyncio.run(run())
