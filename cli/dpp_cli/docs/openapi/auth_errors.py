"""The part of the document about authentication errors: services report with a tenant's key, operators read and decide.

Schemas come from dpp/auth_errors, problems from the table that answers them.
"""

from dpp.auth_errors.api import contract
from dpp.auth_errors.api.http import PROBLEMS
from dpp.auth_errors.errors import DecisionRefused
from dpp.platform.http import problem
from dpp_cli.docs.openapi.examples import AUTH_ERRORS
from dpp_cli.docs.openapi.parts import OF_ANY_BODY, Family, Json, by_path, sent, texts_of
from dpp_cli.docs.openapi.schemas import merged, of_answers, of_models, query_parameters

_KINDS = {kind.reason_code: kind for kind in PROBLEMS.values()}
_REFUSED = _KINDS["DECISION_REFUSED"]
_FAMILY = Family(
    always=("X-Trace-Id",),
    texts=texts_of(PROBLEMS) | {_REFUSED: str(DecisionRefused("RESOLVE", "IGNORED"))},
    members={_REFUSED: {"current_status": "IGNORED"}},
    in_path={"auth_error_id": AUTH_ERRORS["auth_error_id"], "cluster_id": AUTH_ERRORS["cluster_id"]},
)
_ROOT = "/api/auth-errors"
_NO_ERROR = (_KINDS["AUTH_ERROR_NOT_FOUND"], problem.NOT_FOUND)
_NO_CLUSTER = (_KINDS["CLUSTER_NOT_FOUND"], problem.NOT_FOUND)
_LINE = r"^[^\x00-\x1f\x7f]*[^\x00-\x1f\x7f\s][^\x00-\x1f\x7f]*$"
"""A line that is not empty after trimming."""
_INSTANT: Json = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^20\d\d-",
    "description": "A time of this century, with its offset.",
}
_RECORDED, _KNOWN = (
    _FAMILY.answer(text, contract.AuthErrorReceiptView, AUTH_ERRORS["receipt"], ("Location",))
    for text in ("Recorded.", "Already recorded by the same report; its current state.")
)
_DECIDED, _DECIDED_BEFORE = (
    _FAMILY.answer(text, contract.DecisionView, AUTH_ERRORS["decision"])
    for text in ("Decided.", "Already decided by the same decision.")
)
_CLUSTER_DECIDED = _FAMILY.answer(
    "The number of decided errors. If `more` is true, repeat the request for the rest.",
    contract.ClusterDecidedView,
    AUTH_ERRORS["cluster_decided"],
)
_FILTERS = query_parameters(
    contract.AuthErrorQuery,
    {
        "occurredSince": _INSTANT,
        "occurredBefore": _INSTANT,
        "clusterId": {"type": "string", "format": "uuid"},
        "cursor": {
            "type": "string",
            "pattern": "^[0-9]{1,17}_[0-9]{1,18}$",
            "description": "The `nextCursor` of an earlier response.",
        },
    },
)
PATHS = by_path(
    _FAMILY.operation(
        f"POST {_ROOT}",
        "reportAuthError",
        "Report an authentication error",
        "A report with a known `requestId` is recorded once per tenant. Line ends are normalized, text is trimmed"
        " and cut to its maximum length.",
        {"200": _KNOWN, "201": _RECORDED},
        _KINDS["AUTH_ERROR_CONFLICT"],
        *OF_ANY_BODY,
        body=sent("AuthErrorRequest", AUTH_ERRORS["reports"], max_mib=4),
        security="apiKey",
    ),
    _FAMILY.operation(
        f"GET {_ROOT}",
        "listAuthErrors",
        "List authentication errors",
        "Newest occurrence first; `nextCursor` gets the next page.",
        {"200": _FAMILY.answer("A page of matching errors.", contract.AuthErrorPageView, AUTH_ERRORS["page"])},
        problem.VALIDATION_FAILED,
        parameters=_FILTERS,
    ),
    _FAMILY.operation(
        f"GET {_ROOT}/clusters",
        "listAuthErrorClusters",
        "List clusters of authentication errors",
        "A cluster holds the errors with one stack hash. Last seen first.",
        {"200": _FAMILY.answer("The clusters.", contract.ClusterPageView, AUTH_ERRORS["clusters"])},
        problem.VALIDATION_FAILED,
        parameters=query_parameters(contract.ClusterQuery),
    ),
    _FAMILY.operation(
        f"GET {_ROOT}/clusters/{{cluster_id}}",
        "readAuthErrorCluster",
        "Read a cluster",
        "`listAuthErrors` with its `clusterId` lists its errors.",
        {"200": _FAMILY.answer("The cluster.", contract.ClusterView, AUTH_ERRORS["cluster"])},
        *_NO_CLUSTER,
    ),
    _FAMILY.operation(
        f"POST {_ROOT}/clusters/{{cluster_id}}/decisions",
        "decideAuthErrorCluster",
        "Decide about the errors of a cluster",
        "Decides all errors that allow the decision, up to 500 per call, oldest first. Each gets its own decision.",
        {"200": _CLUSTER_DECIDED},
        *_NO_CLUSTER,
        *OF_ANY_BODY,
        body=sent("ClusterDecisionRequest", AUTH_ERRORS["cluster_decisions"]),
    ),
    _FAMILY.operation(
        f"GET {_ROOT}/{{auth_error_id}}",
        "readAuthError",
        "Read an authentication error",
        "With its clusters, decisions, transitions and events.",
        {"200": _FAMILY.answer("The error as it stands.", contract.WholeAuthErrorView, AUTH_ERRORS["whole"])},
        *_NO_ERROR,
    ),
    _FAMILY.operation(
        f"POST {_ROOT}/{{auth_error_id}}/decisions",
        "decideAuthError",
        "Decide about an authentication error",
        "A repeated `decisionId` decides once. An escalation does not change the error's status.",
        {"200": _DECIDED_BEFORE, "201": _DECIDED},
        *_NO_ERROR,
        _KINDS["DECISION_CONFLICT"],
        _REFUSED,
        *OF_ANY_BODY,
        body=sent("DecisionRequest", AUTH_ERRORS["decisions"]),
    ),
)


def schemas() -> Json:
    """Return the schemas of requests and responses."""
    taken = of_models(
        (contract.AuthErrorRequest, contract.DecisionRequest, contract.ClusterDecisionRequest), "validation"
    )
    report = taken["AuthErrorRequest"]["properties"]
    # The model trims; something must be left.
    for name in ("requestId", "exceptionClass"):
        report[name]["pattern"] = _LINE
    report["rootCauseClass"]["anyOf"][0]["pattern"] = _LINE
    report["stacktrace"]["pattern"] = r"\S"
    report["occurredAt"] = dict(_INSTANT)
    for name in ("DecisionRequest", "ClusterDecisionRequest"):
        taken[name]["properties"]["reason"]["pattern"] = r"\S"
    return merged(of_answers(_FAMILY.answers), taken)
