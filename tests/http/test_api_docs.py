"""/openapi.json and /docs: what is committed, kept by who has it, and a page that runs nothing and asks nobody."""

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
from tests.support.api import Answer, gateway_event, lambda_context

DOCUMENT: dict[str, Any] = json.loads(openapi.DOCUMENT.read_text(encoding="utf-8"))
PATHS = ("/openapi.json", "/docs")
_VOID = {"meta", "link", "wbr"}


def ask(path: str, method: str = "GET", **headers: str | list[str]) -> Answer:
    """A call; a header given as a list is sent that many times, and its name has `-` for `_`."""
    from api_docs.handler import handler

    many = {n.replace("_", "-"): v if isinstance(v, list) else [v] for n, v in headers.items()}
    answer = handler(gateway_event(method, path, many, None), lambda_context())
    sent = {name: found[0] for name, found in answer["multiValueHeaders"].items()}
    return Answer(answer["statusCode"], sent, answer["body"])


class Outline(HTMLParser):
    """Which elements a page has, in order, and whether they close as they should."""

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
    return Outline(ask("/docs").text)


def test_the_document_is_the_committed_one() -> None:
    answer = ask("/openapi.json")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.body == DOCUMENT
    assert len(answer.text.encode()) < len(openapi.as_text().encode()) * 0.6


@pytest.mark.parametrize("path", PATHS)
def test_who_has_it_is_told_so_and_keeps_it_for_five_minutes(path: str) -> None:
    """RFC 9110, 13.1.2: a list, weakly compared, in one line or several, or `*`."""
    first = ask(path)
    etag = first.headers["ETag"]
    assert re.fullmatch('"[0-9a-f]{32}"', etag)
    assert first.headers["Cache-Control"] == "public, max-age=300"
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*", ['"other"', etag]):
        again = ask(path, If_None_Match=known)
        assert (again.status, again.text) == (304, ""), known
        assert "Content-Type" not in again.headers
        kept = {
            name: value for name, value in first.headers.items() if name not in {"Content-Type", "X-Trace-Id"}
        }
        assert kept.items() <= again.headers.items()
    for other in ('"other"', etag.strip('"'), "", "W/", f'"*", {etag[:-2]}"'):
        assert ask(path, If_None_Match=other).status == 200, other


@pytest.mark.parametrize("path", PATHS)
def test_a_head_has_the_headers_of_a_get(path: str) -> None:
    """RFC 9110, 9.3.2; the gateway makes Content-Length of the content, and leaves it away."""
    got, head = ask(path, X_Trace_Id="t_1"), ask(path, "HEAD", X_Trace_Id="t_1")
    assert (head.status, head.headers, head.text) == (200, got.headers, got.text)
    assert ask(path, "HEAD", If_None_Match=got.headers["ETag"]).status == 304


@pytest.mark.parametrize("path", PATHS)
def test_nothing_else_can_be_done_with_it(path: str) -> None:
    answer = ask(path, "POST")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert answer.headers["Cache-Control"] == "no-store"


def test_a_function_without_its_layer_answers_a_500(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api_docs.handler.PACKAGE", "nowhere")
    wiring.cache_clear()
    try:
        answer = ask("/docs")
    finally:
        wiring.cache_clear()
    assert (answer.status, answer.body["reason_code"]) == (500, "INTERNAL_ERROR")
    assert "nowhere" not in answer.text


def test_a_browser_may_load_the_page_s_own_style_and_nothing_else() -> None:
    """The policy names the hash of the one style, so that an injected one, too, would not count."""
    answer = ask("/docs")
    [style] = re.findall("<style>(.*?)</style>", answer.text, re.DOTALL)
    told = b64encode(sha256(style.encode()).digest()).decode()
    assert answer.headers["Content-Security-Policy"] == (
        f"default-src 'none'; style-src 'sha256-{told}'; img-src data:; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    )
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert "url(" not in style
    assert "@import" not in style


def test_the_page_runs_nothing_and_leads_to_no_other_host(outline: Outline) -> None:
    names = {name for name, _ in outline.elements}
    assert names.isdisjoint({"script", "iframe", "img", "form", "object", "embed", "base", "svg"})
    assert {attribute for _, given in outline.elements for attribute in given} <= {
        *(
            "id",
            "class",
            "href",
            "lang",
            "charset",
            "name",
            "content",
            "rel",
            "aria-label",
            "scope",
            "tabindex",
        )
    }
    assert {href for href in outline.values("href") if not href.startswith("#")} == {"data:,", "openapi.json"}


def test_every_link_of_the_page_leads_somewhere_and_every_place_is_one(outline: Outline) -> None:
    ids = outline.values("id")
    assert len(ids) == len(set(ids))
    assert {href[1:] for href in outline.values("href") if href.startswith("#")} <= set(ids)


def test_the_page_says_all_that_the_document_does(outline: Outline) -> None:
    """Each operation, parameter, status, reason, header, schema and member."""
    told = " ".join("".join(outline.text).replace("\u200b", "").split())
    ids = set(outline.values("id"))
    for path, operations in DOCUMENT["paths"].items():
        assert path in told
        for operation in operations.values():
            assert operation["operationId"] in ids
            assert operation["summary"] in told
            assert all(one["name"] in told for one in operation.get("parameters", ()))
            for status, answer in operation["responses"].items():
                assert status in told
                for content in answer.get("content", {}).values():
                    assert all(name in told for name in content.get("examples", ()))
    for header in DOCUMENT["components"]["headers"]:
        assert header.removesuffix(".maybe") in told
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert f"schema-{name}" in ids
        assert all(member in told for member in schema.get("properties", ()))


def test_the_page_can_be_read_aloud(outline: Outline) -> None:
    """One title, a language, headings in steps of one, names for columns and landmarks, and a way past the contents."""
    elements = outline.elements
    assert ("html", {"lang": "en"}) in elements
    levels = [int(name[1]) for name, _ in elements if re.fullmatch("h[1-6]", name)]
    assert levels.count(1) == 1
    contents = levels.index(1)
    assert all(
        after - before <= 1 for before, after in zip(levels[contents:], levels[contents + 1 :], strict=False)
    )
    assert all(given.get("scope") == "col" for name, given in elements if name == "th")
    assert next(given["href"] for name, given in elements if name == "a") == "#main"
    assert ("main", {"id": "main"}) in elements


def test_what_a_document_says_is_text() -> None:
    """Whatever comes to stand in a description: it is shown, and does nothing."""
    attack = '<script>alert(1)</script> & "x" `<b>`'
    assert prose(attack) == ('<p>&lt;script&gt;alert(1)&lt;/script&gt; &amp; "x" <code>&lt;b&gt;</code></p>')
    assert tag("a", attack, href='"><script>') == (
        '<a href="&quot;&gt;&lt;script&gt;">&lt;script&gt;alert(1)&lt;/script&gt; &amp; "x" `&lt;b&gt;`</a>'
    )
    assert join("<", Markup("<br>")) == "&lt;<br>"
    changed = json.loads(json.dumps(DOCUMENT).replace("Submit a run", "</a><script>x</script>"))
    assert "<script" not in api_page.render(changed).html


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (
            {"type": "array", "items": {"$ref": "#/components/schemas/A"}},
            'array of <a href="#schema-A">A</a>',
        ),
        ({"enum": ["a", 1, None]}, '<code>"a"</code>, <code>1</code>, <code>null</code>'),
        ({"type": ["string", "null"]}, "string or null"),
        ({"anyOf": [{"type": "integer"}, {"type": "string", "format": "uuid"}]}, "integer or string (uuid)"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "object, each member number"),
        ({"allOf": [{"type": "object"}, {"properties": {}}]}, "object"),
        ({}, "anything"),
    ],
)
def test_a_kind_of_value_is_said_in_a_few_words(schema: dict[str, Any], told: str) -> None:
    assert kind(schema) == told


def test_the_layer_is_made_of_what_is_committed_and_fits_an_answer_of_lambda(
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
    assert openapi.DOCUMENT in api_docs.sources()


def test_the_same_document_makes_the_same_page() -> None:
    assert api_page.render(DOCUMENT) == api_page.render(json.loads(json.dumps(DOCUMENT)))
