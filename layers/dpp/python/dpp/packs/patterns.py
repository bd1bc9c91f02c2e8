"""Clients' regular expressions, compiled by RE2, which takes time in proportion to the text whatever the pattern.

RE2 is imported by the first pattern: the API functions import this module and see few patterns.
"""

from collections.abc import Iterator
from typing import Protocol

_PROGRAM_BYTES = 8 << 20


class PatternRefusedError(ValueError):
    """A pattern that RE2 refuses, or that matches the empty text; the message doesn't quote it."""


class Match(Protocol):
    """A place where a pattern matches."""

    def start(self) -> int:
        """Its first character."""

    def end(self) -> int:
        """The character after its last one."""


class Compiled(Protocol):
    """The part of RE2's compiled pattern that is used; the package has no types."""

    def finditer(self, text: str, /) -> Iterator[Match]:
        """Every match, from left to right."""

    def search(self, text: str, /) -> Match | None:
        """The first match."""


def compile_pattern(pattern: str, *, case_sensitive: bool) -> Compiled:
    """Compile a client's pattern. Raises PatternRefusedError."""
    import re2  # noqa: PLC0415 - see above

    options = re2.Options()
    options.max_mem = _PROGRAM_BYTES
    options.log_errors = False  # they quote the pattern
    options.never_capture = True
    options.case_sensitive = case_sensitive
    try:
        compiled: Compiled = re2.compile(pattern, options)
    except re2.error:
        raise PatternRefusedError("not a regular expression that RE2 accepts") from None
    if compiled.search("") is not None:
        raise PatternRefusedError("matches the empty text, and so everywhere")
    return compiled
