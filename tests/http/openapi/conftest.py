"""The functions behind the document, one group a fixture, over rows that the document's examples name."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from dpp_cli.docs.openapi.examples import TICKETS
from tests.auth_errors.api import AuthErrorsApi, insert_example_rows
from tests.http.openapi.conformance import Api
from tests.support.api import Answer, ApiClient
from tests.support.operator_api import OperatorApi
from tests.support.world import World
from tests.workspaces.api.client import ROOT, WorkspacesApi, create_example_workspace
from tests.workspaces.conftest import env, fleet
from tests.workspaces.environment import Environment

__all__ = ["env", "fleet"]  # fixtures


@pytest.fixture
def tenants_api(api: ApiClient, world: World) -> Api:
    """The functions that tenants call, and those without a key."""
    tenant = world.tenant(credit_usd_micros=2**53 - 1)

    def call(method: str, path: str, *, query: object, **more: Any) -> Answer:
        return api.call(method, path, **more)

    return Api(call, lambda *_: tenant.token, lambda: world.position(tenant).balanced)


@pytest.fixture
def operators(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatorApi]:
    """The operators' API of a world with the document's example ticket, after a run of the reaper."""
    with closing(OperatorApi.of_world(world, monkeypatch)) as client:
        client.send("POST", "/api/tickets", TICKETS["requests"]["execution-enable"])
        client.send("POST", "/api/tickets/reaper/run")
        yield client


@pytest.fixture
def operators_api(operators: OperatorApi) -> Api:
    """Without a header of its own, the client would send the operator's key."""
    return Api(
        lambda *request, headers, **more: operators.call(*request, headers={"Authorization": ""} | headers, **more),
        lambda *_: operators.token,
    )


@pytest.fixture
def errors(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[AuthErrorsApi]:
    """The API of a world with the document's example error, analysed and in its example cluster."""
    with AuthErrorsApi.of_world(world, monkeypatch) as client:
        insert_example_rows(client)
        yield client


@pytest.fixture
def errors_api(errors: AuthErrorsApi) -> Api:
    """Services report with a tenant's key; the rest is for operators."""
    reports = ("POST", "/api/auth-errors")
    return Api(errors.call, lambda *operation: errors.tenant if operation == reports else errors.operator)


@pytest.fixture
def workspaces(env: Environment, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkspacesApi]:
    """The API of a database with the document's example workspace, and without a limit of workspaces."""
    monkeypatch.setenv("DPP_WORKSPACES_PER_TENANT", "100000")
    with closing(WorkspacesApi(env.database, env.url, monkeypatch, env.sqs)) as made:
        create_example_workspace(made)
        yield made


@pytest.fixture
def workspaces_api(workspaces: WorkspacesApi) -> Api:
    return Api(
        lambda method, path, **more: workspaces.call(method, path.removeprefix(ROOT), token="", **more),
        lambda *_: workspaces.owner,
    )
