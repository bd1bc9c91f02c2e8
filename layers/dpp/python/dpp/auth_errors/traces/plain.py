"""Texts of an unknown format, line by line (AUTH-10). Pure.

Likely values are removed: quoted text, numbers, addresses, tokens and folders. The words remain.
"""

import re
from collections.abc import Sequence

from dpp.auth_errors.traces.model import Frame, FrameKind, Link, Trace
from dpp.auth_errors.traces.names import class_name

_HEADER = re.compile(r"(?P<error>(?=[A-Za-z_])[\w$.\\]*(?:Error|Exception|Failure|Fault|\.[A-Z][\w$]*))(?::.*)?")
_FUNCTION = re.compile(r"\bin [`']([\w#.?!=<>: ]+)'")
_QUOTED = re.compile(r"\"[^\"]*\"|(?<!\w)'[^']*'(?!\w)|`[^`]*`")
_HEXADECIMAL = re.compile(r"\W*(?=[a-fA-F-]*\d)[0-9a-fA-F-]{8,}\W*|.*\b0x[0-9a-fA-F]+.*")
_NUMBER = re.compile(r"\d+")


def parse(lines: Sequence[str], full: bool) -> Trace:
    if full and len(lines) > 1:
        lines = lines[:-1]  # the last line is truncated
    header = _HEADER.fullmatch(lines[0].strip())
    texts = [_caused(line) or _normal(line) for line in lines[1 if header else 0 :]]
    error = class_name(header["error"]) if header else ""
    return Trace("text", (Link(error, tuple(Frame(text, FrameKind.LINE) for text in texts if text)),))


def _caused(line: str) -> str:
    """The class of a cause that is printed without frames."""
    relation, caused, rest = line.strip().partition("Caused by: ")
    header = _HEADER.fullmatch(rest) if caused and not relation else None
    return caused + class_name(header["error"]) if header else ""


def _normal(line: str) -> str:
    line = _QUOTED.sub("*", _FUNCTION.sub(r"in \1", line))
    return " ".join(_word(word) for word in line.split())


def _word(word: str) -> str:
    if word.startswith("eyJ") or _HEXADECIMAL.fullmatch(word):
        return "*"
    name, at, place = word.partition("@")
    if at and "/" not in place:
        return "*"
    word = name + at + re.split(r"[/\\]", place if at else word)[-1] if at else re.split(r"[/\\]", word)[-1]
    return _NUMBER.sub("#", word)
