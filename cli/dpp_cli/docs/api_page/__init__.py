"""Renders the OpenAPI document as one HTML page, served at `/docs` (functions/api_docs).

Rendered here, at build time, and not by a renderer from npm. Those are browser programs that
read the document there: swagger-ui-dist 5.35 has 1.7 MB of script and offers to send requests, for which people would
type a key into a browser, where none belongs (cdk/dpp_cdk/resources/api.py); redoc 2.5 has 0.9 MB, makes its styles
at run time, and has a worker of a blob; @scalar/api-reference 1.76 has 4.9 MB, and names eleven hosts of its maker,
for fonts, a proxy and more. This page has 240 kB and no script. Its policy lets it load nothing but the style in it,
it can be searched, printed and read aloud, and no package has to be kept up to date for it.
"""

from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from dpp_cli.docs.api_page.markup import Markup, join, prose, tag
from dpp_cli.docs.api_page.operations import Operation, operations_of
from dpp_cli.docs.api_page.schemas import content_of, kind

_STYLE = Path(__file__).with_name("page.css")


@dataclass(frozen=True, slots=True)
class Page:
    """The page and its Content-Security-Policy."""

    html: str
    policy: str


def render(document: dict[str, Any]) -> Page:
    """Render the page of a document; the same document gives the same page."""
    style = _STYLE.read_text(encoding="utf-8")
    title = f"{document['info']['title']} API"
    head = tag(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        Markup('<link rel="icon" href="data:,">'),  # else a browser asks for /favicon.ico
        tag("title", title),
        tag("style", Markup(style)),
    )
    groups = _groups(document)
    body = tag(
        "body",
        tag("a", "Skip to the operations", href="#main", class_="skip"),
        _header(document, title),
        tag("nav", tag("h2", "Contents"), _contents(groups), class_="side", aria_label="Contents"),
        tag("details", tag("summary", "Contents"), _contents(groups), class_="top"),
        tag("main", *_sections(document, groups), id="main"),
    )
    return Page(f'<!doctype html>\n<html lang="en">\n{head}\n{body}\n</html>\n', _policy(style))


def _policy(style: str) -> str:
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    )


type Groups = list[tuple[dict[str, str], list[Operation]]]


def _groups(document: dict[str, Any]) -> Groups:
    """Return the tags in order with their operations."""
    operations = list(operations_of(document))
    return [(one, [op for op in operations if one["name"] in op.tags]) for one in document["tags"]]


def _header(document: dict[str, Any], title: str) -> Markup:
    info = document["info"]
    download = tag("a", "openapi.json", href="openapi.json")
    line = join(f"Version {info['version']}, OpenAPI {document['openapi']}. For programs: ", download, ".")
    return tag("header", tag("h1", title), tag("p", line), prose(info["description"]))


def _contents(groups: Groups) -> Markup:
    links = [
        tag(
            "li",
            tag("a", group["name"], href=f"#{_anchor(group['name'])}"),
            tag("ul", *(tag("li", tag("a", one.summary, href=f"#{one.id}")) for one in operations)),
        )
        for group, operations in groups
    ]
    rest = [tag("li", tag("a", name, href=f"#{_anchor(name)}")) for name in ("Keys", "Headers", "Schemas")]
    return tag("ul", *links, *rest)


def _sections(document: dict[str, Any], groups: Groups) -> list[Markup]:
    found = [
        tag(
            "section",
            tag("h2", group["name"], id=_anchor(group["name"])),
            prose(group["description"]),
            *(one.section() for one in operations),
        )
        for group, operations in groups
    ]
    return [*found, _keys(document), _headers(document), _schemas(document)]


def _keys(document: dict[str, Any]) -> Markup:
    schemes = document["components"]["securitySchemes"]
    rows = [
        join(
            tag("dt", tag("code", name), id=f"key-{name}"), tag("dd", prose(described["description"]), _how(described))
        )
        for name, described in schemes.items()
    ]
    return tag("section", tag("h2", "Keys", id="keys"), tag("dl", *rows))


def _how(scheme: dict[str, str]) -> Markup:
    return tag("p", "Sent as ", tag("code", f"Authorization: {scheme['scheme'].title()} <key>"), ".")


def _headers(document: dict[str, Any]) -> Markup:
    rows = [
        join(tag("dt", tag("code", name), " ", kind(header["schema"])), tag("dd", prose(header["description"])))
        for name, header in document["components"]["headers"].items()
        if not name.endswith(".maybe")
    ]
    return tag("section", tag("h2", "Headers", id="headers"), tag("dl", *rows))


def _schemas(document: dict[str, Any]) -> Markup:
    found = [
        tag("section", tag("h3", tag("code", name), id=f"schema-{name}"), content_of(schema), class_="schema")
        for name, schema in document["components"]["schemas"].items()
    ]
    return tag("section", tag("h2", "Schemas", id="schemas"), *found)


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")
