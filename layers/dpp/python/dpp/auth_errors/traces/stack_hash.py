"""The stack hash (AUTH-10, 004 §1): two errors with the same hash are the same failure. Pure.

It is SHA-256 over the normal form: the reported class, and for each error of the chain its class and its significant
frames, named without lines, addresses, versions, folders and other parts that a compiler, a proxy or a run adds.
Messages don't count if the format separates them. Two errors differ by the class, any class of the chain, the place
where each error was raised, and the application's frames between it and the entry point of the request. Frames below
the entry point and suppressed errors make no difference.

**A truncated trace** has only its first 8,000 characters, which the platform stores:

* The JVM and Node print the outermost error first, so truncation loses causes. A truncated trace counts up to its first
  45 (JVM) or 30 (Node, Go) frames, which fit into 6,000 characters. Its hash doesn't depend on where it is truncated
  behind them, and two traces that differ only behind them have the same hash. A complete trace counts to its end.
* Python prints the place where an error was raised, and its class, at the very end. A traceback that lost them is
  identified by the innermost of its first 35 frames and by the causes that end before them, with the same limits.
* So a failure that is stored complete once and truncated once has one hash only if its significant parts are within
  those frames; a trace that is truncated before them may get another hash. A truncated line never counts.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpp.auth_errors.traces.lines import read
from dpp.auth_errors.traces.model import Link
from dpp.auth_errors.traces.names import class_name, simple_name
from dpp.auth_errors.traces.recognise import parse
from dpp.auth_errors.traces.significant_frames import significant_names

VERSION = "v1"
"""Changed rules need a new version; hashes of different versions are never compared."""


@dataclass(frozen=True, slots=True)
class StackHash:
    """`digest`: SHA-256, in 64 lower-case hexadecimal characters."""

    version: str
    digest: str


def stack_hash(exception_class: str, stacktrace: str) -> StackHash:
    """The hash of any two texts, in linear time. No input is an error."""
    form = normal_form(exception_class, stacktrace)
    return StackHash(VERSION, hashlib.sha256(form.encode("utf-8", "surrogatepass")).hexdigest())


def normal_form(exception_class: str, stacktrace: str) -> str:
    """The text that is hashed; it shows an operator why two errors have the same hash."""
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
    return (f"  at {name}" for name in significant_names(link.frames))


def _members(links: Sequence[Link]) -> list[str]:
    """The errors of a group, each once and sorted, because the order of concurrent tasks is random."""
    return sorted({"\n".join([f"among them {link.error}".rstrip(), *_places(link)]) for link in links if link.member})
