"""Title and readable text of a body (RUN-26)."""

import re
from collections.abc import Iterator
from dataclasses import replace

from dpp.packs.url.charset import Declares, decode
from dpp.packs.url.document import MAX_TEXT_CHARACTERS, Document, PageText
from dpp.packs.url.text import EXCERPT_CHARACTERS, HTML_TYPES, TITLE_CHARACTERS, XML_TYPES, Text, mime

_ARTICLE_CHARACTERS = 250
"""A shorter main text is taken only if it is half of the page's, since it may be one part of several."""
_MOST_OF_PAGE = 0.9
"""A main text with more of the page's text leaves nothing out, and the page's own has better spaces."""
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
        yield _of_page(Text(), decode(content_type, body, declares))
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


def _of_page(about: Text, whole: str, text: PageText | None = None) -> Text:
    """With the text of the page; if that is too long or mostly lists of links, these come last."""
    collapsed = _collapsed(whole)
    if text is not None:
        prose, links = _collapsed(text.prose()), _collapsed(text.links())
        if len(collapsed) > EXCERPT_CHARACTERS or len(links) > len(prose):
            collapsed = f"{prose} {links}"
    excerpt = _shortened(collapsed, EXCERPT_CHARACTERS)
    return replace(about, excerpt=excerpt, excerpt_of="page" if excerpt else None)


def _of_article(first: Text, document: Document, text: PageText, url: str) -> Text:
    """With the main text, unless that is a small part of the page, all of it, or has lists of links in it."""
    from dpp.packs.url.article import article  # noqa: PLC0415 - 0.3 s, for which the first text does not wait

    found = article(document.html, url)
    dated = replace(first, published_at=found.published_at)
    main = _collapsed(found.text or "")
    whole, prose = len(_collapsed(text.whole())), len(_collapsed(text.prose()))
    too_little = len(main) < _ARTICLE_CHARACTERS and 2 * len(main) < prose
    if not main or too_little or len(main) > min(_WITHOUT_LINKS * prose, _MOST_OF_PAGE * whole):
        return dated
    return replace(dated, excerpt=_shortened(main, EXCERPT_CHARACTERS), excerpt_of="article")


def _collapsed(text: str) -> str:
    # Cut before the blanks go, so that two megabytes cost no more than their beginning.
    return _BLANKS.sub(" ", text[:MAX_TEXT_CHARACTERS]).strip()


def _shortened(text: str, characters: int) -> str | None:
    return _collapsed(text)[:characters].strip() or None
