"""Tracebacks of Python (AUTH-10). Pure.

The root cause comes first and the outermost error last. Each error ends with its innermost frame and its class, so a
truncated traceback loses those of the last error. In such a traceback complete errors count as usual, and an incomplete
error counts with the frames that it has.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from dpp.auth_errors.traces.model import Frame, FrameKind, Link, Trace, library_kind, visible
from dpp.auth_errors.traces.names import class_name
from dpp.auth_errors.traces.paths import application_path

REACH_FRAMES = 35
"""The number of frames that count in a truncated trace: at 130 to 170 characters each, they fit into 6,000."""

_FRAME = re.compile(r'(?P<indent>\s*)File "(?P<path>[^"]*)", line \d+, in (?P<function>.*\S)\s*')
_START = re.compile(r"\s*(?:\+ )?(?:Exception Group )?Traceback \(most recent call last\):\s*")
_GROUP_START = re.compile(r"\s*\+ Exception Group Traceback")
_RELATIONS = ("During handling of the above exception", "The above exception was the direct cause")
_MEMBER = re.compile(r"\s*(?P<opens>\+-)?\+-+ (?:\d+|\.\.\.) -+\s*")
_MEMBERS_END = re.compile(r"\s*\+-{10,}\s*")
_BAR = re.compile(r"\s*\| ?")
_ERROR = re.compile(r"(?P<error>[^\W\d][\w.<>]*)(?P<message>:.*)?\s*")

_LIBRARY = re.compile(
    r".*(?:site-packages|dist-packages|/python3?\d*\.zip|/lib(?:64)?/(?:python|pypy)\d\.\d+t?|/[Pp]ython\d+/[Ll]ib"
    r"|/opt/python)/(?:[^/]+\.egg/)?"
)
_FROZEN = re.compile(r"<frozen ([\w.]+)>")
_RUN_NUMBER = re.compile(r"[-_ ]\d[\w-]*")

_HIDDEN_FUNCTIONS = {"<listcomp>", "<dictcomp>", "<setcomp>"}
_HIDDEN = (
    "importlib/", "functools.py", "contextlib.py", "anyio/_backends/", "asgiref/", "starlette/concurrency.py",
    "django/views/decorators/", "opentelemetry/", "sentry_sdk/", "ddtrace/", "newrelic/", "elasticapm/",
)  # fmt: skip
_ENTRY_POINTS = (
    "asyncio/base_events.py", "asyncio/events.py", "asyncio/runners.py", "threading.py", "runpy.py",
    "socketserver.py", "starlette/", "fastapi/routing.py", "fastapi/applications.py", "fastapi/dependencies/",
    "fastapi/middleware/", "uvicorn/", "hypercorn/", "gunicorn/", "mangum/", "awslambdaric/",
    "django/core/handlers/", "django/utils/deprecation.py", "django/views/", "rest_framework/views.py",
    "flask/app.py", "flask/views.py", "werkzeug/serving.py", "werkzeug/middleware/", "aiohttp/web_",
    "tornado/web.py", "tornado/http1connection.py", "celery/app/trace.py", "sanic/app.py", "bottle.py",
    "grpc/_server.py",
)  # fmt: skip


@dataclass(slots=True)
class _Draft:
    """One error, frames outermost first. `closed`: its error line was read, so only its message follows."""

    member: bool
    error: str = ""
    closed: bool = False
    frames: list[Frame] = field(default_factory=list)
    indent: int = 0
    source_next: bool = False


@dataclass(slots=True)
class _State:
    drafts: list[_Draft] = field(default_factory=list)
    grouped: bool = False
    depth: int = 0


def is_frame(line: str) -> bool:
    return _FRAME.fullmatch(_BAR.sub("", line, count=1)) is not None


def parse(lines: Sequence[str], _full: bool) -> Trace:
    state = _State(grouped=any(_BAR.match(line) and is_frame(line) for line in lines))
    for line in lines:
        _read_line(state, line)
    drafts = state.drafts
    if not drafts[-1].closed:
        if is_frame(lines[-1]):
            del drafts[-1].frames[-1:]  # truncated: its source or the error would follow
        return Trace("python", _outermost_first(_truncated_links(drafts)))
    if ":" not in lines[-1] and _ERROR.fullmatch(_without_bar(state, lines[-1]).strip()):
        drafts[-1].error = ""  # the class name may be truncated
    return Trace("python", _outermost_first([_link(draft) for draft in drafts]))


def _truncated_links(drafts: Sequence[_Draft]) -> list[Link]:
    """The part of a truncated traceback that counts: its first `REACH_FRAMES`, and the errors that end within them."""
    links: list[Link] = []
    left = REACH_FRAMES
    for draft in drafts:
        frames = visible(draft.frames)
        if len(frames) >= left or not draft.closed:
            links.append(Link("", _innermost_first(frames[:left]), draft.member))
            break
        links.append(_link(draft))
        left -= len(frames)
    return links


def _outermost_first(links: Sequence[Link]) -> tuple[Link, ...]:
    return (*[link for link in links if not link.member][::-1], *[link for link in links if link.member])


def _link(draft: _Draft) -> Link:
    return Link(draft.error, _innermost_first(draft.frames), draft.member)


def _innermost_first(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    return tuple(reversed(frames))


def _read_line(state: _State, line: str) -> None:
    if state.grouped and _is_separator(state, line):
        return
    if _START.fullmatch(_without_bar(state, line)):
        state.grouped = state.grouped or _GROUP_START.match(line) is not None
        _start_error(state)
        return
    line = _without_bar(state, line)
    if line.lstrip().startswith(_RELATIONS):
        _start_error(state)
        return
    if not state.drafts:
        if not _FRAME.fullmatch(line):
            return
        state.drafts.append(_Draft(member=False))
    _read_error_line(state.drafts[-1], line)


def _start_error(state: _State) -> None:
    if not state.drafts or state.drafts[-1].frames or state.drafts[-1].closed:
        state.drafts.append(_Draft(member=state.depth > 0))


def _without_bar(state: _State, line: str) -> str:
    return _BAR.sub("", line, count=1) if state.grouped else line


def _is_separator(state: _State, line: str) -> bool:
    if member := _MEMBER.fullmatch(line):
        state.depth += 1 if member["opens"] else 0
        return True
    if _MEMBERS_END.fullmatch(line):
        state.depth = max(0, state.depth - 1)
        return True
    return False


def _read_error_line(draft: _Draft, line: str) -> None:
    if draft.closed or not line.strip():
        return
    if match := _FRAME.fullmatch(line):
        draft.frames.append(_frame(match["path"], match["function"]))
        draft.indent, draft.source_next = len(match["indent"]), True
    elif draft.source_next and draft.indent == 0:
        draft.source_next = False  # without indents, the line below a frame is its source
    elif len(line) - len(line.lstrip()) <= max(0, draft.indent - 1) and (match := _ERROR.fullmatch(line.strip())):
        draft.error, draft.closed = class_name(match["error"]), True


def _frame(path: str, function: str) -> Frame:
    path = path.replace("\\", "/")
    if match := _LIBRARY.match(path):
        module = path[match.end() :]
    elif match := _FROZEN.fullmatch(path):
        module = match[1].replace(".", "/") + ".py"
    elif path.startswith("<"):
        return Frame(f"{_RUN_NUMBER.sub('', path)}:{function}", FrameKind.LIBRARY)
    else:
        return Frame(f"{application_path(path)}:{function}", _application_kind(function))
    kind = FrameKind.HIDDEN if function in _HIDDEN_FUNCTIONS else library_kind(module, _HIDDEN, _ENTRY_POINTS)
    return Frame(f"{module}:{function}", kind)


def _application_kind(function: str) -> FrameKind:
    return FrameKind.HIDDEN if function in _HIDDEN_FUNCTIONS else FrameKind.APPLICATION
