"""What a stack trace is made of once its language has been read out of it (AUTH-10). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """Whose code a frame is, which decides how far it counts."""

    APPLICATION = "application"
    LIBRARY = "library"
    DOOR = "door"
    """A dispatcher through which requests come in: what lies below it is how the request came, not what failed."""
    HIDDEN = "hidden"
    """Generated or run-time plumbing that is there in one run and not in the next."""
    LINE = "line"
    """A line of a text in which no frames could be told apart."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in code, without anything that changes from build to build or run to run."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Link:
    """One error of a chain. `frames`: innermost first. `error`: its class, or "" where the text doesn't say.

    `member`: one of several errors that a group holds beside each other, whose order means nothing.
    """

    error: str
    frames: tuple[Frame, ...]
    member: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """A chain of errors, the outermost first."""

    language: str
    links: tuple[Link, ...]


def visible(frames: Sequence[Frame]) -> Sequence[Frame]:
    """The frames that aren't hidden; all of them where nothing else is there to go by."""
    return [frame for frame in frames if frame.kind is not Kind.HIDDEN] or frames
