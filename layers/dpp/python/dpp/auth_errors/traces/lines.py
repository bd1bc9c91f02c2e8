"""As much of a stack trace as is read, in lines (AUTH-10). Pure."""

from dataclasses import dataclass
from typing import Final

KEPT_CHARACTERS: Final = 8_000
"""As many as the platform keeps of a stack trace (004 §5.1): what is beyond could be in no other record of it."""

LINE_CHARACTERS: Final = 2_000
"""No frame is longer; the bound is for the regular expressions, which see one line each."""

_TRIMMED_AT_MOST = 50


@dataclass(frozen=True, slots=True)
class Text:
    """`full`: as long as the platform keeps, so that its end is most likely not where the trace ended."""

    lines: tuple[str, ...]
    full: bool


def read(stacktrace: str) -> Text:
    """Lines end at LF, CR LF or CR; blanks around the text are no part of it."""
    text = stacktrace.replace("\r\n", "\n").replace("\r", "\n").strip()[:KEPT_CHARACTERS].rstrip()
    lines = tuple(line[:LINE_CHARACTERS] for line in text.split("\n"))
    return Text(lines, full=len(text) >= KEPT_CHARACTERS - _TRIMMED_AT_MOST)
