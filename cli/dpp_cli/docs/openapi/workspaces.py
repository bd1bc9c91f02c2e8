"""Operations on workspaces: owners set the desired state and read the observed one.

Schemas come from dpp/workspaces/api/contract.py, problems from the context's table.
"""

from dpp.platform.http import problem
from dpp.workspaces.api import contract
from dpp.workspaces.api.http import PROBLEMS
from dpp.workspaces.errors import NotDeletable
from dpp_cli.docs.openapi import parts
from dpp_cli.docs.openapi.examples import WORKSPACES
from dpp_cli.docs.openapi.schemas import merged, of_answers, of_models, query_parameters

_KINDS = {kind.reason_code: kind for kind in PROBLEMS.values()}
_NONE = (_KINDS["WORKSPACE_NOT_FOUND"], problem.NOT_FOUND)
_DELETED, _NOT_DELETABLE = _KINDS["WORKSPACE_DELETED"], _KINDS["WORKSPACE_NOT_DELETABLE"]
_TOO_MANY = _KINDS["TOO_MANY_WORKSPACES"]
_FAMILY = parts.Family(
    always=("X-Trace-Id",),
    of_status={404: parts.maybe(parts.COST_HEADERS)},  # in a deployment without it, another function responds
    texts=parts.texts_of(PROBLEMS) | {_NOT_DELETABLE: str(NotDeletable("RUNNING", "NONE"))},
    in_path={"workspace_id": WORKSPACES["workspace_id"]},
    security="apiKey",
    members={_NOT_DELETABLE: {"phase": "RUNNING", "operation": "NONE"}, _TOO_MANY: {"limit": 100}},
)
_ROOT = "/v1/workspaces"
_ONE = f"{_ROOT}/{{workspace_id}}"
_LINE = rf"^[^{contract.NO_CONTROL}]*[^{contract.NO_CONTROL}\s][^{contract.NO_CONTROL}]*$"
"""A line that is not empty after trimming."""
_WAITING = " Until it reaches its desired state, `Retry-After` says when to poll again."
_MADE, _KNOWN = (
    _FAMILY.answer(text + _WAITING, contract.WorkspaceView, WORKSPACES["new"], ("Location", "Retry-After"))
    for text in ("Created.", "Already created with this key; its current state.")
)
_FOUND, _GONE = (
    _FAMILY.answer(text + _WAITING, contract.WorkspaceView, example, ("Retry-After",))
    for text, example in (
        ("The workspace.", WORKSPACES["workspace"]),
        ("Deleted; its remains are being removed.", WORKSPACES["deleted"]),
    )
)
_CURSOR = {"type": "string", "pattern": "^[0-9]{1,18}$", "description": "The `next_cursor` of an earlier response."}
_KEY = parts.idempotency_key(WORKSPACES["key"], "The same key with the same body always returns the same workspace.")
PATHS = parts.by_path(
    _FAMILY.operation(
        f"POST {_ROOT}",
        "createWorkspace",
        "Create a workspace",
        "The platform moves it to its `desired_state`.",
        {"200": _KNOWN, "201": _MADE},
        problem.NOT_FOUND,
        _KINDS["IDEMPOTENCY_CONFLICT"],
        _TOO_MANY,
        *parts.OF_ANY_BODY,
        parameters=[_KEY],
        body=parts.sent("WorkspaceCreateRequest", WORKSPACES["requests"]),
    ),
    _FAMILY.operation(
        f"GET {_ROOT}",
        "listWorkspaces",
        "List your workspaces",
        "Newest first, without deleted ones; `next_cursor` gets the next page.",
        {"200": _FAMILY.answer("A page of them.", contract.WorkspacePageView, WORKSPACES["page"])},
        problem.NOT_FOUND,
        problem.VALIDATION_FAILED,
        parameters=query_parameters(contract.WorkspaceQuery, {"cursor": _CURSOR}),
    ),
    _FAMILY.operation(
        f"GET {_ONE}",
        "readWorkspace",
        "Read a workspace",
        "Desired state, observation, operation in progress and next step. Unknown, foreign and malformed ids get"
        " the same 404. A deleted workspace can still be read.",
        {"200": _FOUND},
        *_NONE,
    ),
    _FAMILY.operation(
        f"PATCH {_ONE}",
        "changeWorkspace",
        "Change a workspace's desired state",
        "A merge patch (RFC 7396): omitted members stay, null as a time to live means never. It is moved to its"
        " `desired_state` step by step. Any change, even an empty one, counts as use.",
        {"200": _FOUND},
        *_NONE,
        _DELETED,
        *parts.OF_ANY_BODY,
        body=parts.sent("WorkspaceChangeRequest", WORKSPACES["changes"]),
    ),
    _FAMILY.operation(
        f"DELETE {_ONE}",
        "deleteWorkspace",
        "Delete a workspace",
        "Deletes it with its home and archives. It must be PENDING, ARCHIVED or in ERROR, without an operation in"
        " progress. Safe to repeat.",
        {"202": _GONE},
        *_NONE,
        _NOT_DELETABLE,
    ),
    _FAMILY.operation(
        f"GET {_ONE}/events",
        "readWorkspaceEvents",
        "Read the events of a workspace",
        "The last hundred events, newest first.",
        {"200": _FAMILY.answer("Its events.", contract.WorkspaceEventsView, WORKSPACES["events"])},
        *_NONE,
    ),
    _FAMILY.operation(
        f"POST {_ONE}/connect",
        "connectWorkspace",
        "Record the use of a workspace",
        "Sets its desired state to RUNNING and wakes it if necessary.",
        {"200": _FOUND},
        *_NONE,
        _DELETED,
    ),
)


def schemas() -> parts.Json:
    """Return the schemas of requests and responses."""
    taken = of_models((contract.WorkspaceCreateRequest, contract.WorkspaceChangeRequest), "validation")
    changed = taken["WorkspaceChangeRequest"]["properties"]
    for name in ("name", "desired_state"):  # omitted if empty, never null
        changed[name] = changed[name]["anyOf"][0]
    for name in ("standby_ttl_seconds", "archive_ttl_seconds"):  # null is a change; an omitted member is not
        del changed[name]["default"]
    for request in taken.values():
        request["properties"]["name"]["pattern"] = _LINE
    return merged(of_answers(_FAMILY.answers), taken)
