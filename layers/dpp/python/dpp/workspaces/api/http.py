"""The HTTP side of workspaces: problems, decoding of requests, response bodies."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

from dpp.platform.http.problem import NOT_FOUND, ProblemKind
from dpp.platform.http.request import read_body, read_query
from dpp.workspaces import errors
from dpp.workspaces.api import contract
from dpp.workspaces.api.create import NewWorkspace
from dpp.workspaces.api.explain import explain
from dpp.workspaces.api.owner import Page
from dpp.workspaces.model import Operation, Phase, Workspace
from dpp.workspaces.store import Change, Event

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent

PROBLEMS: Mapping[type[Exception], ProblemKind] = {
    errors.WorkspaceNotFound: ProblemKind(404, "WORKSPACE_NOT_FOUND", NOT_FOUND.title),
    errors.IdempotencyConflict: ProblemKind(
        409, "IDEMPOTENCY_CONFLICT", "The idempotency key was used with another payload"
    ),
    errors.TooManyWorkspaces: ProblemKind(409, "TOO_MANY_WORKSPACES", "The limit of workspaces is reached"),
    errors.NotDeletable: ProblemKind(
        409, "WORKSPACE_NOT_DELETABLE", "The workspace can't be deleted in its current state"
    ),
    errors.WorkspaceDeleted: ProblemKind(410, "WORKSPACE_DELETED", "The workspace is deleted"),
}
RETRY_SECONDS = 2
"""The Retry-After for a client that waits for a phase: the interval of observations (WS-5)."""


def error_headers(_error: Exception | None) -> dict[str, str]:
    """This context adds no headers to errors."""
    return {}


def read_new(event: "APIGatewayProxyEvent") -> NewWorkspace:
    """Decode a request to create a workspace. Raises ProblemError."""
    return NewWorkspace(**read_body(event, contract.WorkspaceCreateRequest).model_dump())


def read_change(event: "APIGatewayProxyEvent") -> Change:
    """Decode a request to change a workspace; only members in the body change. Raises ProblemError."""
    body = read_body(event, contract.WorkspaceChangeRequest)
    given = body.model_fields_set
    return Change(
        desired_state=body.desired_state,
        name=body.name,
        sets_standby_ttl="standby_ttl_seconds" in given,
        standby_ttl_seconds=body.standby_ttl_seconds,
        sets_archive_ttl="archive_ttl_seconds" in given,
        archive_ttl_seconds=body.archive_ttl_seconds,
    )


def read_page(event: "APIGatewayProxyEvent") -> tuple[Phase | None, int | None, int]:
    """Decode a list request: phase, cursor and limit. Raises ProblemError."""
    query = read_query(event, contract.WorkspaceQuery)
    return query.phase, None if query.cursor is None else int(query.cursor), query.limit


def view(workspace: Workspace, now: datetime) -> contract.WorkspaceView:
    """The response body of a workspace."""
    fields = asdict(workspace)
    explained = {"error": fields["error_info"], "next_step": explain(workspace, now).next_step.why}
    return contract.WorkspaceView.model_validate(fields | explained)


def page_view(page: Page, now: datetime) -> contract.WorkspacePageView:
    """The response body of a page of workspaces."""
    return contract.WorkspacePageView(
        workspaces=tuple(view(one, now) for one in page.workspaces),
        next_cursor=None if page.below is None else str(page.below),
    )


def events_view(events: list[Event]) -> contract.WorkspaceEventsView:
    """The response body of a workspace's events."""
    return contract.WorkspaceEventsView.model_validate({"events": [asdict(one) for one in events]})


def waiting_headers(workspace: Workspace) -> dict[str, str]:
    """Retry-After, unless the workspace is stable in its desired state, or in ERROR until an operator acts."""
    arrived = workspace.phase.value == workspace.desired_state.value and workspace.operation is Operation.NONE
    if arrived or (workspace.phase is Phase.ERROR and workspace.deleted_at is None):
        return {}
    return {"Retry-After": str(RETRY_SECONDS)}
