"""Examples of tickets: requests that can be pasted, and their responses."""

from typing import Any

from dpp.tickets.model import RequestType

type Json = dict[str, Any]

REQUEST_ID = "fd4888b3-1f0e-4d3c-9a53-6f3b9c1d2e4f"
SNAPSHOT = "reaper_20260123_210000.json"
_RUN_ID = "8a7f4e52-7d0c-4b7e-9f57-2f8f2f6f4c11"

REQUESTS: Json = {
    "execution-enable": {
        "request_id": REQUEST_ID,
        "request_type": RequestType.EXECUTION_ENABLE,
        "reason": "the provider answers again",
    },
    "execution-disable": {
        "request_id": "5c0f5a4e-8f7c-4f0b-8a27-0a7a4f3b1f10",
        "request_type": RequestType.EXECUTION_DISABLE,
        "params": {"pack_type": "ocr"},
        "reason": "the provider is down",
    },
    "budget-credit": {
        "request_id": "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed",
        "request_type": RequestType.BUDGET_CREDIT,
        "params": {"tenant_id": "acme", "amount_usd": "25.0000"},
        "reason": "invoice 2026-0117",
    },
    "dlq-redrive": {
        "request_id": "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d",
        "request_type": RequestType.DLQ_REDRIVE,
        "params": {"run_ids": [_RUN_ID], "limit": 10},
        "reason": "the worker is mended",
    },
}
TICKET: Json = {
    "request_id": REQUEST_ID,
    "request_type": "EXECUTION_ENABLE",
    "params": {},
    "reason": "the provider answers again",
    "requested_by": "kim",
    "current_status": "OPEN",
    "attempts": 0,
    "created_at": "2026-01-22T09:59:00+09:00",
    "updated_at": "2026-01-22T09:59:00+09:00",
}
_PROCESSOR = "OPS_CYCLE/3f2504e0-4f89-41d3-9a0c-0305e82c3301"
WHOLE_TICKET: Json = TICKET | {
    "current_status": "FAILED",
    "attempts": 1,
    "processor_id": _PROCESSOR,
    "last_processed_at": "2026-01-22T10:00:00+09:00",
    "updated_at": "2026-01-23T21:00:00+09:00",
    "result": {
        "request_id": REQUEST_ID,
        "processor_id": "TICKET_REAPER",
        "status": "FAILED",
        "processed_at": "2026-01-23T21:00:00+09:00",
        "message": "AUTO_CLEANUP_STALE_IN_PROGRESS: exceeded 86400s threshold",
    },
    "transitions": [
        {"to_status": "OPEN", "actor": "kim", "attempt": 0, "happened_at": "2026-01-22T09:59:00+09:00"},
        {
            "from_status": "OPEN",
            "to_status": "IN_PROGRESS",
            "actor": _PROCESSOR,
            "attempt": 1,
            "happened_at": "2026-01-22T10:00:00+09:00",
        },
        {
            "from_status": "IN_PROGRESS",
            "to_status": "FAILED",
            "actor": "TICKET_REAPER",
            "attempt": 1,
            "happened_at": "2026-01-23T21:00:00+09:00",
        },
    ],
}
PAGE: Json = {"tickets": [TICKET], "next_cursor": "41"}
_NONE = {"count": 0}
_ENDED = {"last_day": 3, "last_week": 12}
_COUNTERS: Json = {
    "open": {"count": 1, "oldest_at": "2026-01-23T20:59:30+09:00"},
    "in_progress": _NONE,
    "stale": {"count": 1, "oldest_at": "2026-01-22T10:00:00+09:00"},
    "done": _ENDED,
    "failed": {"last_day": 0, "last_week": 1},
}
COUNTERS: Json = {
    "asof": "2026-01-23T21:00:00+09:00",
    "threshold_seconds": 86_400,
    "total": _COUNTERS,
    "by_type": {"EXECUTION_ENABLE": _COUNTERS},
}
REPORT: Json = {
    "schema": "TICKET_REAPER_REPORT_V1",
    "asof": "2026-01-23T21:00:00+09:00",
    "decision": "CLEANED",
    "threshold_seconds": 86_400,
    "stale_count": 1,
    "cleaned_count": 1,
    "cleaned_items": [
        {
            "request_id": REQUEST_ID,
            "request_type": "EXECUTION_ENABLE",
            "last_processed_at": "2026-01-22T10:00:00+09:00",
            "reason": "AUTO_CLEANUP_STALE_IN_PROGRESS",
        }
    ],
    "evidence_refs": [f"reports/ops/tickets/reaper/snapshots/{SNAPSHOT}"],
}
REAPER_RUNS: Json = {
    "by-the-deployments-rules": {},
    "with-rules-of-its-own": {"threshold_seconds": 86_400, "max_clean": 50},
    "dry-run": {"dry_run": True},
    "confirmed": {"confirm_stale_count": 120},
}
STOPS: Json = {
    "set": {"stopped": True, "reason": "credits go to the wrong tenant"},
    "clear": {"stopped": False, "reason": "the cause is mended"},
}
STOP: Json = {
    "stopped": True,
    "actor": "kim",
    "reason": "credits go to the wrong tenant",
    "changed_at": "2026-01-23T20:58:00+09:00",
}
RECEIPT: Json = {
    "schema": "OPS_RUN_RECEIPT_V1",
    "run_id": "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    "started_at": "2026-01-23T21:00:00+09:00",
    "finished_at": "2026-01-23T21:00:01+09:00",
    "outcome": "COMPLETED",
    "emergency_stop": {
        "step": "0",
        "outcome": "OK",
        "stopped": False,
        "actor": "kim",
        "reason": "the cause is mended",
        "changed_at": "2026-01-20T09:00:00+09:00",
    },
    "ticket_reaper": {
        "step": "0.25",
        "outcome": "OK",
        "decision": "CLEANED",
        "threshold_seconds": 86_400,
        "stale_count": 1,
        "cleaned_count": 1,
        "evidence_refs": [f"reports/ops/tickets/reaper/snapshots/{SNAPSHOT}"],
        "breaker_tripped": False,
        "published": True,
    },
    "tickets": {
        "step": "1",
        "outcome": "OK",
        "done": 1,
        "failed": 0,
        "left": 0,
        "lost": 0,
        "stopped_early": False,
        "items": [
            {"request_id": "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "request_type": "BUDGET_CREDIT", "outcome": "DONE"}
        ],
    },
}
