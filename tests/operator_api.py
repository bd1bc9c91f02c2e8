"""Calls the operators' API as API Gateway does, in this process, wired to one world."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from dpp.platform import operator_keys
from tests.api import Answer, gateway_event, lambda_context
from tests.world import World
from tickets_api import wiring as wired
from tickets_api.handler import handler


class OperatorApi:
    """A client with the key of the operator kim."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in (world.environ() | {"DPP_REPORTS_BUCKET": world.bucket}).items():
            monkeypatch.setenv(name, value)
        minted = operator_keys.mint()
        with world.database.connection() as connection:
            operator_keys.store(connection, minted, "kim")
        self.token = minted.token
        self.close()

    def close(self) -> None:
        """Close what the function's wiring opened; the next call wires it anew."""
        if wired.wiring.cache_info().currsize:
            wired.wiring().database.close()
        wired.wiring.cache_clear()

    def send(self, method: str, path: str, body: object = None) -> Answer:
        """A call with a body of JSON, or without one."""
        if body is None:
            return self.call(method, path)
        return self.call(method, path, headers={"Content-Type": "application/json"}, body=json.dumps(body))

    def call(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, list[str]] | None = None,
        body: str | bytes | None = None,
    ) -> Answer:
        """Any call; the key is kim's unless a header says another."""
        values = {"Authorization": [f"Bearer {self.token}"]}
        values |= {name: [value] for name, value in (headers or {}).items()}
        event: dict[str, Any] = gateway_event(method, path, values, body)
        event["multiValueQueryStringParameters"] = dict(query) if query else None
        answer = handler(event, lambda_context())
        sent = {name: found[0] for name, found in answer["multiValueHeaders"].items()}
        return Answer(answer["statusCode"], sent, answer["body"])
