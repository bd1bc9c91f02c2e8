"""The main text of a page and the day it was published, by trafilatura and htmldate (RUN-26)."""

import logging
from typing import NamedTuple

import trafilatura
from htmldate import find_date
from lxml import etree, html

logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
logging.getLogger("htmldate").setLevel(logging.CRITICAL)


class Article(NamedTuple):
    """The main text, None if none was found, and the day as an ISO 8601 date, None if the page names none."""

    text: str | None
    published_at: str | None


def article(page: str, url: str) -> Article:
    """Read the article of a page in well-formed HTML."""
    parser = html.HTMLParser(huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        tree = html.document_fromstring(page, parser=parser)
    except (etree.ParserError, ValueError):
        return Article(None, None)
    # Only what the page says of itself: a date found in its text may be any.
    published_at = find_date(tree, extensive_search=False, original_date=True)
    text = trafilatura.extract(tree, url=url, include_comments=False)
    return Article(text, published_at)
