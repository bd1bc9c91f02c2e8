"""The protocol, message by message (RUN-33), compared with the SDK's server.

The SDK's server is not used in Lambda because of its import time. Here it answers the same messages with the same
tools, which shows rules that the platform's server lacks or that a new release of the SDK adds.
"""

import json
from base64 import b64encode
from typing import Any

import pytest
from mcp_types import methods

from tests.mcp import sdk_server
from tests.mcp.posted import HANDSHAKE, MODERN, TOOL, Posted, handshake, modern, post
from tests.support.api import ApiClient
from tests.support.world import World

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
A_CALL = {"name": TOOL, "arguments": {"question": "Why?", "max_cost_usd": 0.25}}
CLIENT = {"capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}


def initialize(version: object) -> Posted:
    """A handshake, which has no version header yet."""
    return Posted(handshake("initialize", {"protocolVersion": version, **CLIENT}).body)


def without_meta(key: str) -> Posted:
    """A message without some of its metadata."""
    whole = modern("tools/list")
    body = json.loads(whole.body)
    del body["params"]["_meta"][f"io.modelcontextprotocol/{key}"]
    return Posted(json.dumps(body), whole.headers)


BASE64_NAME = f"=?base64?{b64encode(TOOL.encode()).decode()}?="
SAME: dict[str, Posted] = {
    # without a handshake
    "discover": modern("server/discover"),
    "list": modern("tools/list"),
    "call": modern("tools/call", A_CALL),
    "a name in base64": modern("tools/call", A_CALL).but(Mcp_Name=BASE64_NAME),
    "a name in broken base64": modern("tools/call", A_CALL).but(Mcp_Name="=?base64?%?="),
    "another name": modern("tools/call", A_CALL).but(Mcp_Name="dpp_url_run_submit"),
    "no name": modern("tools/call", A_CALL).but(Mcp_Name=None),
    "another method": modern("tools/list").but(Mcp_Method="tools/call"),
    "no method": modern("tools/list").but(Mcp_Method=None),
    "another version than the body's": modern("tools/list").but(MCP_Protocol_Version="2027-01-01"),
    "no version in the body": without_meta("protocolVersion"),
    "no capabilities": without_meta("clientCapabilities"),
    "no meta": Posted(handshake("tools/list").body, modern("tools/list").headers),
    "an unknown version": Posted(
        modern("tools/list").body.replace(MODERN, "2027-01-01"), {"MCP-Protocol-Version": "2027-01-01"}
    ).but(Mcp_Method="tools/list"),
    "an unknown version and nothing else": handshake("tools/list").but(MCP_Protocol_Version="1999-01-01"),
    "an unknown tool": modern("tools/call", {"name": "other", "arguments": {}}),
    "no tool": modern("tools/call", {"arguments": {}}),
    "arguments that are no object": modern("tools/call", {"name": TOOL, "arguments": [1]}),
    "no such method": modern("resources/list"),
    "a method of the handshake": modern("ping"),
    "a handshake that says it needs none": modern("initialize", {"protocolVersion": MODERN, **CLIENT}),
    "a string for an id": modern("tools/list", id="seven"),
    "no id at all": Posted('{"jsonrpc":"2.0","method":"notifications/cancelled"}', modern("x").headers),
    "null for an id": modern("tools/list", id=None),
    "a fraction for an id": modern("tools/list", id=1.5),
    "true for an id": modern("tools/list", id=True),
    "no method member": Posted('{"jsonrpc":"2.0","id":7}', modern("x").headers),
    "another JSON-RPC": modern("tools/list", jsonrpc="1.0"),
    "params in an array": Posted(
        '{"jsonrpc":"2.0","id":7,"method":"tools/list","params":[1]}', modern("tools/list").headers
    ),
    "a batch": Posted(f"[{modern('tools/list').body}]", modern("tools/list").headers),
    "an empty batch": Posted("[]", modern("tools/list").headers),
    "a response": Posted('{"jsonrpc":"2.0","id":7,"result":{}}', modern("x").headers),
    "no JSON": Posted("{", modern("x").headers),
    "nothing": Posted("", modern("x").headers),
    "a string": Posted('"tools/list"', modern("x").headers),
    # with one
    "initialize": initialize(HANDSHAKE),
    "initialize long ago": initialize("2024-11-05"),
    "initialize in the time of batches": initialize("2025-03-26"),
    "initialize with what is no version": initialize("tomorrow"),
    "initialize with the version that needs no handshake": initialize(MODERN),
    "initialize with a number": initialize(1),
    "initialize with nothing": Posted(handshake("initialize").body),
    "initialized": Posted('{"jsonrpc":"2.0","method":"notifications/initialized"}'),
    "a notification with an id": handshake("notifications/cancelled"),
    "ping after": handshake("ping"),
    "list after": handshake("tools/list"),
    "call after": handshake("tools/call", A_CALL),
    "an unknown tool after": handshake("tools/call", {"name": "other"}),
    "no tool after": handshake("tools/call", {"arguments": {}}),
    "no such method after": handshake("prompts/list"),
    "discover after": handshake("server/discover"),
    "list without a header": Posted(handshake("tools/list").body),
    "list of June": handshake("tools/list").but(MCP_Protocol_Version="2025-06-18"),
    "an unknown session": handshake("tools/list").but(Mcp_Session_Id="1868a90c"),
    "no JSON after": Posted("{", handshake("x").headers),
    "a string for an id after": handshake("ping", id="seven"),
}


def acted_on(text: str) -> tuple[Any, ...]:
    """The parts of an answer that a client acts on: the id; of a result all but its texts, of an error code and data.

    Excluded are the SDK's textual data, which repeats the method, and a list's time to live, which servers choose.
    """
    if not text:
        return ()
    body = json.loads(text)
    if "error" in body:
        data = body["error"].get("data")
        return "error", body.get("id"), body["error"]["code"], data if isinstance(data, dict) else None
    result = body["result"]
    for word in ("content", "structuredContent", "instructions", "isError", "ttlMs", "cacheScope"):
        result.pop(word, None)
    result.get("capabilities", {}).get("tools", {}).pop("listChanged", None)  # false if present
    return "result", body["id"], result


@pytest.mark.parametrize("name", SAME)
def test_a_message_gets_the_same_answer_as_from_the_sdks_server(api: ApiClient, world: World, name: str) -> None:
    posted = SAME[name]
    ours, theirs = post(api, world.tenant(), posted), sdk_server.answered("POST", posted, HEADERS)
    assert (ours.status, acted_on(ours.text)) == (theirs.status, acted_on(theirs.text))
    if ours.text:
        assert ours.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("name", [name for name in SAME if "result" in name or name in ("list", "call", "discover")])
def test_an_answer_matches_the_schema_of_its_version(api: ApiClient, world: World, name: str) -> None:
    body = json.loads(SAME[name].body)
    answer = post(api, world.tenant(), SAME[name])
    methods.validate_server_result(body["method"], MODERN, answer.body["result"])


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", HANDSHAKE])
@pytest.mark.parametrize("method", ["ping", "tools/list", "tools/call"])
def test_an_answer_after_a_handshake_has_no_members_of_later_versions(
    api: ApiClient, world: World, version: str, method: str
) -> None:
    posted = handshake(method, A_CALL if method == "tools/call" else None).but(MCP_Protocol_Version=version)
    result = post(api, world.tenant(), posted).body["result"]
    methods.validate_server_result(method, version, result)
    assert {"resultType", "ttlMs", "cacheScope", "_meta"}.isdisjoint(result)


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_streams_and_sessions_are_not_offered(api: ApiClient, world: World, method: str) -> None:
    """The protocol prescribes 405 for both, with or without a key."""
    for tenant in (world.tenant(), None):
        answer = api.call(method, "/mcp", tenant, headers={"Accept": "text/event-stream"})
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        assert answer.body["reason_code"] == "METHOD_NOT_ALLOWED"
        assert "Mcp-Session-Id" not in answer.headers


def test_a_missing_key_is_a_401_before_the_body_is_parsed(api: ApiClient, world: World) -> None:
    """RUN-2, RUN-9: the same as of runs_submit."""
    tenant = world.tenant()
    for posted in (modern("tools/list"), initialize(HANDSHAKE), Posted("{")):
        refused: tuple[str | list[str], ...] = ([], "Basic abc", "Bearer dpp_none", f"Bearer {tenant.token}x")
        for authorization in refused:
            answer = post(api, None, posted, {"Authorization": authorization})
            assert (answer.status, answer.body["reason_code"]) == (401, "AUTH_INVALID")
            assert answer.headers["WWW-Authenticate"] == 'Bearer realm="dpp"'


@pytest.mark.parametrize("origin", ["https://example.com", "https://api.example", "null", ""])
def test_a_request_from_a_web_page_is_refused(api: ApiClient, world: World, origin: str) -> None:
    """The protocol requires servers to check Origin; a web page must not have a key."""
    answer = post(api, world.tenant(), modern("tools/call", A_CALL), {"Origin": origin})
    assert (answer.status, answer.body["reason_code"]) == (403, "REQUEST_REFUSED")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Accept": "text/html"}, 406),
        ({"Accept": "text/event-stream"}, 406),
        ({"Accept": "text/html, */*;q=0.1"}, 200),
        ({"Accept": "Application/JSON; charset=utf-8"}, 200),
        ({"Accept": []}, 200),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": []}, 415),
        ({"MCP-Protocol-Version": [MODERN, MODERN]}, 400),
        ({"Mcp-Method": ["tools/list", "tools/call"]}, 400),
    ],
)
def test_the_metadata_of_a_request_must_be_consistent(
    api: ApiClient, world: World, headers: dict[str, str | list[str]], status: int
) -> None:
    assert post(api, world.tenant(), modern("tools/list"), headers).status == status


def test_a_message_with_its_version_only_in_the_body_is_refused(api: ApiClient, world: World) -> None:
    """The header is required; the SDK's server would treat the message as one after a handshake."""
    answer = post(api, world.tenant(), modern("tools/list").but(MCP_Protocol_Version=None))
    assert (answer.status, answer.body["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize(
    "body",
    [
        '{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}',
        '{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":NaN}}',
        '{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"\\u0000"}}',
        '{"jsonrpc":"2.0","id":12345678901234567890,"method":"ping"}',
        '{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":' + "[" * 70 + "]" * 70 + "}}",
    ],
)
def test_json_is_parsed_strictly(api: ApiClient, world: World, body: str) -> None:
    """D12."""
    answer = post(api, world.tenant(), Posted(body))
    assert (answer.status, answer.body["error"]["code"], answer.body["id"]) == (400, -32700, None)


def test_a_body_over_the_limit_is_refused(api: ApiClient, world: World) -> None:
    answer = post(api, world.tenant(), Posted(f'"{"a" * 1_048_576}"'))
    assert (answer.status, answer.body["reason_code"]) == (413, "PAYLOAD_TOO_LARGE")


def test_no_answer_quotes_client_data(api: ApiClient, world: World) -> None:
    """RUN-31: not even in machine-readable parts; a method or tool name may be anything."""
    secret, tenant = "canary-k2z", world.tenant()
    for posted in (
        modern(secret),
        modern("tools/call", {"name": secret, "arguments": {}}),
        modern("tools/call", {"name": TOOL, "arguments": {"question": secret, "max_cost_usd": secret}}),
        modern("tools/list", {"cursor": secret}),
        handshake("initialize", {"protocolVersion": [secret], **CLIENT}),
        Posted(f'{{"{secret}'),
    ):
        answer = post(api, tenant, posted)
        assert answer.status in (200, 400, 404)
        assert secret not in answer.text
