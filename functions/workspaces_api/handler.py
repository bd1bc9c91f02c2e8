"""The API of workspaces: owners set the desired state and read the current one (003 §3, §5; WS-6, WS-8)."""

from dpp.platform.observability import cold_start

# First, so that the garbage collector is off during the imports below.
# isort: split

from dataclasses import dataclass
from functools import cache

from aws_lambda_powertools.event_handler import Response

from dpp.platform.aws.queue import Queue
from dpp.platform.config import PostgresSettings
from dpp.platform.db.postgres import Database
from dpp.platform.http.api import Api
from dpp.platform.http.auth import authenticate
from dpp.platform.http.request import idempotency_key
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import WORKSPACES_CREATED
from dpp.workspaces import store
from dpp.workspaces.api import http
from dpp.workspaces.api.create import create
from dpp.workspaces.api.owner import Owner, change, connect, delete, list_events, list_page, read
from dpp.workspaces.config import LimitSettings, ObserveQueueSettings
from dpp.workspaces.model import Workspace

cold_start.imported()
logger = service_logger("workspaces")
meter = Meter()
api = Api(http.PROBLEMS, http.error_headers, meter)


class WorkspacesApiSettings(PostgresSettings, ObserveQueueSettings, LimitSettings):
    """Rows, the queue of observations, and the limit of workspaces per tenant."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The database with keys and workspaces, the queue of observations, and the limit of workspaces per tenant."""

    database: Database
    observe_queue: Queue
    limit: int


@cache
def wiring() -> Wiring:
    """Read the environment and build; connections open at their first use."""
    settings = WorkspacesApiSettings.load()
    return Wiring(Database(settings.database), Queue(settings.observe_queue_url), settings.workspaces_per_tenant)


@api.route("POST", "/v1/workspaces")
def create_one() -> Response[str]:
    """Create a workspace. 201; 200 for a repeated request with the same key."""
    owner = _owner()
    created = create(
        http.read_new(api.event),
        tenant_id=owner.tenant_id,
        request_key=idempotency_key(api.event),
        limit=wiring().limit,
        database=owner.database,
        observe_queue=owner.observe_queue,
    )
    if created.is_new:
        meter.add(WORKSPACES_CREATED)
    location = {"Location": f"workspaces/{created.workspace.workspace_id}"}
    return _answer(created.workspace, 201 if created.is_new else 200, location)


@api.route("GET", "/v1/workspaces")
def list_own() -> Response[str]:
    """The caller's workspaces, newest first."""
    owner = _owner()
    phase, below, limit = http.read_page(api.event)
    page = list_page(owner, phase=phase, below=below, limit=limit)
    return api.json(200, http.page_view(page, owner.database.using(store.clock)), {})


@api.route("GET", "/v1/workspaces/<workspace_id>")
def read_one(workspace_id: str) -> Response[str]:
    """A workspace."""
    return _answer(read(_owner(), workspace_id))


@api.route("PATCH", "/v1/workspaces/<workspace_id>")
def change_one(workspace_id: str) -> Response[str]:
    """Change the desired state of a workspace; the reconciler brings it there."""
    owner = _owner()
    return _answer(change(owner, workspace_id, http.read_change(api.event)))


@api.route("DELETE", "/v1/workspaces/<workspace_id>")
def delete_one(workspace_id: str) -> Response[str]:
    """Delete a workspace with its archives. 202: its container, volume and archives are removed later."""
    return _answer(delete(_owner(), workspace_id), 202)


@api.route("GET", "/v1/workspaces/<workspace_id>/events")
def read_events(workspace_id: str) -> Response[str]:
    """The latest events of a workspace."""
    return api.json(200, http.events_view(list_events(_owner(), workspace_id)), {})


@api.route("POST", "/v1/workspaces/<workspace_id>/connect")
def connect_one(workspace_id: str) -> Response[str]:
    """Record that a workspace is in use, and wake it if it is not running."""
    return _answer(connect(_owner(), workspace_id))


def _owner() -> Owner:
    """The calling tenant with its connections. Raises ProblemError 401 without a valid key."""
    wired = wiring()
    caller = authenticate(api.event, wired.database)
    logger.append_keys(tenant_id=caller.tenant_id, trace_id=api.trace_id)
    return Owner(caller.tenant_id, wired.database, wired.observe_queue)


def _answer(workspace: Workspace, status: int = 200, headers: dict[str, str] | None = None) -> Response[str]:
    now = wiring().database.using(store.clock)
    return api.json(status, http.view(workspace, now), {**(headers or {}), **http.waiting_headers(workspace)})


handler = invocation(logger, meter)(api.answer)
