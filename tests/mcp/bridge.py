"""Connects the official client to the function in this process: HTTP requests become the gateway's events."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.api import ApiClient
from tests.support.world import Tenant

URL = "https://api.example/mcp"
ERAS = ("2025-11-25", "2026-07-28")
"""The last version with a handshake, and the first without."""


class Gateway(httpx2.AsyncBaseTransport):
    """Passes requests to the function and records them; loses the replies to the next `losing` tool calls."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self.losing = 0
        self.requests: list[httpx2.Request] = []
        self.statuses: list[int] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """One request, answered in full before it returns."""
        body = await request.aread()
        headers: dict[str, str | list[str]] = {}
        for name, value in request.headers.multi_items():
            headers[name] = [*headers.get(name, []), value]
        answer = self._api.call(request.method, request.url.path, headers=headers, body=body.decode() if body else None)
        self.requests.append(request)
        self.statuses.append(answer.status)
        if b'"tools/call"' in body and self.losing:
            self.losing -= 1
            raise httpx2.ReadError("the reply is lost", request=request)
        return httpx2.Response(answer.status, headers=answer.headers, text=answer.text)


@asynccontextmanager
async def connected(
    transport: httpx2.AsyncBaseTransport | None, token: str | None, era: str, url: str = URL
) -> AsyncIterator[Client]:
    """The official client with this key; of the era with a handshake, it shakes hands."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(transport=transport, headers=headers, timeout=30, trust_env=False) as http:
        mode = "legacy" if era == ERAS[0] else era
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            yield client


def use[Found](api: ApiClient | Gateway, tenant: Tenant, era: str, act: Callable[[Client], Awaitable[Found]]) -> Found:
    """Call `act` with a new client and return its result."""
    gateway = api if isinstance(api, Gateway) else Gateway(api)

    async def run() -> Found:
        async with connected(gateway, tenant.token, era) as client:
            return await act(client)

    return asyncio.run(run())


def call(api: ApiClient | Gateway, tenant: Tenant, tool: str, arguments: dict[str, Any], era: str = ERAS[1]) -> Any:
    """Call a tool with a new client."""
    return use(api, tenant, era, lambda client: client.call_tool(tool, arguments))
