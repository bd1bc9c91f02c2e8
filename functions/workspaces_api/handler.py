"""The API of workspaces: their owners say what they want, and read what is there (003 §3, §5; WS-6, WS-8)."""

from dpp.platform.observability import cold_start

# First, so that no import after it is held up.
# isort: split

from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.http.api import Api
from dpp.platform.http.auth import authenticate
from dpp.platform.http.request import idempotency_key
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import WORKSPACES_CREATED
from dpp.workspaces import store
from dpp.workspaces.api import own
from dpp.workspaces.api.create import create
from dpp.workspaces.api.http import (
    PROBLEMS,
    error_headers,
    events_view,
    page_view,
    read_change,
    read_new,
    read_page,
    view,
    waiting_headers,
)
from dpp.workspaces.model import Workspace
from workspaces_api.wiring import wiring

cold_start.imported()
logger = service_logger("workspaces")
meter = Meter()
api = Api(PROBLEMS, error_headers, meter)


@api.route("POST", "/v1/workspaces")
def create_one() -> Response[str]:
    """Create a workspace; 201, and 200 for one that was created under the same key before."""
    owner = _owner()
    created = create(
        read_new(api.event),
        tenant_id=owner.tenant_id,
        request_key=idempotency_key(api.event),
        limit=wiring().limit,
        database=owner.database,
        looks=owner.looks,
    )
    if created.is_new:
        meter.add(WORKSPACES_CREATED)
    location = {"Location": f"workspaces/{created.workspace.workspace_id}"}
    return _answer(created.workspace, 201 if created.is_new else 200, location)


@api.route("GET", "/v1/workspaces")
def list_own() -> Response[str]:
    """The caller's workspaces, the newest first."""
    owner = _owner()
    phase, below, limit = read_page(api.event)
    page = own.page(owner, phase=phase, below=below, limit=limit)
    with owner.database.connection() as connection:
        now = store.clock(connection)
    return api.json(200, page_view(page, now), {})


@api.route("GET", "/v1/workspaces/<workspace_id>")
def read_one(workspace_id: str) -> Response[str]:
    """A workspace."""
    return _answer(own.read(_owner(), workspace_id))


@api.route("PATCH", "/v1/workspaces/<workspace_id>")
def change_one(workspace_id: str) -> Response[str]:
    """Change what is wanted of a workspace; it gets there by itself."""
    owner = _owner()
    return _answer(own.change(owner, workspace_id, read_change(api.event)))


@api.route("DELETE", "/v1/workspaces/<workspace_id>")
def delete_one(workspace_id: str) -> Response[str]:
    """Delete a workspace with its archives; 202, since what is left of it is removed by and by."""
    return _answer(own.delete(_owner(), workspace_id), 202)


@api.route("GET", "/v1/workspaces/<workspace_id>/events")
def read_events(workspace_id: str) -> Response[str]:
    """What happened to a workspace last."""
    return api.json(200, events_view(own.events(_owner(), workspace_id)), {})


@api.route("POST", "/v1/workspaces/<workspace_id>/connect")
def connect(workspace_id: str) -> Response[str]:
    """Note that a workspace is used, and wake it where it doesn't run."""
    return _answer(own.connect(_owner(), workspace_id))


def _owner() -> own.Owner:
    """Who calls, with what their requests touch; everybody without a key is refused."""
    parts = wiring()
    caller = authenticate(api.event, parts.database)
    logger.append_keys(tenant_id=caller.tenant_id, trace_id=api.trace_id)
    return own.Owner(caller.tenant_id, parts.database, parts.looks)


def _answer(workspace: Workspace, status: int = 200, headers: dict[str, str] | None = None) -> Response[str]:
    with wiring().database.connection() as connection:
        now = store.clock(connection)
    return api.json(status, view(workspace, now), {**(headers or {}), **waiting_headers(workspace)})


@invocation(logger, meter)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one API Gateway event."""
    return api.answer(event, context)
