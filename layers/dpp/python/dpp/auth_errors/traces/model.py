"""A parsed stack trace, independent of its language (AUTH-10). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class FrameKind(Enum):
    """The kind of code that a frame belongs to; it decides how the frame counts."""

    APPLICATION = "application"
    LIBRARY = "library"
    ENTRY_POINT = "entry point"
    """A dispatcher of requests. Frames below it show how the request arrived, not what failed."""
    HIDDEN = "hidden"
    """Generated or run-time code that appears in one run and not in another."""
    LINE = "line"
    """A line of a text without recognizable frames."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in code, without parts that differ between builds or runs."""

    name: str
    kind: FrameKind


@dataclass(frozen=True, slots=True)
class Link:
    """One error of a chain. `frames`: innermost first. `error`: its class, or "" if the text has none.

    `member`: one of the errors of a group, whose order has no meaning.
    """

    error: str
    frames: tuple[Frame, ...]
    member: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """A chain of errors, the outermost first."""

    language: str
    links: tuple[Link, ...]


def library_kind(module: str, hidden: tuple[str, ...], entry_points: tuple[str, ...]) -> FrameKind:
    """The kind of a library's frame, by the prefix of its module."""
    if module.startswith(hidden):
        return FrameKind.HIDDEN
    return FrameKind.ENTRY_POINT if module.startswith(entry_points) else FrameKind.LIBRARY


def visible(frames: Sequence[Frame]) -> Sequence[Frame]:
    """The frames that aren't hidden, or all frames if every one is hidden."""
    return [frame for frame in frames if frame.kind is not FrameKind.HIDDEN] or frames
