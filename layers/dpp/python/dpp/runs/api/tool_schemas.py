"""What a model is shown of the three tools (RUN-33, 001 §22.2): their schemas and their words.

The schemas are the specification's, word for word; what POST /v1/runs refuses besides is said, too, so that a model
need not learn it from a refusal. `idempotency_key` is ours: POST has it in a header, which a model can't set.
"""

from collections.abc import Mapping
from typing import Any

from dpp.packs.contract import PackType
from dpp.platform.http.request import IDEMPOTENCY_KEY_PATTERN

INSTRUCTIONS = """\
Submits metered runs. Each tool reserves max_cost_usd of the budget, answers at once with a receipt, never with the \
result, and gives back what the run does not use. Poll GET {poll.href} of the receipt, beside this endpoint and with \
the same bearer key, every 1.5 seconds until status is COMPLETED or FAILED. A call that is repeated with the same \
arguments is the same run and costs nothing more; to run the same anew, give an idempotency_key that was not used yet. \
A refusal is a problem document (RFC 9457): reason_code says what is wrong, errors which argument it is, \
retry_after_seconds when to send the same call again."""

_RECEIPT = "Answers with a receipt; the result is fetched from its poll.href. "
_COST = {
    "type": "number",
    "minimum": 0.01,
    "description": "US dollars that the run may cost at most, with at most 4 decimal places, such as 0.25.",
}
_SECONDS = {
    "type": "integer",
    "minimum": 1,
    "maximum": 90,
    "description": "Seconds that the run may take; 90 if left out.",
}
_RELIABILITY = {
    "type": "number",
    "minimum": 0,
    "maximum": 1,
    "description": "A result that is less reliable fails at the minimum fee; 0.8 if left out.",
}
_KEY = {
    "type": "string",
    "pattern": f"^{IDEMPOTENCY_KEY_PATTERN}$",
    "description": "Leave it out, and a repeated call is the same run for 30 days. A new one, of 8 to 64 "
    "letters, digits or marks without a space, makes a new run of the same arguments.",
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
                "description": "What to fetch, in order: public https addresses.",
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
                "description": "Pictures or PDF, read in this order: each a key inputs/{your tenant id}/… or "
                "s3://{bucket}/{key} of the deployment's bucket, or data:{media type};base64,{the file}.",
            },
            "ocr_profile": {
                "type": "string",
                "enum": ["P1", "P2A", "P2B", "P3"],
                "description": "P1: documents; P2A: worn or photographed ones; P2B: forms and tables; "
                "P3: scattered text. P1 if left out.",
            },
            "language": {
                "type": "string",
                "default": "kor+eng",
                "enum": ["kor+eng", "eng+kor", "kor", "eng"],
                "description": "Of two, the first is tried first.",
            },
            "artifacts": {
                "type": "object",
                "properties": {
                    "include_markdown": {"type": "boolean", "description": "All pages as one Markdown text."},
                    "include_docx": {"type": "boolean", "description": "All pages as one Word document."},
                },
                "additionalProperties": False,
                "description": "What is wanted beside the texts.",
            },
        },
    ),
    PackType.DECISION: _schema(
        "question",
        {
            "question": {
                "type": "string",
                "minLength": 1,
                "maxLength": 4000,
                "description": "What to decide or answer.",
            },
            "context": {"type": "string", "maxLength": 200_000, "description": "The text to answer from."},
            "min_reliability_score": _RELIABILITY,
        },
    ),
}
TITLES: Mapping[PackType, tuple[str, str]] = {
    PackType.OCR: (
        "Read pictures and PDF",
        f"Reads Korean and English text out of pictures and PDF, marking what is in doubt. {_RECEIPT}",
    ),
    PackType.URL: ("Fetch web pages", f"Fetches web pages and takes title and text out of them. {_RECEIPT}"),
    PackType.DECISION: (
        "Answer a question",
        f"Answers one question from the context that is given, with its confidence. {_RECEIPT}",
    ),
}
"""Title and description."""
