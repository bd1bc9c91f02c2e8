"""Calls one HTTP function as API Gateway (REST, version 1) does, in this process."""

import importlib
from collections.abc import Mapping
from typing import Any

import pytest

from dpp.money.credits import create_tenant
from dpp.platform.db.postgres import Database
from dpp.platform.keys import api_keys, operator_keys
from tests.support.api import Answer, gateway_event, lambda_context
from tests.support.stored import Stored


class FunctionClient(Stored):
    """The caller of a function; `database` is the one that the function uses."""

    def __init__(
        self, function: str, database: Database, environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        module = importlib.import_module(f"{function}.handler")
        self._handler, self._wiring = module.handler, module.wiring
        self._monkeypatch = monkeypatch
        self.database = database
        self.rewire(**environ)

    def rewire(self, **environ: str) -> None:
        """Restart the function with additional environment variables."""
        self.close()
        for name, value in environ.items():
            self._monkeypatch.setenv(name, value)

    def close(self) -> None:
        """Close the connections of the function's wiring; the next call builds it again."""
        if self._wiring.cache_info().currsize:
            self._wiring().database.close()
        self._wiring.cache_clear()

    def key_of(self, tenant_id: str) -> str:
        """A new key of a tenant, which is created if needed."""
        minted = api_keys.mint()
        self.using(create_tenant, tenant_id, "A tenant", 60)
        self.using(api_keys.store, minted, tenant_id)
        return minted.token

    def operator_key(self) -> str:
        """A new key of the operator kim."""
        minted = operator_keys.mint()
        self.using(operator_keys.store, minted, "kim")
        return minted.token

    def call(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        headers: Mapping[str, str | list[str]] | None = None,
        query: Mapping[str, str | list[str]] | None = None,
        body: str | bytes | None = None,
    ) -> Answer:
        """Call any route. A list is sent as several headers or parameters; no `token` and "" send no key."""
        values = {} if body is None else {"Content-Type": ["application/json"]}
        values |= _lists(headers)
        if token:
            values.setdefault("Authorization", [f"Bearer {token}"])
        answer: Any = self._handler(gateway_event(method, path, values, body, _lists(query)), lambda_context())
        sent = {name: found[0] for name, found in answer["multiValueHeaders"].items()}
        return Answer(answer["statusCode"], sent, answer["body"])


def _lists(values: Mapping[str, str | list[str]] | None) -> dict[str, list[str]]:
    return {name: value if isinstance(value, list) else [value] for name, value in (values or {}).items()}
