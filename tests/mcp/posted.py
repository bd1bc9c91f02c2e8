"""Messages as they stand on the wire, posted by hand: what no client's library would send is among them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY

from tests.support.api import Answer, ApiClient
from tests.support.world import Tenant

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
TOOL = "dpp_decision_run_submit"
type Headers = Mapping[str, str | list[str]]


@dataclass(frozen=True, slots=True)
class Posted:
    """A body and the headers that belong to the message, beside those of every request."""

    body: str
    headers: dict[str, str] = field(default_factory=dict)

    def but(self, **headers: str | None) -> "Posted":
        """With other headers; None takes one away."""
        changed = self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        return Posted(self.body, {name: value for name, value in changed.items() if value is not None})


def modern(method: str, params: Mapping[str, Any] | None = None, **members: Any) -> Posted:
    """A message of the era without a handshake, with all that it must say of itself."""
    meta = {
        PROTOCOL_VERSION_META_KEY: MODERN,
        CLIENT_INFO_META_KEY: {"name": "by hand", "version": "1"},
        CLIENT_CAPABILITIES_META_KEY: {},
    }
    body = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": method,
        "params": {"_meta": meta, **(params or {})},
    } | members
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if method == "tools/call" and params and "name" in params:
        headers["Mcp-Name"] = params["name"]
    return Posted(json.dumps(body), headers)


def handshake(method: str, params: Mapping[str, Any] | None = None, **members: Any) -> Posted:
    """A message of the era with a handshake, after it."""
    body = {"jsonrpc": "2.0", "id": 7, "method": method, **({"params": params} if params else {})} | members
    return Posted(json.dumps(body), {"MCP-Protocol-Version": HANDSHAKE})


def call(arguments: str, tool: str = TOOL) -> Posted:
    """A call whose arguments are this very text."""
    whole = modern("tools/call", {"name": tool, "arguments": "$"})
    return Posted(whole.body.replace('"$"', arguments), whole.headers)


def post(api: ApiClient, tenant: Tenant | None, posted: Posted, headers: Headers | None = None) -> Answer:
    """POST /mcp."""
    sent: dict[str, str | list[str]] = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    return api.call(
        "POST", "/mcp", tenant, headers={**sent, **posted.headers, **(headers or {})}, body=posted.body
    )


def receipt(answer: Answer) -> dict[str, Any]:
    """The receipt of a call that was taken."""
    assert answer.status == 200, answer.text
    result = answer.body["result"]
    assert not result["isError"], result["content"][0]["text"]
    found: dict[str, Any] = result["structuredContent"]
    return found


def problem(answer: Answer) -> dict[str, Any]:
    """The problem of a call that was refused."""
    assert answer.status == 200, answer.text
    result = answer.body["result"]
    assert result["isError"]
    assert "structuredContent" not in result
    found: dict[str, Any] = json.loads(result["content"][0]["text"])
    return found
