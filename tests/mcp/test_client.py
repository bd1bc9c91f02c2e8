"""The endpoint as the official client sees it, with and without a handshake (RUN-33)."""

import json
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.http.state import raw_messages
from tests.mcp.bridge import ERAS, Gateway, call, use
from tests.support.api import ApiClient
from tests.support.world import Tenant, World

DECISION, URL, OCR = ("dpp_decision_run_submit", "dpp_url_run_submit", "dpp_ocr_run_submit")
CALLS: dict[str, dict[str, Any]] = {
    OCR: {"input_files": ["data:image/png;base64,aGVsbG8="], "max_cost_usd": 0.25, "ocr_profile": "P2A"},
    URL: {"urls": ["https://example.com/"], "max_cost_usd": 0.1},
    DECISION: {"question": "Shall we?", "context": "We shall.", "max_cost_usd": 0.25, "timebox_sec": 20},
}

pytestmark = pytest.mark.parametrize("era", ERAS)


def rows(world: World, tenant: Tenant) -> list[tuple[Any, ...]]:
    """The tenant's runs: pack and amount."""
    return world.sql(
        "SELECT pack_type, inputs, reservation_max_cost_usd_micros, timebox_sec"
        " FROM runs JOIN run_inputs USING (run_id) WHERE tenant_id = %s ORDER BY created_at",
        (tenant.tenant_id,),
    )


def test_a_client_finds_the_server_and_its_tools(api: ApiClient, world: World, era: str) -> None:
    async def look(client: Client) -> Any:
        return client.protocol_version, client.server_info, client.instructions, await client.list_tools()

    version, info, instructions, list_tools = use(api, world.tenant(), era, look)
    assert version == era
    assert era == ERAS[1] or (info.name == "dpp" and "Poll GET" in instructions)
    assert [tool.name for tool in list_tools.tools] == [OCR, URL, DECISION]
    for tool in list_tools.tools:
        hints = tool.annotations
        assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) == (False, False, True)
        assert hints.open_world_hint is (tool.name == URL)
        assert tool.title
        assert tool.description
        assert tool.output_schema["required"] == ["run_id", "reservation", "poll", "meta"]


@pytest.mark.parametrize("tool", CALLS)
def test_each_tool_submits_its_run_and_returns_a_receipt(api: ApiClient, world: World, era: str, tool: str) -> None:
    """RUN-33: the client holds the structured content against the output schema itself."""
    tenant = world.tenant()
    gateway = Gateway(api)

    async def listed_then_called(client: Client) -> Any:
        await client.list_tools()
        return await client.call_tool(tool, CALLS[tool])

    result = use(gateway, tenant, era, listed_then_called)
    assert not result.is_error
    receipt = result.structured_content
    assert json.loads(result.content[0].text) == receipt
    assert receipt["poll"]["href"] in result.content[1].text
    assert receipt["status"] == "QUEUED"
    read = api.read(tenant, receipt["run_id"])
    assert (read.status, read.body["pack_type"]) == (200, tool.split("_")[1])
    [message] = raw_messages(world)
    assert json.loads(message)["run_id"] == receipt["run_id"]
    assert {request.method for request in gateway.requests} <= {"POST", "GET"}
    assert set(gateway.statuses) <= {200, 202, 405}  # the stream, which is not offered


def test_the_mapping_is_as_specified(api: ApiClient, world: World, era: str) -> None:
    """001 §22.1: omitted arguments are omitted members of POST."""
    tenant = world.tenant()
    for tool, arguments in CALLS.items():
        call(api, tenant, tool, arguments, era)
    assert rows(world, tenant) == [
        ("ocr", {"images": [{"kind": "inline", "data": "aGVsbG8="}], "ocr_profile": "P2A"}, 250_000, 90),
        ("url", {"urls": ["https://example.com/"]}, 100_000, 90),
        ("decision", {"question": "Shall we?", "context": "We shall."}, 250_000, 20),
    ]


def test_a_call_repeated_after_a_lost_reply_is_paid_once(api: ApiClient, world: World, era: str) -> None:
    """RUN-33: a new conversation with new request ids gets the lost receipt."""
    tenant = world.tenant()
    gateway = Gateway(api)
    gateway.losing = 1
    with pytest.raises((MCPError, ExceptionGroup)):
        call(gateway, tenant, DECISION, CALLS[DECISION], era)
    assert len(rows(world, tenant)) == 1

    async def twice(client: Client) -> list[Any]:
        await client.list_tools()  # so that the ids differ
        return [await client.call_tool(DECISION, CALLS[DECISION]) for _ in range(2)]

    first, second = use(gateway, tenant, era, twice)
    assert first.structured_content == second.structured_content
    assert "nothing more was reserved" in first.content[1].text
    assert len(rows(world, tenant)) == 1
    assert world.position(tenant).balance_usd_micros == 9_750_000
    ids = [json.loads(r.content)["id"] for r in gateway.requests if b"tools/call" in r.content]
    assert ids[1] != ids[2]


def test_the_model_sees_a_refusal(api: ApiClient, world: World, era: str) -> None:
    """RUN-9, RUN-33: an error that the model can correct is not a protocol error."""
    tenant = world.tenant(credit_usd_micros=0)
    refused = call(api, tenant, DECISION, CALLS[DECISION], era)
    assert refused.is_error
    problem = json.loads(refused.content[0].text)
    assert (problem["reason_code"], problem["budget_remaining_usd"]) == ("BUDGET_DRAINED", "0.0000")

    wrong = call(api, tenant, URL, {"urls": [], "max_cost_usd": 0.12345, "timebox": 5}, era)
    problem = json.loads(wrong.content[0].text)
    assert (problem["status"], problem["reason_code"]) == (422, "VALIDATION_FAILED")
    assert [fault["pointer"] for fault in problem["errors"]] == ["/timebox", "/max_cost_usd"]


def test_an_unknown_method_or_tool_is_a_protocol_error(api: ApiClient, world: World, era: str) -> None:
    tenant = world.tenant()

    async def codes(client: Client) -> list[int]:
        found = []
        for act in (client.list_resources(), client.call_tool("dpp_eval_run_submit", {})):
            with pytest.raises(MCPError) as raised:
                await act
            found.append(raised.value.error.code)
        return found

    assert use(api, tenant, era, codes) == [-32601, -32602]


def test_without_a_key_every_request_is_refused(api: ApiClient, world: World, era: str) -> None:
    """RUN-2: as everywhere."""
    stranger = Tenant("t_none", "dpp_none", world.tenant().caller)
    gateway = Gateway(api)
    with pytest.raises((MCPError, ExceptionGroup)):
        call(gateway, stranger, DECISION, CALLS[DECISION], era)
    assert set(gateway.statuses) == {401}
