"""Examples of authentication errors: requests that can be pasted, and their responses."""

from typing import Any

type Json = dict[str, Any]

AUTH_ERROR_ID = "fd4888b3-1f0e-4d3c-9a53-6f3b9c1d2e4f"
CLUSTER_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
DECISION_ID = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"
_CLASS = "com.acme.auth.TokenRejected"
_TRACE = f"{_CLASS}: signature does not match\n\tat com.acme.auth.Tokens.verify(Tokens.java:88)"

REPORTS: Json = {
    "whole": {
        "requestId": "req-7f3a2c",
        "occurredAt": "2026-02-13T09:30:00+09:00",
        "httpStatus": 401,
        "exceptionClass": _CLASS,
        "exceptionMessage": "signature does not match",
        "rootCauseClass": "java.security.SignatureException",
        "rootCauseMessage": "invalid encoding",
        "stacktrace": _TRACE,
        "service": "checkout",
        "httpMethod": "POST",
        "requestPath": "/orders",
    },
    "least": {
        "requestId": "req-7f3a2d",
        "occurredAt": "2026-02-13T00:31:00Z",
        "httpStatus": 403,
        "exceptionClass": _CLASS,
        "stacktrace": _TRACE,
    },
}
RECEIPT: Json = {
    "authErrorId": AUTH_ERROR_ID,
    "requestId": "req-7f3a2c",
    "status": "NEW",
    "createdAt": "2026-02-13T00:30:01.250000Z",
}
DECISIONS: Json = {"resolve": {"decisionId": DECISION_ID, "decisionType": "RESOLVE", "reason": "the key was renewed"}}
CLUSTER_DECISIONS: Json = {"ignore": {"decisionType": "IGNORE", "reason": "a scanner, blocked by now"}}
CLUSTER_DECIDED: Json = {"decided": 500, "more": True}
ERROR: Json = {
    "authErrorId": AUTH_ERROR_ID,
    "requestId": "req-7f3a2c",
    "reportedBy": "acme",
    "occurredAt": "2026-02-13T00:30:00Z",
    "httpStatus": 401,
    "exceptionClass": _CLASS,
    "exceptionMessage": "signature does not match",
    "service": "checkout",
    "status": "RESOLVED",
    "retryCount": 0,
    "analyzedAt": "2026-02-13T00:30:03Z",
    "createdAt": "2026-02-13T00:30:01.250000Z",
    "updatedAt": "2026-02-13T00:45:00Z",
}
CLUSTER: Json = {
    "clusterId": CLUSTER_ID,
    "hashVersion": "v1",
    "stackHash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "exceptionClass": _CLASS,
    "errorCount": 12,
    "firstSeenAt": "2026-02-13T00:12:00Z",
    "lastSeenAt": "2026-02-13T00:30:01.250000Z",
}
DECISION: Json = {
    "decisionId": DECISION_ID,
    "decisionType": "RESOLVE",
    "decidedBy": "OPERATOR",
    "actor": "kim",
    "reason": "the key was renewed",
    "inputs": {
        "status": "ANALYSIS_COMPLETED",
        "retryCount": 0,
        "clusters": [{"clusterId": CLUSTER_ID, "hashVersion": "v1", "errorCount": 12}],
    },
    "fromStatus": "ANALYSIS_COMPLETED",
    "toStatus": "RESOLVED",
    "decidedAt": "2026-02-13T00:45:00Z",
}


def _transition(source: str | None, target: str, actor: str, at: str) -> Json:
    moved = {"toStatus": target, "actor": actor, "happenedAt": at}
    return moved if source is None else {"fromStatus": source} | moved


def _event(outbox_id: int, event_type: str, second: str) -> Json:
    return {
        "outboxId": outbox_id,
        "eventType": event_type,
        "status": "PUBLISHED",
        "retryCount": 0,
        "publishedAt": f"2026-02-13T00:30:0{second}Z",
        "handledAt": f"2026-02-13T00:30:0{second}.500000Z",
        "createdAt": f"2026-02-13T00:30:0{second}Z",
        "processedStatus": "DONE",
        "attempts": 1,
    }


WHOLE: Json = ERROR | {
    "httpMethod": "POST",
    "requestPath": "/orders",
    "rootCauseClass": "java.security.SignatureException",
    "rootCauseMessage": "invalid encoding",
    "stacktrace": _TRACE,
    "clusters": [CLUSTER],
    "decisions": [DECISION],
    "transitions": [
        _transition(None, "NEW", "acme", "2026-02-13T00:30:01.250000Z"),
        _transition("NEW", "ANALYSIS_REQUESTED", "PLATFORM/CONSUMER", "2026-02-13T00:30:02Z"),
        _transition("ANALYSIS_REQUESTED", "ANALYSIS_COMPLETED", "PLATFORM/CONSUMER", "2026-02-13T00:30:03Z"),
        _transition("ANALYSIS_COMPLETED", "RESOLVED", "kim", "2026-02-13T00:45:00Z"),
    ],
    "events": [_event(41, "auth.error.recorded.v1", "1"), _event(42, "auth.error.analysis.requested.v1", "2")],
}
PAGE: Json = {"authErrors": [ERROR], "nextCursor": "1770942600000000_41"}
CLUSTERS: Json = {"clusters": [CLUSTER]}
