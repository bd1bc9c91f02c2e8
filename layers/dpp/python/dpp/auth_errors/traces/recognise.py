"""Which language a stack trace is of (AUTH-10). Pure."""

from collections.abc import Callable, Sequence

from dpp.auth_errors.traces import golang, jvm, node, plain, python
from dpp.auth_errors.traces.lines import Text
from dpp.auth_errors.traces.model import Trace

# In this order, because a frame of the JVM may look like one of Node, too.
_LANGUAGES: tuple[tuple[Callable[[str], bool], Callable[[Sequence[str], bool], Trace]], ...] = (
    (python.is_frame, python.parse),
    (golang.is_frame, golang.parse),
    (jvm.is_frame, jvm.parse),
    (node.is_frame, node.parse),
)


def parse(text: Text) -> Trace:
    """The trace by the language of its first frame: what quotes another one in a message has its own around it."""
    for line in text.lines:
        for is_frame, parse_lines in _LANGUAGES:
            if is_frame(line):
                return parse_lines(text.lines, text.full)
    return plain.parse(text.lines, text.full)
