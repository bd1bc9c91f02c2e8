"""The stack hash (AUTH-10, 004 §1): what must be the same for two errors to be the same failure. Pure.

It is SHA-256 over the normal form: the class that was reported, and for each error of the chain its class and the
frames that tell it from others, named without lines, addresses, versions, folders and whatever else a compiler,
a proxy or a run adds. Messages count for nothing where the format lets them be told apart. What makes two errors
differ: the class, any class of the chain, where each of them was raised, and the application's frames on the way there
from the door through which the request came in. What lies below that door, and a suppressed error, don't.

**Of a trace that was cut** its beginning is all there is, and the platform keeps 8,000 characters:

* The JVM and Node print the outermost error first, so that a cut costs causes. A trace that was cut counts as far as
  its first 45 (JVM) or 30 (Node, Go) frames, which lie within 6,000 characters: it is the same wherever behind them
  it is cut, and two that differ only behind them fall together. A whole trace counts to its end.
* Python prints where an error was raised, and its class, at the very end. A traceback that has lost it is known by the
  innermost of its first 35 frames and by the causes that end before them, with the same promise and the same limit.
* So a failure that is recorded now whole and now cut is one only if what a whole one is known by lies within those
  frames, and one that is cut before them may fall apart. A line that is cut in its middle never counts.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpp.auth_errors.traces.choice import chosen
from dpp.auth_errors.traces.lines import read
from dpp.auth_errors.traces.model import Link
from dpp.auth_errors.traces.names import class_name, simple_name
from dpp.auth_errors.traces.recognise import parse

VERSION = "v1"
"""Another rule is another version: hashes of two versions are never compared."""


@dataclass(frozen=True, slots=True)
class StackHash:
    """`digest`: SHA-256, in 64 lower-case hexadecimal characters."""

    version: str
    digest: str


def stack_hash(exception_class: str, stacktrace: str) -> StackHash:
    """The hash of any two texts, in time that grows with the text and no faster; nothing is an error."""
    form = normal_form(exception_class, stacktrace)
    return StackHash(VERSION, hashlib.sha256(form.encode("utf-8", "surrogatepass")).hexdigest())


def normal_form(exception_class: str, stacktrace: str) -> str:
    """The text that is hashed: what an operator is shown to see why two errors fell together."""
    trace = parse(read(stacktrace))
    outermost, *others = trace.links
    reported = class_name(exception_class)
    lines = [f"{VERSION} {trace.language}", f"error {reported}"]
    if outermost.error and simple_name(outermost.error) != simple_name(reported):
        lines.append(f"printed as {outermost.error}")
    lines.extend(_places(outermost))
    for link in others:
        if not link.member:
            lines.extend([f"because of {link.error}".rstrip(), *_places(link)])
    lines.extend(_members(others))
    return "\n".join(lines)


def _places(link: Link) -> Iterator[str]:
    return (f"  at {name}" for name in chosen(link.frames))


def _members(links: Sequence[Link]) -> list[str]:
    """The errors of a group, each once and in an order of their own: that of their tasks is chance."""
    return sorted(
        {"\n".join([f"among them {link.error}".rstrip(), *_places(link)]) for link in links if link.member}
    )
