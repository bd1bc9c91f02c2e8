"""Calls the operators' API as API Gateway does, in this process, with an operator's key."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from dpp.platform.db.postgres import Database
from tests.support.api import Answer
from tests.support.function_client import FunctionClient
from tests.support.world import World


class OperatorApi(FunctionClient):
    """A client with the key of the operator kim; the function's environment is the one given."""

    def __init__(self, database: Database, environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__("tickets_api", database, environ, monkeypatch)
        self.token = self.operator_key()

    @classmethod
    def of_world(cls, world: World, monkeypatch: pytest.MonkeyPatch) -> "OperatorApi":
        """A client of one world's, whose bucket keeps the reports, too."""
        return cls(world.database, world.environ() | {"DPP_REPORTS_BUCKET": world.bucket}, monkeypatch)

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
        return self.call(method, path, token=token, query=query, body=text)

    def call(self, method: str, path: str, *, token: str | None = None, **sent: Any) -> Answer:
        """Any call; the key is kim's unless a token or a header says another."""
        return super().call(method, path, token=token or self.token, **sent)
