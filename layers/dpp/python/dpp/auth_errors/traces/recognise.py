"""Recognises the language of a stack trace (AUTH-10). Pure."""

from collections.abc import Callable, Sequence

from dpp.auth_errors.traces import golang, jvm, node, plain, python
from dpp.auth_errors.traces.lines import TraceText
from dpp.auth_errors.traces.model import Trace

# The order matters: a frame of the JVM may also match Node's pattern.
_LANGUAGES: tuple[tuple[Callable[[str], bool], Callable[[Sequence[str], bool], Trace]], ...] = (
    (python.is_frame, python.parse),
    (golang.is_frame, golang.parse),
    (jvm.is_frame, jvm.parse),
    (node.is_frame, node.parse),
)


def parse(text: TraceText) -> Trace:
    """Parse a trace in the language of its first frame; a trace that a message quotes comes after it."""
    for line in text.lines:
        for is_frame, parse_lines in _LANGUAGES:
            if is_frame(line):
                return parse_lines(text.lines, text.full)
    return plain.parse(text.lines, text.full)
