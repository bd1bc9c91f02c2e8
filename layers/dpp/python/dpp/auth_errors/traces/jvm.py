"""Stack traces of the JVM: Java, Kotlin, Scala, Groovy (AUTH-10). Pure.

The outermost error comes first and the root cause last, each with its innermost frame first. Frames that a cause shares
with the error that it caused may be folded ("... 12 more"). They are unfolded and then removed, so folding makes no
difference. Suppressed errors don't count: they report problems while a resource was closed, which may or may not occur
with the same failure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from dpp.auth_errors.traces.jvm_packages import ENTRY_POINTS, HIDDEN, LIBRARIES
from dpp.auth_errors.traces.model import Frame, FrameKind, Link, Trace, visible
from dpp.auth_errors.traces.names import class_name, jvm_class, jvm_path

REACH_FRAMES = 45
"""The number of frames that count in a truncated trace: at 100 to 130 characters each, they fit into 6,000."""

_FRAME = re.compile(
    r"\s*at\s+(?P<name>[^()]*[^()\s])"
    r"\((?P<source>(?:[\w$.<>+-]+|Native Method|Unknown Source)(?::-?\d+)?)\)"
    r"(?:\s+~?\[[^\]]*\])?\s*"
)
_FOLDED = re.compile(r"\s*\.\.\. (?P<frames>\d{1,9}) (?:more|common frames omitted)\s*")
_CAPTION = re.compile(
    r"(?P<indent>\s*)(?P<relation>Caused by|Wrapped by|Suppressed): (?P<error>[^\s:]+)(?P<message>:.*)?\s*"
)
_HEADER = re.compile(
    r'(?:Exception in thread ".*?" )?(?P<error>(?:[\w.@-]*/){0,2}(?:[a-z_][\w$]*\.)+[A-Z][\w$.]*)(?::.*)?\s*'
)

_PROXY = re.compile(r"(?:^|\.)\$Proxy\d+$|\$\$Lambda|\$\$FastClass|LambdaForm\$")
_ACCESSOR = re.compile(r"access\$\d+|\$?deserializeLambda\$?")
_METHOD_SUFFIX = re.compile(
    r"\$(?:\d+|adapted|suspendImpl|default|original\$.*|accessor\$.*)(?=\$|$)|-[A-Za-z0-9_]{7}$|-impl$"
)


@dataclass(slots=True)
class _Draft:
    error: str
    wraps: bool = False
    has_message: bool = False
    frames: list[Frame] = field(default_factory=list)
    folded: int = 0


def is_frame(line: str) -> bool:
    return _FRAME.fullmatch(line) is not None


def parse(lines: Sequence[str], full: bool) -> Trace:
    cut = full or not (is_frame(lines[-1]) or _FOLDED.fullmatch(lines[-1]))
    drafts = _drafts(lines, REACH_FRAMES if cut else len(lines))
    if cut and len(drafts) > 1 and not drafts[-1].frames and not drafts[-1].has_message:
        drafts.pop()  # the cut may have gone through the name of its class
    if any(draft.wraps for draft in drafts):
        drafts.reverse()
    return Trace("jvm", tuple(_links(drafts, cut)))


def _drafts(lines: Sequence[str], reach_frames: int) -> list[_Draft]:
    """The errors as they are printed, as far as `reach_frames` go."""
    drafts = [_Draft("")]
    suppressed_at: int | None = None
    for line in lines:
        if caption := _CAPTION.fullmatch(line):
            indent = len(caption["indent"])
            if caption["relation"] == "Suppressed":
                suppressed_at = indent if suppressed_at is None else suppressed_at
            elif suppressed_at is None or not indent >= suppressed_at > 0:
                suppressed_at = None
                drafts.append(_captioned(caption))
        elif suppressed_at is None:
            reach_frames -= _take(drafts[-1], line)
        if reach_frames == 0:
            break
    return drafts


def _captioned(caption: re.Match[str]) -> _Draft:
    return _Draft(class_name(caption["error"]), caption["relation"] == "Wrapped by", caption["message"] is not None)


def _take(draft: _Draft, line: str) -> int:
    """Add a line to the draft; returns 1 for a frame that isn't hidden, else 0."""
    if match := _FRAME.fullmatch(line):
        frame = _frame(match["name"])
        draft.frames.append(frame)
        return int(frame.kind is not FrameKind.HIDDEN)
    if match := _FOLDED.fullmatch(line):
        draft.folded = int(match["frames"])
    elif not draft.error and not draft.frames and (match := _HEADER.fullmatch(line)):
        draft.error = class_name(match["error"])
    return 0


def _links(drafts: Sequence[_Draft], cut: bool) -> list[Link]:
    links: list[Link] = []
    enclosing: list[Frame] = []
    for nth, draft in enumerate(drafts, 1):
        whole = draft.frames + (enclosing[-draft.folded :] if draft.folded else [])
        own = _own(visible(whole), visible(enclosing), cut and nth == len(drafts))
        links.append(Link(draft.error, tuple(own)))
        enclosing = whole
    return links


def _own(frames: Sequence[Frame], enclosing: Sequence[Frame], cut: bool) -> Sequence[Frame]:
    """The frames without those at the end of the enclosing error; if `cut`, without those that may be at its end."""
    ends = range(len(enclosing), 0, -1) if cut else (len(enclosing),)
    return frames[: len(frames) - max((_shared(frames, enclosing, end) for end in ends), default=0)]


def _shared(frames: Sequence[Frame], enclosing: Sequence[Frame], end: int) -> int:
    """The number of last frames that equal the enclosing error's frames before `end`, compared backwards."""
    most = min(len(frames), end)
    for nth in range(most):
        if frames[-1 - nth] != enclosing[end - 1 - nth]:
            return nth
    return most


def _frame(raw: str) -> Frame:
    owner, _, method = jvm_path(raw).rpartition(".")
    if f"{owner}.".startswith(HIDDEN) or _PROXY.search(owner) or _ACCESSOR.fullmatch(method):
        return Frame(f"{owner}.{method}", FrameKind.HIDDEN)
    owner = jvm_class(owner)
    method = _METHOD_SUFFIX.sub("", method.removeprefix("CGLIB$"))
    if method == "invokeSuspend":
        owner, method = _suspended(owner)
    name = f"{owner}.{method}" if owner else method
    if name.startswith(ENTRY_POINTS):
        return Frame(name, FrameKind.ENTRY_POINT)
    return Frame(name, FrameKind.LIBRARY if name.startswith(LIBRARIES) else FrameKind.APPLICATION)


def _suspended(owner: str) -> tuple[str, str]:
    """The function that a coroutine's generated class resumes: `Login$verify$#` is `verify` of `Login`."""
    parts = [part for part in owner.split("$") if part != "#"]
    if len(parts) == 1:
        return owner, "invokeSuspend"
    return "$".join(parts[:-1]), parts[-1]
