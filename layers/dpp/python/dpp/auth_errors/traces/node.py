"""Stack traces of JavaScript: V8 (Node, Chrome), and SpiderMonkey and JavaScriptCore (Firefox, Safari) (AUTH-10). Pure.

The outermost error comes first; its causes and the errors of a group follow. Each has its innermost frame first, and at
most ten frames unless `Error.stackTraceLimit` is set.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from dpp.auth_errors.traces.model import Frame, FrameKind, Link, Trace, library_kind
from dpp.auth_errors.traces.names import class_name
from dpp.auth_errors.traces.paths import application_path

REACH_FRAMES = 30
"""The number of frames that count in a truncated trace."""

_FRAME = re.compile(r"\s*at\s+(?:(?P<function>\S.*?) \((?P<place>.*)\)|(?P<bare>\S(?:(?! \().)*))[\s{},\[\]]*")
# Firefox and Safari: `validate/check<@https://host/app.js:1:20`, `async*f@…`, `@…`, `f@[native code]`.
_AT_SIGN = re.compile(
    r"\s*(?:(?:async|promise callback|setTimeout handler|\w+)\*)?(?P<function>[^@\s:/\\(][^@:\\(]{0,200})?@"
    r"(?P<place>\[native code\]"
    r"|(?:[a-z][a-z+.-]*:/{1,3}|/)\S+?(?: line \d+ > (?:eval|Function)| > \w+)*(?::\d+){1,3})\s*"
)
_POSITION = re.compile(r"(?::\d+){1,3}$")
_IN_EVAL = re.compile(r" line \d+ > .*")
_PLACED = re.compile(r"(?P<path>.*?)(?::wasm-function\[\d+\]:0x[0-9a-f]+|:\d+:\d+)")
_NO_PLACE = re.compile(r"<anonymous>|native|index \d+|unknown location")
_EVAL = re.compile(r"eval at [^(]*\((?:eval at [^(]*\()*(?P<path>[^()]*):\d+:\d+\)")
_FOLDED = re.compile(r"\s*\.\.\. (?P<frames>\d{1,9}) lines matching cause stack trace \.\.\.\s*")

_NAME = r"(?P<error>[A-Za-z_$][\w$.]*(?: \[\w+\])?)(?P<message>:.*)?\s*"
_CAUSE = re.compile(r"\s*(?:\[cause\]|[Cc]aused by): (?:Uncaught )?" + _NAME)
_HEADER = re.compile(r"\s*(?:Uncaught )?(?=[\w$.]*(?:Error|Exception|Expired|Failure|Invalid))" + _NAME)
_END = re.compile(r"[}\]]$|^Node\.js v")
_MEMBERS = re.compile(r"\s*\[errors\]: \[\s*")

_PREFIX = re.compile(r"(?:async |bound )*(?P<new>new )?(?:async )?(?:(?:Object|Function|Module|module|exports)\.)*")
_ALIAS = re.compile(r" \[as [^\]]*\]")
_BUNDLE_HASH = re.compile(
    r"[.-](?:(?=[a-f]*\d)[0-9a-f]{6,}|(?=[\w-]{0,7}\d)(?=[\w-]{0,7}[A-Z])[\w-]{8})(?=(?:\.\w+)+$)"
)
_NUMBERED_CHUNK = re.compile(r"^\d+(?=\.\w+$)")

_HIDDEN = (
    "node:internal/process/", "node:internal/timers", "node:internal/async_hooks", "node:async_hooks",
    "node:domain", "node:events", "tslib/", "@babel/runtime/", "regenerator-runtime/", "@opentelemetry/",
    "dd-trace/", "newrelic/", "elastic-apm-node/", "shimmer/", "@sentry/",
)  # fmt: skip
_HIDDEN_FUNCTIONS = {"__awaiter", "fulfilled", "rejected", "asyncGeneratorStep", "_asyncToGenerator"}
_ENTRY_POINTS = (
    "express/lib/router/", "express/lib/application", "express/lib/express", "router/index", "router/lib/",
    "koa-compose/", "koa/lib/application", "@koa/router/", "fastify/lib/", "@fastify/middie/", "@nestjs/core/",
    "connect/index", "next/dist/", "@hapi/hapi/lib/", "@trpc/server/", "graphql/execution/", "hono/dist/",
    "polka/", "node:_http", "node:http", "node:net", "node:internal/modules/", "node:internal/main/",
    "node:internal/streams/", "aws-lambda-ric/",
)  # fmt: skip


@dataclass(slots=True)
class _Draft:
    """One error. `gap` frames are left out before the frame at `gap_at`; its cause has the same ones."""

    error: str
    member: bool = False
    has_message: bool = False
    frames: list[Frame] = field(default_factory=list)
    gap_at: int = 0
    gap: int = 0


def is_frame(line: str) -> bool:
    return _parsed(line) is not None


def parse(lines: Sequence[str], full: bool) -> Trace:
    cut = full or not (is_frame(lines[-1]) or _END.search(lines[-1]))
    drafts = _drafts(lines, REACH_FRAMES if cut else len(lines))
    if cut and len(drafts) > 1 and not drafts[-1].frames and not drafts[-1].has_message:
        drafts.pop()  # the class name may be truncated
    for draft, cause in pairwise(drafts):
        _unfold(draft, cause)
    return Trace("node", tuple(Link(draft.error, tuple(draft.frames), draft.member) for draft in drafts))


def _drafts(lines: Sequence[str], reach_frames: int) -> list[_Draft]:
    drafts = [_Draft("")]
    members = False
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if frame := _parsed(line):
            drafts[-1].frames.append(frame)
            reach_frames -= frame.kind is not FrameKind.HIDDEN
        elif folded := _FOLDED.fullmatch(line):
            drafts[-1].gap_at, drafts[-1].gap = len(drafts[-1].frames), int(folded["frames"])
        elif _MEMBERS.fullmatch(line):
            members = True
        elif drafts[-1].frames and (caption := _caption(line, below)):
            drafts.append(_Draft(class_name(caption["error"]), members, caption["message"] is not None))
        elif not drafts[0].error and not drafts[0].frames and (header := _HEADER.fullmatch(line)):
            drafts[0].error = class_name(header["error"])
        if reach_frames == 0:
            break
    return drafts


def _caption(line: str, below: str) -> re.Match[str] | None:
    """Match a line that starts an error: a cause by its prefix, another error by its name and a frame below it."""
    return _CAUSE.fullmatch(line.rstrip(" {,")) or (_HEADER.fullmatch(line) if is_frame(below) else None)


def _unfold(draft: _Draft, cause: _Draft) -> None:
    """Restore the frames that were left out because the cause has the same frames below the same frame."""
    if not draft.gap or not draft.gap_at or draft.frames[draft.gap_at - 1] not in cause.frames:
        return
    start = cause.frames.index(draft.frames[draft.gap_at - 1]) + 1
    draft.frames[draft.gap_at : draft.gap_at] = cause.frames[start : start + draft.gap]


def _parsed(line: str) -> Frame | None:
    match = _FRAME.fullmatch(line)
    if match is None:
        return _parsed_at_sign(line)
    function, place = match["function"] or "<anonymous>", match["place"]
    if place is None:
        place = match["bare"].rstrip(" {},[]").removeprefix("async ")
    function = _function(function)
    if place.startswith("eval at "):
        evaluated = _EVAL.match(place)
        return _placed(evaluated["path"], function) if evaluated else None
    if placed := _PLACED.fullmatch(place):
        return _placed(placed["path"], function)
    return Frame(function, FrameKind.HIDDEN) if _NO_PLACE.fullmatch(place) else None


def _parsed_at_sign(line: str) -> Frame | None:
    match = _AT_SIGN.fullmatch(line)
    if match is None:
        return None
    function = _function(match["function"] or "<anonymous>")
    if match["place"].startswith("["):
        return Frame(function, FrameKind.HIDDEN)
    place = _POSITION.sub("", _IN_EVAL.sub("", match["place"]))
    return _placed(place, function)


def _function(raw: str) -> str:
    raw = _ALIAS.sub("", raw)
    prefix = _PREFIX.match(raw)
    if prefix is None:
        return raw
    return (prefix["new"] or "") + (raw[prefix.end() :] or "<anonymous>")


def _placed(path: str, function: str) -> Frame:
    path = path.replace("\\", "/")
    _, installed, package = path.rpartition("node_modules/")
    if installed or path.startswith(("node:", "internal/")):
        module = package if installed else "node:" + path.removeprefix("node:").removesuffix(".js")
        return Frame(f"{module}:{function}", library_kind(module, _HIDDEN, _ENTRY_POINTS))
    folder, slash, file = application_path(path).rpartition("/")
    file = _NUMBERED_CHUNK.sub("#", _BUNDLE_HASH.sub("", file))
    kind = FrameKind.HIDDEN if function in _HIDDEN_FUNCTIONS else FrameKind.APPLICATION
    return Frame(f"{folder}{slash}{file}:{function}", kind)
