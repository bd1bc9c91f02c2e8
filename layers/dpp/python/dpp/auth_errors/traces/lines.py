"""Splits a stack trace into the lines that are parsed (AUTH-10). Pure."""

from dataclasses import dataclass
from typing import Final

KEPT_CHARACTERS: Final = 8_000
"""The platform stores this many characters of a stack trace (004 §5.1), so no stored trace has more."""

LINE_CHARACTERS: Final = 2_000
"""No frame is longer. The limit bounds the run time of the regular expressions, which match single lines."""

_TRIMMED_AT_MOST = 50


@dataclass(frozen=True, slots=True)
class TraceText:
    """The lines of a trace. `full`: it has the maximum length, so it was most likely truncated."""

    lines: tuple[str, ...]
    full: bool


def read(stacktrace: str) -> TraceText:
    """Split a trace at LF, CR LF or CR; surrounding white space is removed."""
    text = stacktrace.replace("\r\n", "\n").replace("\r", "\n").strip()[:KEPT_CHARACTERS].rstrip()
    lines = tuple(line[:LINE_CHARACTERS] for line in text.split("\n"))
    return TraceText(lines, full=len(text) >= KEPT_CHARACTERS - _TRIMMED_AT_MOST)
