"""Panics and goroutine dumps of Go, and errors printed with their stacks (`%+v` of pkg/errors) (AUTH-10). Pure.

In a dump the first goroutine counts, because it is the one that failed. Its frames below the first panic count; those
above it recovered the panic. Errors with stacks have one stack for each wrap, the root cause first.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from dpp.auth_errors.traces.model import Frame, FrameKind, Link, Trace
from dpp.auth_errors.traces.names import class_name, go_path

REACH_FRAMES = 30
"""The number of frames that count in a truncated trace: at 130 to 200 characters each, they fit into 6,000."""

_FILE = re.compile(r"\s*(?P<path>(?:[A-Za-z]:)?[^\s:][^:]*\.(?:go|s|c|cpp)):\d+(?: \+0x[0-9a-f]+)?\s*")
_GOROUTINE = re.compile(r"\s*goroutine \d+ [^\[\]]*\[[^\[\]]*\]:\s*")
_RUNTIME_ERROR = re.compile(r"panic: (?P<error>runtime error: [a-z -]+)")
_VALUE = re.compile(r"panic: \((?P<error>[\w./*]+)\) ")

_GENERIC = re.compile(r"\[[^\[\]]*\]")
_CLOSURE = re.compile(
    r"\.(?:func\d+|gowrap\d+|deferwrap\d+|\d+)(?:[.-](?:func\d+|gowrap\d+|deferwrap\d+|range\d+|\d+))*$"
)
_OWN_FILE = re.compile(r"@v\d|/pkg/mod/|/vendor/|/(?:go|libexec)/src/|/golang\.org/toolchain")

_STANDARD = {
    "archive", "bufio", "builtin", "bytes", "cmp", "compress", "container", "context", "crypto", "database",
    "debug", "embed", "encoding", "errors", "expvar", "flag", "fmt", "go", "hash", "html", "image", "index",
    "internal", "io", "iter", "log", "maps", "math", "mime", "net", "os", "path", "plugin", "reflect", "regexp",
    "runtime", "slices", "sort", "strconv", "strings", "sync", "syscall", "testing", "text", "time", "unicode",
    "unique", "unsafe", "weak",
}  # fmt: skip
_HIDDEN = ("runtime.", "runtime/", "internal/", "reflect.", "testing.", "sync.")
_ENTRY_POINTS = (
    "google.golang.org/grpc.(*Server)", "google.golang.org/grpc.getChain", "google.golang.org/grpc.chain",
    "github.com/gin-gonic/gin.", "github.com/go-chi/chi.", "github.com/labstack/echo.",
    "github.com/gofiber/fiber.", "github.com/gorilla/mux.", "github.com/valyala/fasthttp.",
    "github.com/aws/aws-lambda-go/", "github.com/spf13/cobra.",
)  # fmt: skip


def is_frame(line: str) -> bool:
    return _FILE.fullmatch(line) is not None or _GOROUTINE.fullmatch(line) is not None


def parse(lines: Sequence[str], full: bool) -> Trace:
    first = next((nth for nth, line in enumerate(lines) if _GOROUTINE.fullmatch(line)), None)
    if first is None:
        reach_frames = REACH_FRAMES if full or not is_frame(lines[-1]) else len(lines)
        return Trace("go", tuple(_stacks(lines, reach_frames)))
    return Trace("go", (Link(_panicked(lines[:first]), _goroutine(lines[first + 1 :])),))


def _panicked(lines: Sequence[str]) -> str:
    """The kind of a run-time error, or the type of the panic's value; empty for a plain message."""
    for line in lines:
        if match := _RUNTIME_ERROR.match(line):
            return match["error"].strip()
        if match := _VALUE.match(line):
            return class_name(match["error"])
    return ""


def _goroutine(lines: Sequence[str]) -> tuple[Frame, ...]:
    frames: list[Frame] = []
    for line, below in pairwise(lines):
        if line.lstrip().startswith("created by ") or _GOROUTINE.fullmatch(line):
            break
        if place := _placed(line, below):
            frames = [] if line.startswith("panic(") else [*frames, place]
    return tuple(frames)


def _stacks(lines: Sequence[str], reach_frames: int) -> list[Link]:
    """One link for each stack, the last wrap first. A line that is part of no frame is the next wrap's message."""
    links: list[Link] = []
    frames: list[Frame] = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if frame := _placed(line, below):
            frames.append(frame)
            reach_frames -= frame.kind is not FrameKind.HIDDEN
        elif not _FILE.fullmatch(line) and frames:
            links.append(Link("", tuple(frames)))
            frames = []
        if reach_frames == 0:
            break
    return [Link("", tuple(frames)), *reversed(links)] if frames or not links else links[::-1]


def _placed(line: str, below: str) -> Frame | None:
    """The frame of two lines: a function, and its file on the next line."""
    file = _FILE.fullmatch(below)
    if file is None or _FILE.fullmatch(line) or not line.strip():
        return None
    name = line.strip()
    if name.endswith(")"):
        name = name[: name.rfind("(")]
    name = go_path(_GENERIC.sub("", name).replace("%2e", ".")).removesuffix("-fm")
    name = _CLOSURE.sub(".func", name)
    return Frame(name, _kind(name, file["path"].replace("\\", "/")))


def _kind(name: str, path: str) -> FrameKind:
    if name.startswith(_HIDDEN):
        return FrameKind.HIDDEN
    standard = name.partition("/")[0].partition(".")[0] in _STANDARD
    if not standard and not _OWN_FILE.search(path):
        return FrameKind.APPLICATION
    served = name.endswith((".ServeHTTP", ".(*conn).serve"))
    return FrameKind.ENTRY_POINT if served or name.startswith(_ENTRY_POINTS) else FrameKind.LIBRARY
