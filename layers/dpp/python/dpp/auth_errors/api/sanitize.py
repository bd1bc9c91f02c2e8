"""Sanitises the text of a report: normal line ends, trimmed, cut, and None for empty text (004 §5.1; AUTH-1).

Lengths are in Unicode code points, so a cut splits no character. NUL and lone surrogates are rejected before (D12).
"""

import hashlib
import json
from dataclasses import asdict
from datetime import UTC

from dpp.auth_errors.model import AuthErrorReport

MAX_MESSAGE_CHARACTERS = 1_000
MAX_STACKTRACE_CHARACTERS = 8_000


def clean(text: str, max_characters: int) -> str | None:
    """The text with `\\n` line ends, trimmed, at most `max_characters` long; None if it is empty then."""
    trimmed = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    return trimmed[:max_characters].rstrip() or None


def without_query(path: str) -> str:
    """The path without query and fragment: a query may hold codes and tokens, which must not be stored."""
    return path.partition("?")[0].partition("#")[0]


def payload_hash(report: AuthErrorReport) -> str:
    """SHA-256 of the sanitised report, so that cut text and the format of the time make no difference."""
    fields = asdict(report) | {"occurred_at": report.occurred_at.astimezone(UTC).isoformat()}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
