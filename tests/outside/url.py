"""The url pack against public suites: labels and declarations of charsets, trees of pages, URLs and host names.

What a right answer is stands in the docstring of each suite's function.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from webencodings.labels import LABELS

from dpp.packs.url import charset
from dpp.packs.url.charset import Declares
from dpp.packs.url.document import Document
from dpp.packs.url.reasons import DiscardedError
from dpp.packs.url.target import Target, parse, redirected
from tests.outside.suite import Case, Suite

_HTML = "text/html"
_NOT_TEXT = frozenset({"head", "script", "style", "template", "noscript"})
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ufffd]+")


def labels(_data: Path) -> Iterator[Case]:
    """Each label of the WHATWG's table, sent in the header: the encoding that the table names.

    webencodings has 228 labels, so each counts that the standard has; those of `replacement` too.
    """
    for label, name in LABELS.items():
        found = charset.header_encoding(f"text/html; charset={label}")
        yield Case(label, found is not None and found.name == name, found.name if found else "none")


def encodings(data: Path) -> Iterator[Case]:
    """Each page, with no charset in the header: the suite's encoding; UTF-8 where that is the default of browsers."""
    for path in sorted((data / "html5lib-encoding").glob("*.dat")):
        sections = path.read_bytes().split(b"#data\n")[1:]
        for number, section in enumerate(sections, 1):
            page, _, name = section.partition(b"\n#encoding\n")
            wanted = LABELS[name.split(b"\n")[0].decode().lower()]
            found = charset.encoding(_HTML, page, Declares.IN_META).name
            declared = {wanted, "utf-8"} if wanted == "windows-1252" else {wanted}
            yield Case(f"{path.name} {number}", found in declared, found)


def trees(data: Path) -> Iterator[Case]:
    """Each document: every text node outside of head, script, style, template and noscript is in the page's text or
    title, and no text of a script or comment is.
    """
    for path in sorted((data / "html5lib-tree").glob("*.dat")):
        for number, (page, tree) in enumerate(_documents(path.read_text(encoding="utf-8")), 1):
            nodes = _nodes(tree)
            document = Document(page)
            text = _without_blanks(f"{document.text().whole()} {document.title or ''}")
            lost = [one for one in nodes.shown if one not in text]
            leaked = [one for one in nodes.hidden if one in text and not any(one in shown for shown in nodes.shown)]
            yield Case(f"{path.name} {number}", not lost and not leaked, f"lost {lost}, leaked {leaked}")


class _Nodes(NamedTuple):
    """The texts of a tree without blanks: those that a page shows, and those of scripts and comments."""

    shown: list[str]
    hidden: list[str]


def _documents(text: str) -> Iterator[tuple[str, list[str]]]:
    """The page and the tree of each whole document that is parsed with scripts on."""
    names = ("#data", "#errors", "#new-errors", "#document", "#document-fragment", "#script-off", "#script-on")
    for section in re.split(r"(?:^|\n)(?=#data\n)", text):
        parts: dict[str, list[str]] = {}
        for line in section.split("\n"):
            if line in names:
                part = parts.setdefault(line, [])
            elif parts:
                part.append(line)
        if "#data" in parts and not {"#document-fragment", "#script-off"} & set(parts):
            yield "\n".join(parts["#data"]), parts["#document"]


def _nodes(tree: list[str]) -> _Nodes:
    lines: list[str] = []
    for line in tree:
        if line.startswith("| "):
            lines.append(line[2:])
        elif lines:
            lines[-1] += f"\n{line}"
    nodes, path = _Nodes([], []), list[str]()
    for line in lines:
        content = line.lstrip(" ").rstrip("\n")
        del path[(len(line) - len(line.lstrip(" "))) // 2 :]
        if content.startswith('"'):
            text = _without_blanks(content.removeprefix('"').removesuffix('"'))
            if "script" in path:
                nodes.hidden.append(text)
            elif not _NOT_TEXT & set(path):
                nodes.shown.append(text)
        elif content.startswith("<!--"):
            nodes.hidden.append(_without_blanks(content.removeprefix("<!--").removesuffix("-->")))
        path.append(content.strip("<>").split(" ")[-1])
    return _Nodes(*([text for text in texts if text] for texts in nodes))


def _without_blanks(text: str) -> str:
    return _BLANKS.sub("", text)


def urls(data: Path) -> Iterator[Case]:
    """Each URL, or reference with its base as the page that redirects: the same scheme, host, port, path and query, or
    a refusal. A URL that the suite refuses is refused.
    """
    for number, case in enumerate(_cases(data / "urltestdata.json"), 1):
        target = _target(case["input"], case.get("base"))
        if target is None:
            right = True
        elif case.get("failure"):
            right = False
        else:
            host = f"[{target.host}]" if ":" in target.host else target.host
            port = target.port if target.authority.endswith(f":{target.port}") else ""
            found = (f"{target.scheme}:", host, str(port), target.path)
            right = found == (case["protocol"], case["hostname"], case["port"], case["pathname"] + case["search"])
        yield Case(f"{number} {case['input']!a}", right, str(target))


def hosts(data: Path) -> Iterator[Case]:
    """Each host name: the ASCII form that the suite gives, or a refusal; a refusal where the suite refuses.

    A dot behind the name is the same host, and the pack leaves it out.
    """
    for name in ("IdnaTestV2.json", "toascii.json"):
        for number, case in enumerate(_cases(data / name), 1):
            target = _target(f"https://{case['input']}/", None)
            right = target is None or target.host == (case["output"] or "").removesuffix(".")
            yield Case(f"{name} {number} {case['input']!a}", right, str(target))


def _cases(path: Path) -> Iterator[Mapping[str, Any]]:
    """The cases of a file of the web-platform tests; its other members are comments."""
    return (case for case in json.loads(path.read_text(encoding="utf-8")) if isinstance(case, dict))


def _target(url: str, base: str | None) -> Target | None:
    try:
        if base is None:
            return parse(url, plain_http_allowed=True)
        page = parse(base, plain_http_allowed=True)
        return redirected(page, url.encode(errors="surrogatepass"), plain_http_allowed=True)
    except DiscardedError:
        return None


SUITES = (
    Suite("labels", aim=len(LABELS), run=labels),
    Suite("html5lib-encoding", aim=82, run=encodings),
    Suite("html5lib-tree", aim=1_515, run=trees),
    Suite("urltestdata", aim=891, run=urls),
    Suite("idna", aim=2_758, run=hosts),
)
