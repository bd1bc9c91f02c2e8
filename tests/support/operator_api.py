"""Calls the operators' API as API Gateway does, in this process, with an operator's key."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from dpp.platform.db.postgres import Database
from dpp.platform.keys import operator_keys
from tests.support.api import Answer, gateway_event, lambda_context
from tests.support.world import World
from tickets_api.handler import handler, wiring


class OperatorApi:
    """A client with the key of the operator kim; the function's environment is the one given."""

    def __init__(self, database: Database, environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        self.close()
        minted = operator_keys.mint()
        with database.connection() as connection:
            operator_keys.store(connection, minted, "kim")
        self.token = minted.token

    @classmethod
    def of_world(cls, world: World, monkeypatch: pytest.MonkeyPatch) -> "OperatorApi":
        """A client of one world's, whose bucket keeps the reports, too."""
        return cls(world.database, world.environ() | {"DPP_REPORTS_BUCKET": world.bucket}, monkeypatch)

    def close(self) -> None:
        """Close what the function's wiring opened; the next call wires it anew."""
        if wiring.cache_info().currsize:
            wiring().database.close()
        wiring.cache_clear()

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        query: Mapping[str, str | list[str]] | None = None,
        raw: str | bytes | None = None,
    ) -> Answer:
        """A call with a body of JSON, or without one; `raw` goes out as it is, `token` in place of kim's."""
        text = raw if raw is not None else None if body is None else json.dumps(body)
        headers = {} if text is None else {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        asked = {name: value if isinstance(value, list) else [value] for name, value in (query or {}).items()}
        return self.call(method, path, headers=headers, query=asked, body=text)

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
        answer: Any = handler(gateway_event(method, path, values, body, query), lambda_context())
        sent = {name: found[0] for name, found in answer["multiValueHeaders"].items()}
        return Answer(answer["statusCode"], sent, answer["body"])
