"""Raw messages, posted without a client library, which would not send some of them."""

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
    """A body with the message's headers, in addition to those of every request."""

    body: str
    headers: dict[str, str] = field(default_factory=dict)

    def but(self, **headers: str | None) -> "Posted":
        """The message with changed headers; None removes a header."""
        changed = self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        return Posted(self.body, {name: value for name, value in changed.items() if value is not None})


def modern(method: str, params: Mapping[str, Any] | None = None, **members: Any) -> Posted:
    """A message of the era without a handshake, with all required metadata."""
    meta = {
        PROTOCOL_VERSION_META_KEY: MODERN,
        CLIENT_INFO_META_KEY: {"name": "by hand", "version": "1"},
        CLIENT_CAPABILITIES_META_KEY: {},
    }
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"_meta": meta, **(params or {})}} | members
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if method == "tools/call" and params and "name" in params:
        headers["Mcp-Name"] = params["name"]
    return Posted(json.dumps(body), headers)


def handshake(method: str, params: Mapping[str, Any] | None = None, **members: Any) -> Posted:
    """A message after the handshake, of the era with one."""
    body = {"jsonrpc": "2.0", "id": 7, "method": method, **({"params": params} if params else {})} | members
    return Posted(json.dumps(body), {"MCP-Protocol-Version": HANDSHAKE})


def call(arguments: str, tool: str = TOOL) -> Posted:
    """A tool call with arguments given as text."""
    whole = modern("tools/call", {"name": tool, "arguments": "$"})
    return Posted(whole.body.replace('"$"', arguments), whole.headers)


def post(api: ApiClient, tenant: Tenant | None, posted: Posted, headers: Headers | None = None) -> Answer:
    """POST /mcp."""
    sent: dict[str, str | list[str]] = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    return api.call("POST", "/mcp", tenant, headers={**sent, **posted.headers, **(headers or {})}, body=posted.body)


def receipt(answer: Answer) -> dict[str, Any]:
    """The receipt of an accepted call."""
    assert answer.status == 200, answer.text
    result = answer.body["result"]
    assert not result["isError"], result["content"][0]["text"]
    found: dict[str, Any] = result["structuredContent"]
    return found


def problem(answer: Answer) -> dict[str, Any]:
    """The problem of a refused call."""
    assert answer.status == 200, answer.text
    result = answer.body["result"]
    assert result["isError"]
    assert "structuredContent" not in result
    found: dict[str, Any] = json.loads(result["content"][0]["text"])
    return found
