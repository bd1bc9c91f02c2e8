"""Text of a report as it is kept: line ends made one, trimmed, cut, and nothing rather than empty (004 §5.1; AUTH-1).

A character is a Unicode code point: a cut leaves none in halves. NUL and lone surrogates never come so far (D12).
"""

import hashlib
import json
from dataclasses import asdict
from datetime import UTC

from dpp.auth_errors.model import AuthErrorReport

MAX_MESSAGE_CHARACTERS = 1_000
MAX_STACKTRACE_CHARACTERS = 8_000


def clean(text: str, max_characters: int) -> str | None:
    """The text with `\\n` for every line end, trimmed, at most so many characters; None for what is empty then."""
    trimmed = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    return trimmed[:max_characters].rstrip() or None


def without_query(path: str) -> str:
    """A request's path without what follows it: a query may hold codes and tokens, which have no place here."""
    return path.partition("?")[0].partition("#")[0]


def payload_hash(report: AuthErrorReport) -> str:
    """SHA-256 of a report as it is kept: whatever was cut off, and however its time was written."""
    fields = asdict(report) | {"occurred_at": report.occurred_at.astimezone(UTC).isoformat()}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
