"""/openapi.json and /docs as they come over the wire."""

import pytest

from tests.e2e.conftest import OPENAPI, Platform

pytestmark = pytest.mark.e2e


def test_the_document_that_is_served_is_the_committed_one(platform: Platform) -> None:
    """The served document is the committed one."""
    assert platform.call("GET", "/openapi.json").json() == OPENAPI


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
def test_it_is_kept_by_its_tag_and_asked_for_by_its_head(platform: Platform, path: str) -> None:
    """RFC 9110: a HEAD has the headers of a GET, including its length, and no content; a matching tag gets 304."""
    found = platform.call("GET", path)
    assert found.headers["Cache-Control"] == "public, max-age=300"
    head = platform.call("HEAD", path)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("ETag", "Content-Type", "Content-Length", "Cache-Control"):
        assert head.headers[name] == found.headers[name], name
    known = platform.call("GET", path, headers={"If-None-Match": found.headers["ETag"]})
    assert (known.status_code, known.headers["ETag"]) == (304, found.headers["ETag"])


def test_the_page_comes_with_its_policy(platform: Platform) -> None:
    """It loads nothing, and its one link out of itself stays below the stage."""
    page = platform.call("GET", "/docs")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert 'href="openapi.json"' in page.text
