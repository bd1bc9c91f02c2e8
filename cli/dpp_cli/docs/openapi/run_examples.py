"""Examples of runs: requests that can be pasted, and their responses."""

from typing import Any

from dpp.packs.contract import PackType

type Json = dict[str, Any]

RUN_ID = "8a7f4e52-7d0c-4b7e-9f57-2f8f2f6f4c11"
KEY = "order-2026-0001"

_BLANK_PNG = "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgAQAAAABbAUdZAAAAEUlEQVR42mP8z8DAwMQwaAkAswEBP25AfJYAAAAASUVORK5CYII="
"""A white image of 32 by 32 pixels; for an object in S3 use `{"kind": "s3", "key": "inputs/<tenant id>/…"}`."""

REQUESTS: Json = {
    "decision": {
        "pack_type": PackType.DECISION,
        "inputs": {"question": "What does moving cost?", "context": "Moving costs two monthly rents."},
        "reservation": {"max_cost_usd": "0.2500", "timebox_sec": 30},
        "options": {"inline": 1},
        "meta": {"trace_id": "t_order-2026-0001"},
    },
    "url": {
        "pack_type": PackType.URL,
        "inputs": {"urls": ["https://example.com/"]},
        "reservation": {"max_cost_usd": "0.1"},
    },
    "ocr": {
        "pack_type": PackType.OCR,
        "inputs": {
            "images": [{"kind": "inline", "data": _BLANK_PNG}],
            "ocr_profile": "P1",
            "artifacts": {"include_markdown": True},
        },
        "reservation": {"max_cost_usd": "0.15", "timebox_sec": 90},
    },
    "compliance": {
        "pack_type": PackType.COMPLIANCE,
        "inputs": {
            "documents": [{"id": "terms", "text": "환불은 30일 이내에 가능합니다. 문의: help@example.com"}],
            "required_clauses": [{"id": "refund", "any_of": ["환불은 30일", "refund within 30 days"]}],
            "patterns": [{"id": "internal-id", "pattern": "EMP-[0-9]{6}"}],
        },
        "reservation": {"max_cost_usd": "0.05"},
    },
    "eval": {
        "pack_type": PackType.EVAL,
        "inputs": {
            "predictions": [{"id": "q1", "value": "Seoul"}],
            "references": [{"id": "q1", "value": "서울", "alternatives": ["Seoul"]}],
            "metrics": [{"type": "exact_match", "threshold": 0.9}, {"type": "token_f1"}],
        },
        "reservation": {"max_cost_usd": "0.05"},
    },
}
_META = {"trace_id": "t_order-2026-0001", "profile_version": "PROFILE_DPP_0_4_2_2"}
RECEIPT: Json = {
    "run_id": RUN_ID,
    "status": "QUEUED",
    "reservation": {"max_cost_usd": "0.2500", "timebox_sec": 30, "min_reliability_score": 0.8},
    "poll": {"href": f"/v1/runs/{RUN_ID}", "recommended_interval_ms": 1500},
    "meta": _META,
}
VIEW: Json = {
    "run_id": RUN_ID,
    "pack_type": "decision",
    "status": "COMPLETED",
    "money_state": "SETTLED",
    "cost": {
        "reserved_usd": "0.2500",
        "used_usd": "0.0500",
        "minimum_fee_usd": "0.0050",
        "budget_remaining_usd": "9.9500",
    },
    "tokens_consumed": 7,
    "result": {
        "presigned_url": f"https://bucket.example/dpp/t_acme/2026/02/13/{RUN_ID}/pack_envelope.json?X-Amz-Expires=600",
        "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "expires_at": "2026-02-13T00:10:00Z",
    },
    "meta": {"created_at": "2026-02-13T00:00:00Z", "updated_at": "2026-02-13T00:00:03Z", **_META},
}
