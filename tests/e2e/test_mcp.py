"""The official client at the deployed stack: API Gateway, Lambda, and the run to its end (RUN-33)."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.e2e.conftest import E2eTenant, Platform
from tests.mcp.bridge import ERAS, connected

pytestmark = [pytest.mark.e2e, pytest.mark.parametrize("era", ERAS)]

CALLS: dict[str, dict[str, Any]] = {
    "dpp_ocr_run_submit": {"input_files": ["data:image/png;base64,aGVsbG8="], "max_cost_usd": 0.25},
    "dpp_url_run_submit": {"urls": ["https://127.0.0.1/"], "max_cost_usd": 0.1, "timebox_sec": 20},
    "dpp_decision_run_submit": {
        "question": "What does moving cost?",
        "context": "The lease ends in March. Moving costs two monthly rents. The team voted for the move.",
        "max_cost_usd": 0.25,
        "timebox_sec": 20,
        "min_reliability_score": 0.5,
    },
}
DECISION = "dpp_decision_run_submit"


class LosingReplies(httpx2.AsyncHTTPTransport):
    """The network, which loses the reply of the first call of a tool."""

    lost = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send, wait for the whole answer, and lose it."""
        answer = await super().handle_async_request(request)
        if b'"tools/call"' in request.content and not self.lost:
            await answer.aread()
            self.lost = answer.status_code
            raise httpx2.ReadError("the reply is lost", request=request)
        return answer


def use[Found](
    platform: Platform,
    tenant: E2eTenant | None,
    era: str,
    act: Callable[[Client], Awaitable[Found]],
    transport: httpx2.AsyncBaseTransport | None = None,
) -> Found:
    """Return the result of `act` with the official client, over HTTP."""

    async def run() -> Found:
        url = str(platform.http.base_url).rstrip("/") + "/mcp"
        async with connected(transport, tenant.token if tenant else None, era, url) as client:
            return await act(client)

    return asyncio.run(run())


def count(platform: Platform, tenant: E2eTenant) -> int:
    """Return the number of the tenant's runs."""
    row = platform.database.execute("SELECT count(*) FROM runs WHERE tenant_id = %s", (tenant.tenant_id,)).fetchone()
    assert row is not None
    return int(row[0])


def test_run_33_each_tool_is_listed_called_and_its_run_comes_to_an_end(platform: Platform, era: str) -> None:
    """RUN-33: initialize or discover, list, call; a receipt at once, the result by polling."""
    tenant = platform.tenant()

    async def act(client: Client) -> tuple[str, list[str], list[Any]]:
        listed = await client.list_tools()
        called = [await client.call_tool(name, arguments) for name, arguments in CALLS.items()]
        return client.protocol_version, [tool.name for tool in listed.tools], called

    version, names, called = use(platform, tenant, era, act)
    assert (version, names) == (era, list(CALLS))
    assert [result.is_error for result in called] == [False] * 3
    receipts = [result.structured_content for result in called]
    assert [receipt["status"] for receipt in receipts] == ["QUEUED"] * 3
    views = [platform.finished(tenant, receipt["run_id"]) for receipt in receipts]
    assert [view["pack_type"] for view in views] == ["ocr", "url", "decision"]
    assert views[2]["status"] == "COMPLETED"
    assert platform.position(tenant).balanced


def test_run_33_a_call_whose_reply_was_lost_is_one_run_when_it_is_called_again(platform: Platform, era: str) -> None:
    """RUN-33: by a client that begins anew, and in the same conversation once more."""
    tenant = platform.tenant()
    network = LosingReplies()
    with pytest.raises((MCPError, ExceptionGroup)):
        use(platform, tenant, era, lambda client: client.call_tool(DECISION, CALLS[DECISION]), network)
    assert (network.lost, count(platform, tenant)) == (200, 1)

    async def again(client: Client) -> list[Any]:
        await client.list_tools()
        return [await client.call_tool(DECISION, CALLS[DECISION]) for _ in range(2)]

    first, second = use(platform, tenant, era, again)
    assert first.structured_content == second.structured_content
    assert count(platform, tenant) == 1
    view = platform.finished(tenant, first.structured_content["run_id"])
    assert (view["status"], view["money_state"]) == ("COMPLETED", "SETTLED")
    assert platform.position(tenant).balanced


def test_run_33_an_amount_of_five_places_reserves_nothing(platform: Platform, era: str) -> None:
    """RUN-23: whatever a float would make of it."""
    tenant = platform.tenant()

    async def offered(client: Client) -> list[Any]:
        costs = (0.12345, 0.1 + 0.2)
        return [await client.call_tool(DECISION, CALLS[DECISION] | {"max_cost_usd": cost}) for cost in costs]

    for result in use(platform, tenant, era, offered):
        assert result.is_error
        problem = json.loads(result.content[0].text)
        assert [fault["pointer"] for fault in problem["errors"]] == ["/max_cost_usd"]
    assert count(platform, tenant) == 0


def test_run_33_without_a_key_there_is_nothing_and_no_stream_with_one(platform: Platform, era: str) -> None:
    """RUN-2, RUN-9."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"MCP-Protocol-Version": era}
    refused = platform.call("POST", "/mcp", headers=headers, json=body)
    assert (refused.status_code, refused.json()["reason_code"]) == (401, "AUTH_INVALID")
    for method in ("GET", "DELETE"):
        answer = platform.call(method, "/mcp", platform.tenant(), headers=headers)
        assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
    with pytest.raises((MCPError, ExceptionGroup)):
        use(platform, None, era, lambda client: client.list_tools())
