"""Title and readable text of a body (RUN-26)."""

import re
from collections.abc import Iterator
from dataclasses import replace

from dpp.packs.url.article import article
from dpp.packs.url.charset import Declares, decode
from dpp.packs.url.document import Document, PageText
from dpp.packs.url.text import EXCERPT_CHARACTERS, HTML_TYPES, TITLE_CHARACTERS, XML_TYPES, Text, mime

_ARTICLE_CHARACTERS = 250
"""A shorter main text is taken only if it is half of the page's, since it may be one part of several."""
_WITHOUT_LINKS = 1.2
"""A main text that is so many times longer than the page's text without lists of links contains such lists."""

_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


def extracted(content_type: str, url: str, body: bytes) -> Iterator[Text]:
    """Yield the text of a readable body, and then a better one if there is one.

    The first is ready soon; the second takes a search for the main text, which may not end in time.
    """
    kind = mime(content_type)
    if kind not in HTML_TYPES:
        declares = Declares.IN_XML_DECLARATION if kind in XML_TYPES else Declares.NOWHERE
        yield _of_page(Text(), decode(content_type, body, declares), None)
        return
    document = Document(decode(content_type, body, Declares.IN_META))
    title = _shortened(document.title or "", TITLE_CHARACTERS)
    about = Text(title=title, language=document.language, canonical_url=document.canonical_url(url))
    text = document.text()
    yield (first := _of_page(about, text.whole(), text))
    yield _of_article(first, document, text, url)


def extract(content_type: str, url: str, body: bytes) -> Text:
    """Return the best text of a readable body."""
    *_, last = extracted(content_type, url, body)
    return last


def _of_page(about: Text, whole: str, text: PageText | None) -> Text:
    """With the text of the page; if that is too long, its lists of links come last."""
    excerpt = _shortened(whole, EXCERPT_CHARACTERS)
    if text is not None and len(_shortened(whole, EXCERPT_CHARACTERS + 1) or "") > EXCERPT_CHARACTERS:
        excerpt = _shortened(f"{text.prose()} {text.links()}", EXCERPT_CHARACTERS)
    return replace(about, excerpt=excerpt, excerpt_of="page" if excerpt else None)


def _of_article(first: Text, document: Document, text: PageText, url: str) -> Text:
    """With the main text, unless that is a small part of the page or has lists of links in it."""
    found = article(document.html, url)
    dated = replace(first, published_at=found.published_at)
    main = _shortened(found.text or "", EXCERPT_CHARACTERS) or ""
    prose = _shortened(text.prose(), EXCERPT_CHARACTERS) or ""
    too_little = len(main) < _ARTICLE_CHARACTERS and 2 * len(main) < len(prose)
    too_much = len(main) > _WITHOUT_LINKS * len(prose)
    if not main or too_little or too_much:
        return dated
    return replace(dated, excerpt=main, excerpt_of="article")


def _shortened(text: str, characters: int) -> str | None:
    # Cut before the blanks go, so that two megabytes cost no more than their beginning.
    return _BLANKS.sub(" ", text[: 8 * characters]).strip()[:characters].strip() or None
