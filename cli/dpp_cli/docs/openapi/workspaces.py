"""Operations on workspaces: owners set the desired state and read the observed one.

Schemas come from dpp/workspaces/api/contract.py, problems from the context's table.
"""

from dpp.platform.http import problem
from dpp.workspaces.api.contract import (
    NO_CONTROL,
    WorkspaceChangeRequest,
    WorkspaceCreateRequest,
    WorkspaceEventsView,
    WorkspacePageView,
    WorkspaceQuery,
    WorkspaceView,
)
from dpp.workspaces.api.http import PROBLEMS
from dpp.workspaces.errors import NotDeletable
from dpp_cli.docs.openapi import workspace_examples as examples
from dpp_cli.docs.openapi.parts import COST_HEADERS, OF_ANY_BODY, Family, Json, idempotency_key, in_path, maybe, sent
from dpp_cli.docs.openapi.schemas import merged, of_answers, of_models, query_parameters

_KINDS = {kind.reason_code: kind for kind in PROBLEMS.values()}
_NOT_FOUND, _DELETED = _KINDS["WORKSPACE_NOT_FOUND"], _KINDS["WORKSPACE_DELETED"]
_CONFLICT, _TOO_MANY = _KINDS["IDEMPOTENCY_CONFLICT"], _KINDS["TOO_MANY_WORKSPACES"]
_NOT_DELETABLE = _KINDS["WORKSPACE_NOT_DELETABLE"]
_FAMILY = Family(
    always=("X-Trace-Id",),
    of_status={404: maybe(COST_HEADERS)},  # in a deployment without it, another function responds
    texts={kind: (error.__doc__ or "").partition("\n")[0] for error, kind in PROBLEMS.items()}
    | {_NOT_DELETABLE: str(NotDeletable("RUNNING", "NONE"))},
    members={_NOT_DELETABLE: {"phase": "RUNNING", "operation": "NONE"}, _TOO_MANY: {"limit": 100}},
)
_ROOT = "/v1/workspaces"
_ONE = f"{_ROOT}/{examples.WORKSPACE_ID}"
_LINE = rf"^[^{NO_CONTROL}]*[^{NO_CONTROL}\s][^{NO_CONTROL}]*$"
"""A line that is not empty after trimming."""
_UUID: Json = {"type": "string", "format": "uuid"}
_WAITING = " Until it reaches its desired state, `Retry-After` says when to poll again."


def paths() -> Json:
    """The operations."""
    one = f"{_ROOT}/{{workspace_id}}"
    return {
        _ROOT: {"post": _create(), "get": _list()},
        one: {"get": _read(), "patch": _change(), "delete": _delete()},
        f"{one}/events": {"get": _read_events()},
        f"{one}/connect": {"post": _connect()},
    }


def schemas() -> Json:
    """Return the schemas of requests and responses."""
    taken = of_models((WorkspaceCreateRequest, WorkspaceChangeRequest), "validation")
    changed = taken["WorkspaceChangeRequest"]["properties"]
    for name in ("name", "desired_state"):  # omitted if empty, never null
        changed[name] = changed[name]["anyOf"][0]
    for name in ("standby_ttl_seconds", "archive_ttl_seconds"):  # null is a change; an omitted member is not
        del changed[name]["default"]
    for request in taken.values():
        request["properties"]["name"]["pattern"] = _LINE
    return merged(of_answers((WorkspaceView, WorkspacePageView, WorkspaceEventsView)), taken)


def _create() -> Json:
    made, known = (
        _FAMILY.answer(text + _WAITING, ("Location", "Retry-After"), "WorkspaceView", examples.NEW)
        for text in ("Created.", "Already created with this key; its current state.")
    )
    key = idempotency_key(examples.KEY, "The same key with the same body always returns the same workspace.")
    return _FAMILY.operation(
        "createWorkspace",
        "Create a workspace",
        "The platform moves it to its `desired_state`.",
        parameters=[key],
        answers={"200": known, "201": made},
        problems=(problem.NOT_FOUND, _CONFLICT, _TOO_MANY, *OF_ANY_BODY),
        security="apiKey",
        path=_ROOT,
    ) | {"requestBody": sent("WorkspaceCreateRequest", examples.REQUESTS)}


def _list() -> Json:
    cursor = {"type": "string", "pattern": "^[0-9]{1,18}$", "description": "The `next_cursor` of an earlier response."}
    return _FAMILY.operation(
        "listWorkspaces",
        "List your workspaces",
        "Newest first, without deleted ones; `next_cursor` gets the next page.",
        parameters=query_parameters(WorkspaceQuery, {"cursor": cursor}),
        answers={"200": _FAMILY.answer("A page of them.", (), "WorkspacePageView", examples.PAGE)},
        problems=(problem.NOT_FOUND, problem.VALIDATION_FAILED),
        security="apiKey",
        path=_ROOT,
    )


def _read() -> Json:
    return _FAMILY.operation(
        "readWorkspace",
        "Read a workspace",
        "Desired state, observation, operation in progress and next step. Unknown, foreign and malformed ids get"
        " the same 404. A deleted workspace can still be read.",
        parameters=[_workspace_id()],
        answers={"200": _waiting("The workspace.", examples.WORKSPACE)},
        problems=(_NOT_FOUND, problem.NOT_FOUND),
        security="apiKey",
        path=_ONE,
    )


def _change() -> Json:
    return _FAMILY.operation(
        "changeWorkspace",
        "Change a workspace's desired state",
        "A merge patch (RFC 7396): omitted members stay, null as a time to live means never. It is moved to its"
        " `desired_state` step by step. Any change, even an empty one, counts as use.",
        parameters=[_workspace_id()],
        answers={"200": _waiting("The workspace.", examples.WORKSPACE)},
        problems=(_NOT_FOUND, problem.NOT_FOUND, _DELETED, *OF_ANY_BODY),
        security="apiKey",
        path=_ONE,
    ) | {"requestBody": sent("WorkspaceChangeRequest", examples.CHANGES)}


def _delete() -> Json:
    return _FAMILY.operation(
        "deleteWorkspace",
        "Delete a workspace",
        "Deletes it with its home and archives. It must be PENDING, ARCHIVED or in ERROR, without an operation in"
        " progress. Safe to repeat.",
        parameters=[_workspace_id()],
        answers={"202": _waiting("Deleted; its remains are being removed.", examples.DELETED)},
        problems=(_NOT_FOUND, problem.NOT_FOUND, _NOT_DELETABLE),
        security="apiKey",
        path=_ONE,
    )


def _read_events() -> Json:
    return _FAMILY.operation(
        "readWorkspaceEvents",
        "Read the events of a workspace",
        "The last hundred events, newest first.",
        parameters=[_workspace_id()],
        answers={"200": _FAMILY.answer("Its events.", (), "WorkspaceEventsView", examples.EVENTS)},
        problems=(_NOT_FOUND, problem.NOT_FOUND),
        security="apiKey",
        path=f"{_ONE}/events",
    )


def _connect() -> Json:
    return _FAMILY.operation(
        "connectWorkspace",
        "Record the use of a workspace",
        "Sets its desired state to RUNNING and wakes it if necessary.",
        parameters=[_workspace_id()],
        answers={"200": _waiting("The workspace.", examples.WORKSPACE)},
        problems=(_NOT_FOUND, problem.NOT_FOUND, _DELETED),
        security="apiKey",
        path=f"{_ONE}/connect",
    )


def _workspace_id() -> Json:
    return in_path("workspace_id", examples.WORKSPACE_ID, _UUID)


def _waiting(description: str, example: Json) -> Json:
    return _FAMILY.answer(description + _WAITING, ("Retry-After",), "WorkspaceView", example)
