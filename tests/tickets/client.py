"""Calls the tickets API as API Gateway does, in this process, with an operator's key."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from dpp.platform import operator_keys
from tests.api import Answer, gateway_event, lambda_context
from tests.tickets.conftest import Desk
from tickets_api.handler import handler
from tickets_api.wiring import wiring


class TicketsClient:
    """An operator, kim, with a key; the function's environment is the desk's."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch, **environ: str) -> None:
        monkeypatch.setenv("DATABASE_URL", desk.url)
        monkeypatch.setenv("DPP_REPORTS_BUCKET", desk.bucket)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        self.close()
        minted = operator_keys.mint()
        with desk.database.connection() as connection:
            operator_keys.store(connection, minted, "kim")
        self.token = minted.token

    def close(self) -> None:
        """Close what the function opened; the next call wires it anew."""
        if wiring.cache_info().currsize:
            wiring().database.close()
        wiring.cache_clear()

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        query: Mapping[str, str | list[str]] | None = None,
        raw: str | bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One call; `raw` goes out as it is."""
        sent = {"Authorization": [f"Bearer {self.token if token is None else token}"]}
        text = raw if raw is not None else None if body is None else json.dumps(body)
        if text is not None:
            sent["Content-Type"] = ["application/json"]
        sent |= {name: [value] for name, value in (headers or {}).items()}
        asked = {name: value if isinstance(value, list) else [value] for name, value in (query or {}).items()}
        answer: Any = handler(gateway_event(method, path, sent, text, asked), lambda_context())
        got = {name: found[0] for name, found in answer["multiValueHeaders"].items()}
        return Answer(answer["statusCode"], got, answer["body"])
