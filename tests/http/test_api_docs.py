"""/openapi.json and /docs: the committed document, cacheable, and a page without scripts and foreign requests."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from api_docs.handler import PACKAGE, wiring
from dpp_cli.docs import api_page, openapi
from dpp_cli.docs.api_page.markup import Markup, join, prose, tag
from dpp_cli.docs.api_page.schemas import kind
from dpp_cli.layers import api_docs
from dpp_cli.paths import OPENAPI_DOCUMENT
from tests.support.api import Answer, gateway_event, lambda_context

DOCUMENT: dict[str, Any] = json.loads(OPENAPI_DOCUMENT.read_text(encoding="utf-8"))
PATHS = ("/openapi.json", "/docs")
_VOID = {"meta", "link", "wbr"}


def call(path: str, method: str = "GET", **headers: str | list[str]) -> Answer:
    """Call the function. A header given as a list is sent several times; `_` in its name stands for `-`."""
    from api_docs.handler import handler

    many = {n.replace("_", "-"): v if isinstance(v, list) else [v] for n, v in headers.items()}
    answer = handler(gateway_event(method, path, many, None), lambda_context())
    sent = {name: found[0] for name, found in answer["multiValueHeaders"].items()}
    return Answer(answer["statusCode"], sent, answer["body"])


class Outline(HTMLParser):
    """The elements of a page in order, with a check that each is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def values(self, attribute: str) -> list[str]:
        return [str(given[attribute]) for _, given in self.elements if attribute in given]


@pytest.fixture(scope="module")
def outline() -> Outline:
    return Outline(call("/docs").text)


def test_the_document_is_the_committed_one() -> None:
    answer = call("/openapi.json")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.body == DOCUMENT
    assert len(answer.text.encode()) < len(openapi.as_text().encode()) * 0.6


@pytest.mark.parametrize("path", PATHS)
def test_a_client_caches_it_for_five_minutes_and_then_gets_a_304(path: str) -> None:
    """RFC 9110, 13.1.2: If-None-Match is a list, weakly compared, in one or several lines, or `*`."""
    first = call(path)
    etag = first.headers["ETag"]
    assert re.fullmatch('"[0-9a-f]{32}"', etag)
    assert first.headers["Cache-Control"] == "public, max-age=300"
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*", ['"other"', etag]):
        again = call(path, If_None_Match=known)
        assert (again.status, again.text) == (304, ""), known
        assert "Content-Type" not in again.headers
        kept = {name: value for name, value in first.headers.items() if name not in {"Content-Type", "X-Trace-Id"}}
        assert kept.items() <= again.headers.items()
    for other in ('"other"', etag.strip('"'), "", "W/", f'"*", {etag[:-2]}"'):
        assert call(path, If_None_Match=other).status == 200, other


@pytest.mark.parametrize("path", PATHS)
def test_a_head_has_the_headers_of_a_get(path: str) -> None:
    """RFC 9110, 9.3.2. The gateway computes Content-Length from the content, and removes the content."""
    got, head = call(path, X_Trace_Id="t_1"), call(path, "HEAD", X_Trace_Id="t_1")
    assert (head.status, head.headers, head.text) == (200, got.headers, got.text)
    assert call(path, "HEAD", If_None_Match=got.headers["ETag"]).status == 304


@pytest.mark.parametrize("path", PATHS)
def test_other_methods_are_refused(path: str) -> None:
    answer = call(path, "POST")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert answer.headers["Cache-Control"] == "no-store"


def test_a_function_without_its_layer_returns_a_500(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api_docs.handler.PACKAGE", "nowhere")
    wiring.cache_clear()
    try:
        answer = call("/docs")
    finally:
        wiring.cache_clear()
    assert (answer.status, answer.body["reason_code"]) == (500, "INTERNAL_ERROR")
    assert "nowhere" not in answer.text


def test_a_browser_may_only_load_the_style_of_the_page() -> None:
    """The policy has the hash of the one style, so an injected style is not used."""
    answer = call("/docs")
    [style] = re.findall("<style>(.*?)</style>", answer.text, re.DOTALL)
    text = b64encode(sha256(style.encode()).digest()).decode()
    assert answer.headers["Content-Security-Policy"] == (
        f"default-src 'none'; style-src 'sha256-{text}'; img-src data:; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    )
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert "url(" not in style
    assert "@import" not in style


def test_the_page_has_no_script_and_no_link_to_another_host(outline: Outline) -> None:
    names = {name for name, _ in outline.elements}
    assert names.isdisjoint({"script", "iframe", "img", "form", "object", "embed", "base", "svg"})
    assert {attribute for _, given in outline.elements for attribute in given} <= {
        *("id", "class", "href", "lang", "charset", "name", "content", "rel", "aria-label", "scope", "tabindex")
    }
    assert {href for href in outline.values("href") if not href.startswith("#")} == {"data:,", "openapi.json"}


def test_every_link_of_the_page_has_a_target_and_every_id_is_unique(outline: Outline) -> None:
    ids = outline.values("id")
    assert len(ids) == len(set(ids))
    assert {href[1:] for href in outline.values("href") if href.startswith("#")} <= set(ids)


def test_the_page_contains_the_whole_document(outline: Outline) -> None:
    """Each operation, parameter, status, reason, header, schema and member."""
    text = " ".join("".join(outline.text).replace("\u200b", "").split())
    ids = set(outline.values("id"))
    for path, operations in DOCUMENT["paths"].items():
        assert path in text
        for operation in operations.values():
            assert operation["operationId"] in ids
            assert operation["summary"] in text
            assert all(one["name"] in text for one in operation.get("parameters", ()))
            for status, answer in operation["responses"].items():
                assert status in text
                for content in answer.get("content", {}).values():
                    assert all(name in text for name in content.get("examples", ()))
    for header in DOCUMENT["components"]["headers"]:
        assert header.removesuffix(".maybe") in text
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert f"schema-{name}" in ids
        assert all(member in text for member in schema.get("properties", ()))


def test_the_page_is_accessible(outline: Outline) -> None:
    """A title, a language, headings in steps of one, labelled columns and landmarks, and a link past the contents."""
    elements = outline.elements
    assert ("html", {"lang": "en"}) in elements
    levels = [int(name[1]) for name, _ in elements if re.fullmatch("h[1-6]", name)]
    assert levels.count(1) == 1
    contents = levels.index(1)
    assert all(after - before <= 1 for before, after in zip(levels[contents:], levels[contents + 1 :], strict=False))
    assert all(given.get("scope") == "col" for name, given in elements if name == "th")
    assert next(given["href"] for name, given in elements if name == "a") == "#main"
    assert ("main", {"id": "main"}) in elements


def test_text_of_the_document_is_escaped() -> None:
    """Markup in a description is displayed as text."""
    attack = '<script>alert(1)</script> & "x" `<b>`'
    assert prose(attack) == ('<p>&lt;script&gt;alert(1)&lt;/script&gt; &amp; "x" <code>&lt;b&gt;</code></p>')
    assert tag("a", attack, href='"><script>') == (
        '<a href="&quot;&gt;&lt;script&gt;">&lt;script&gt;alert(1)&lt;/script&gt; &amp; "x" `&lt;b&gt;`</a>'
    )
    assert join("<", Markup("<br>")) == "&lt;<br>"
    changed = json.loads(json.dumps(DOCUMENT).replace("Submit a run", "</a><script>x</script>"))
    assert "<script" not in api_page.render(changed).html


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "array", "items": {"$ref": "#/components/schemas/A"}}, 'array of <a href="#schema-A">A</a>'),
        ({"enum": ["a", 1, None]}, '<code>"a"</code>, <code>1</code>, <code>null</code>'),
        ({"type": ["string", "null"]}, "string or null"),
        ({"anyOf": [{"type": "integer"}, {"type": "string", "format": "uuid"}]}, "integer or string (uuid)"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "object, each member number"),
        ({"allOf": [{"type": "object"}, {"properties": {}}]}, "object"),
        ({}, "anything"),
    ],
)
def test_a_schema_is_described_in_a_few_words(schema: dict[str, Any], text: str) -> None:
    assert kind(schema) == text


def test_the_layer_is_built_from_the_committed_document_and_fits_a_lambda_response(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_docs, "API_DOCS_LAYER", tmp_path / "layer")
    root = api_docs.build_api_docs_layer()
    made = {path.name: path for path in (root / "python" / api_docs.PACKAGE).iterdir()}
    assert set(made) == {"openapi.json", "docs.html", "docs.policy"}
    assert sum(path.stat().st_size for path in made.values()) < api_docs.MAX_BYTES / 4
    before = made["docs.html"].stat().st_mtime_ns
    assert api_docs.build_api_docs_layer() == root
    assert made["docs.html"].stat().st_mtime_ns == before
    assert PACKAGE == api_docs.PACKAGE
    assert OPENAPI_DOCUMENT in api_docs.sources()


def test_the_same_document_gives_the_same_page() -> None:
    assert api_page.render(DOCUMENT) == api_page.render(json.loads(json.dumps(DOCUMENT)))
