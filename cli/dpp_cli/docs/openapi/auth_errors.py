"""The part of the document about authentication errors: services report with a tenant's key, operators read and decide.

Schemas come from dpp/auth_errors, problems from the table that answers them.
"""

from dpp.auth_errors.api.contract import (
    AuthErrorPageView,
    AuthErrorQuery,
    AuthErrorReceiptView,
    AuthErrorRequest,
    ClusterDecidedView,
    ClusterDecisionRequest,
    ClusterPageView,
    ClusterQuery,
    ClusterView,
    DecisionRequest,
    DecisionView,
    WholeAuthErrorView,
)
from dpp.auth_errors.api.http import PROBLEMS
from dpp.auth_errors.errors import DecisionRefused
from dpp.platform.http import problem
from dpp_cli.docs.openapi import auth_error_examples as examples
from dpp_cli.docs.openapi.parts import OF_ANY_BODY, Family, Json, in_path, sent
from dpp_cli.docs.openapi.schemas import merged, of_answers, of_models, query_parameters

_KINDS = {kind.reason_code: kind for kind in PROBLEMS.values()}
_REFUSED = _KINDS["DECISION_REFUSED"]
_FAMILY = Family(
    always=("X-Trace-Id",),
    texts={kind: (error.__doc__ or "").partition("\n")[0] for error, kind in PROBLEMS.items()}
    | {_REFUSED: str(DecisionRefused("RESOLVE", "IGNORED"))},
    members={_REFUSED: {"current_status": "IGNORED"}},
)
_ROOT = "/api/auth-errors"
_ONE = f"{_ROOT}/{examples.AUTH_ERROR_ID}"
_CLUSTER = f"{_ROOT}/clusters/{examples.CLUSTER_ID}"
_UUID: Json = {"type": "string", "format": "uuid"}
_LINE = r"^[^\x00-\x1f\x7f]*[^\x00-\x1f\x7f\s][^\x00-\x1f\x7f]*$"
"""A line that is not empty after trimming."""
_INSTANT: Json = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^20\d\d-",
    "description": "A time of this century, with its offset.",
}


def paths() -> Json:
    """The operations."""
    return {
        _ROOT: {"post": _report(), "get": _list()},
        f"{_ROOT}/clusters": {"get": _list_clusters()},
        f"{_ROOT}/clusters/{{cluster_id}}": {"get": _read_cluster()},
        f"{_ROOT}/clusters/{{cluster_id}}/decisions": {"post": _decide_cluster()},
        f"{_ROOT}/{{auth_error_id}}": {"get": _read()},
        f"{_ROOT}/{{auth_error_id}}/decisions": {"post": _decide()},
    }


def schemas() -> Json:
    """Return the schemas of requests and responses."""
    answers = (
        AuthErrorReceiptView,
        AuthErrorPageView,
        WholeAuthErrorView,
        ClusterView,
        ClusterPageView,
        ClusterDecidedView,
        DecisionView,
    )
    taken = of_models((AuthErrorRequest, DecisionRequest, ClusterDecisionRequest), "validation")
    report = taken["AuthErrorRequest"]["properties"]
    # The model trims; something must be left.
    for name in ("requestId", "exceptionClass"):
        report[name]["pattern"] = _LINE
    report["rootCauseClass"]["anyOf"][0]["pattern"] = _LINE
    report["stacktrace"]["pattern"] = r"\S"
    report["occurredAt"] = dict(_INSTANT)
    for name in ("DecisionRequest", "ClusterDecisionRequest"):
        taken[name]["properties"]["reason"]["pattern"] = r"\S"
    return merged(of_answers(answers), taken)


def _report() -> Json:
    recorded, known = (
        _FAMILY.answer(text, ("Location",), "AuthErrorReceiptView", examples.RECEIPT)
        for text in ("Recorded.", "Already recorded by the same report; its current state.")
    )
    made = _FAMILY.operation(
        "reportAuthError",
        "Report an authentication error",
        "A report with a known `requestId` is recorded once per tenant. Line ends are normalized, text is trimmed"
        " and cut to its maximum length.",
        answers={"200": known, "201": recorded},
        problems=(_KINDS["AUTH_ERROR_CONFLICT"], *OF_ANY_BODY),
        security="apiKey",
        path=_ROOT,
    )
    return made | {"requestBody": sent("AuthErrorRequest", examples.REPORTS, max_mib=4)}


def _list() -> Json:
    return _FAMILY.operation(
        "listAuthErrors",
        "List authentication errors",
        "Newest occurrence first; `nextCursor` gets the next page.",
        parameters=query_parameters(
            AuthErrorQuery,
            {
                "occurredSince": _INSTANT,
                "occurredBefore": _INSTANT,
                "clusterId": _UUID,
                "cursor": {
                    "type": "string",
                    "pattern": "^[0-9]{1,17}_[0-9]{1,18}$",
                    "description": "The `nextCursor` of an earlier response.",
                },
            },
        ),
        answers={"200": _FAMILY.answer("A page of matching errors.", (), "AuthErrorPageView", examples.PAGE)},
        problems=(problem.VALIDATION_FAILED,),
        path=_ROOT,
    )


def _read() -> Json:
    found = _FAMILY.answer("The error as it stands.", (), "WholeAuthErrorView", examples.WHOLE)
    return _FAMILY.operation(
        "readAuthError",
        "Read an authentication error",
        "With its clusters, decisions, transitions and events.",
        parameters=[in_path("auth_error_id", examples.AUTH_ERROR_ID, _UUID)],
        answers={"200": found},
        problems=(_KINDS["AUTH_ERROR_NOT_FOUND"], problem.NOT_FOUND),
        path=_ONE,
    )


def _decide() -> Json:
    made, known = (
        _FAMILY.answer(text, (), "DecisionView", examples.DECISION)
        for text in ("Decided.", "Already decided by the same decision.")
    )
    return _FAMILY.operation(
        "decideAuthError",
        "Decide about an authentication error",
        "A repeated `decisionId` decides once. An escalation does not change the error's status.",
        parameters=[in_path("auth_error_id", examples.AUTH_ERROR_ID, _UUID)],
        answers={"200": known, "201": made},
        problems=(
            _KINDS["AUTH_ERROR_NOT_FOUND"],
            problem.NOT_FOUND,
            _KINDS["DECISION_CONFLICT"],
            _REFUSED,
            *OF_ANY_BODY,
        ),
        path=f"{_ONE}/decisions",
    ) | {"requestBody": sent("DecisionRequest", examples.DECISIONS)}


def _list_clusters() -> Json:
    found = _FAMILY.answer("The clusters.", (), "ClusterPageView", examples.CLUSTERS)
    return _FAMILY.operation(
        "listAuthErrorClusters",
        "List clusters of authentication errors",
        "A cluster holds the errors with one stack hash. Last seen first.",
        parameters=query_parameters(ClusterQuery),
        answers={"200": found},
        problems=(problem.VALIDATION_FAILED,),
        path=f"{_ROOT}/clusters",
    )


def _read_cluster() -> Json:
    return _FAMILY.operation(
        "readAuthErrorCluster",
        "Read a cluster",
        "`listAuthErrors` with its `clusterId` lists its errors.",
        parameters=[in_path("cluster_id", examples.CLUSTER_ID, _UUID)],
        answers={"200": _FAMILY.answer("The cluster.", (), "ClusterView", examples.CLUSTER)},
        problems=(_KINDS["CLUSTER_NOT_FOUND"], problem.NOT_FOUND),
        path=_CLUSTER,
    )


def _decide_cluster() -> Json:
    done = _FAMILY.answer(
        "The number of decided errors. If `more` is true, repeat the request for the rest.",
        (),
        "ClusterDecidedView",
        examples.CLUSTER_DECIDED,
    )
    return _FAMILY.operation(
        "decideAuthErrorCluster",
        "Decide about the errors of a cluster",
        "Decides all errors that allow the decision, up to 500 per call, oldest first. Each gets its own decision.",
        parameters=[in_path("cluster_id", examples.CLUSTER_ID, _UUID)],
        answers={"200": done},
        problems=(_KINDS["CLUSTER_NOT_FOUND"], problem.NOT_FOUND, *OF_ANY_BODY),
        path=f"{_CLUSTER}/decisions",
    ) | {"requestBody": sent("ClusterDecisionRequest", examples.CLUSTER_DECISIONS)}
