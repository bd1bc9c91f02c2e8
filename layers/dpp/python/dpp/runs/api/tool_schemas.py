"""Schemas and descriptions of the three tools, as a model sees them (RUN-33, 001 §22.2).

The schemas are those of the specification, with the further limits of POST /v1/runs, so that a model need not learn
them from an error. `idempotency_key` is an addition: POST has it in a header, which a model can't set.
"""

from collections.abc import Mapping
from typing import Any

from dpp.packs.contract import PackType
from dpp.platform.http.request import IDEMPOTENCY_KEY_PATTERN

INSTRUCTIONS = """\
Submits metered runs. Each tool reserves max_cost_usd of the budget and returns a receipt at once, never the result; \
the part of the reservation that the run does not use is refunded. Poll GET {poll.href} of the receipt, on the same \
host and with the same bearer key, every 1.5 seconds until status is COMPLETED or FAILED. A repeated call with equal \
arguments returns the same run and costs nothing more; to run the same arguments again, pass a new idempotency_key. \
An error is a problem document (RFC 9457): reason_code names the error, errors lists the wrong arguments, \
retry_after_seconds says when to repeat the call."""

_RECEIPT = "Returns a receipt; fetch the result from its poll.href. "
_COST = {
    "type": "number",
    "minimum": 0.01,
    "description": "Maximum cost of the run in US dollars, with at most 4 decimal places, such as 0.25.",
}
_SECONDS = {
    "type": "integer",
    "minimum": 1,
    "maximum": 90,
    "description": "Maximum duration of the run in seconds; default 90.",
}
_RELIABILITY = {
    "type": "number",
    "minimum": 0,
    "maximum": 1,
    "description": "A less reliable result fails at the minimum fee; default 0.8.",
}
_KEY = {
    "type": "string",
    "pattern": f"^{IDEMPOTENCY_KEY_PATTERN}$",
    "description": "Without it, a repeated call returns the same run for 30 days. A new key of 8 to 64 letters, digits "
    "or marks, without spaces, creates a new run of the same arguments.",
}


def _schema(required: str, properties: Mapping[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "required": [required, "max_cost_usd"],
        "properties": {**properties, "max_cost_usd": _COST, "timebox_sec": _SECONDS, "idempotency_key": _KEY},
        "additionalProperties": False,
    }


INPUT_SCHEMAS: Mapping[PackType, dict[str, Any]] = {
    PackType.URL: _schema(
        "urls",
        {
            "urls": {
                "type": "array",
                "items": {"type": "string", "format": "uri", "minLength": 1, "maxLength": 2048},
                "minItems": 1,
                "maxItems": 30,
                "description": "The public https addresses to fetch, in order.",
            },
            "min_reliability_score": _RELIABILITY,
        },
    ),
    PackType.OCR: _schema(
        "input_files",
        {
            "input_files": {
                "type": "array",
                "items": {"type": "string", "minLength": 1},
                "minItems": 1,
                "maxItems": 10,
                "description": "Images or PDF, read in this order. Each is a key inputs/{your tenant id}/… or "
                "s3://{bucket}/{key} in the deployment's bucket, or data:{media type};base64,{the file}.",
            },
            "ocr_profile": {
                "type": "string",
                "enum": ["P1", "P2A", "P2B", "P3"],
                "description": "P1: documents; P2A: worn or photographed documents; P2B: forms and tables; "
                "P3: scattered text. Default P1.",
            },
            "language": {
                "type": "string",
                "default": "kor+eng",
                "enum": ["kor+eng", "eng+kor", "kor", "eng"],
                "description": "Of two languages, the first is tried first.",
            },
            "artifacts": {
                "type": "object",
                "properties": {
                    "include_markdown": {"type": "boolean", "description": "All pages as one Markdown text."},
                    "include_docx": {"type": "boolean", "description": "All pages as one Word document."},
                },
                "additionalProperties": False,
                "description": "Additional files to produce.",
            },
        },
    ),
    PackType.DECISION: _schema(
        "question",
        {
            "question": {"type": "string", "minLength": 1, "maxLength": 4000, "description": "The question to answer."},
            "context": {"type": "string", "maxLength": 200_000, "description": "The text to answer it from."},
            "min_reliability_score": _RELIABILITY,
        },
    ),
}
TITLES: Mapping[PackType, tuple[str, str]] = {
    PackType.OCR: (
        "Read images and PDF",
        f"Extracts Korean and English text from images and PDF, and marks doubtful parts. {_RECEIPT}",
    ),
    PackType.URL: ("Fetch web pages", f"Fetches web pages and extracts their title and text. {_RECEIPT}"),
    PackType.DECISION: (
        "Answer a question",
        f"Answers one question from the given context, with its confidence. {_RECEIPT}",
    ),
}
"""Title and description by pack."""
