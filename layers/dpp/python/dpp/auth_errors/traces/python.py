"""Tracebacks of Python (AUTH-10). Pure.

The root cause stands first, the outermost error last; each has its innermost frame and its class at its end, so that
what is cut off is what failed last. Of such a traceback the errors that are there to their end count as ever, and of
the one that isn't, the frames that are there.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from dpp.auth_errors.traces.model import Frame, Kind, Link, Trace, visible
from dpp.auth_errors.traces.names import class_name
from dpp.auth_errors.traces.paths import own_path

REACH_FRAMES = 35
"""So many frames of a trace that was cut count: with 130 to 170 characters each, they lie within 6,000."""

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
_DOORS = (
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
    """`closed`: its error line has been read, after which comes nothing but its message. Frames: outermost first."""

    member: bool
    error: str = ""
    closed: bool = False
    frames: list[Frame] = field(default_factory=list)
    indent: int = 0
    source_next: bool = False


@dataclass(slots=True)
class _Reading:
    drafts: list[_Draft] = field(default_factory=list)
    grouped: bool = False
    depth: int = 0


def is_frame(line: str) -> bool:
    return _FRAME.fullmatch(_BAR.sub("", line, count=1)) is not None


def parse(lines: Sequence[str], _full: bool) -> Trace:
    reading = _Reading(grouped=any(_BAR.match(line) and is_frame(line) for line in lines))
    for line in lines:
        _take(reading, line)
    drafts = reading.drafts
    if not drafts[-1].closed:
        if is_frame(lines[-1]):
            del drafts[-1].frames[-1:]  # a whole one would have had its source or the error below it
        return Trace("python", _outermost_first(_within_reach(drafts)))
    if ":" not in lines[-1] and _ERROR.fullmatch(_bare(reading, lines[-1]).strip()):
        drafts[-1].error = ""  # the cut may have gone through the name
    return Trace("python", _outermost_first([_link(draft) for draft in drafts]))


def _within_reach(drafts: Sequence[_Draft]) -> list[Link]:
    """What counts of a traceback that was cut: `REACH_FRAMES` as printed, and classes of what ends within them."""
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


def _take(reading: _Reading, line: str) -> None:
    """Add to what has been read what the line says."""
    if reading.grouped and _separates(reading, line):
        return
    if _START.fullmatch(_bare(reading, line)):
        reading.grouped = reading.grouped or _GROUP_START.match(line) is not None
        _begin(reading)
        return
    line = _bare(reading, line)
    if line.lstrip().startswith(_RELATIONS):
        _begin(reading)
        return
    if not reading.drafts:
        if not _FRAME.fullmatch(line):
            return
        reading.drafts.append(_Draft(member=False))
    _take_of(reading.drafts[-1], line)


def _begin(reading: _Reading) -> None:
    if not reading.drafts or reading.drafts[-1].frames or reading.drafts[-1].closed:
        reading.drafts.append(_Draft(member=reading.depth > 0))


def _bare(reading: _Reading, line: str) -> str:
    return _BAR.sub("", line, count=1) if reading.grouped else line


def _separates(reading: _Reading, line: str) -> bool:
    if member := _MEMBER.fullmatch(line):
        reading.depth += 1 if member["opens"] else 0
        return True
    if _MEMBERS_END.fullmatch(line):
        reading.depth = max(0, reading.depth - 1)
        return True
    return False


def _take_of(draft: _Draft, line: str) -> None:
    if draft.closed or not line.strip():
        return
    if match := _FRAME.fullmatch(line):
        draft.frames.append(_frame(match["path"], match["function"]))
        draft.indent, draft.source_next = len(match["indent"]), True
    elif draft.source_next and draft.indent == 0:
        draft.source_next = False  # indents were lost: the line below a frame is its source
    elif len(line) - len(line.lstrip()) <= max(0, draft.indent - 1) and (
        match := _ERROR.fullmatch(line.strip())
    ):
        draft.error, draft.closed = class_name(match["error"]), True


def _frame(path: str, function: str) -> Frame:
    path = path.replace("\\", "/")
    if match := _LIBRARY.match(path):
        module = path[match.end() :]
    elif match := _FROZEN.fullmatch(path):
        module = match[1].replace(".", "/") + ".py"
    elif path.startswith("<"):
        return Frame(f"{_RUN_NUMBER.sub('', path)}:{function}", Kind.LIBRARY)
    else:
        return Frame(f"{own_path(path)}:{function}", _own_kind(function))
    return Frame(f"{module}:{function}", _library_kind(module, function))


def _own_kind(function: str) -> Kind:
    return Kind.HIDDEN if function in _HIDDEN_FUNCTIONS else Kind.APPLICATION


def _library_kind(module: str, function: str) -> Kind:
    if module.startswith(_HIDDEN) or function in _HIDDEN_FUNCTIONS:
        return Kind.HIDDEN
    return Kind.DOOR if module.startswith(_DOORS) else Kind.LIBRARY
