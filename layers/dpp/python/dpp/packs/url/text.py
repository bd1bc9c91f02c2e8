"""The text of a page, and the types of bodies that have one (RUN-26).

Without a parser: the pack process imports this, and only the process that reads pages imports what finds the text.
"""

from dataclasses import dataclass
from typing import Literal

TITLE_CHARACTERS = 300
EXCERPT_CHARACTERS = 4_000

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
XML_TYPES = frozenset({"text/xml", "application/xml"})
_TEXT_TYPES = frozenset({"text/plain", "text/markdown", "text/csv", "application/json"})


@dataclass(frozen=True, slots=True)
class Text:
    """A page's text and what it says of itself; None if it says nothing.

    `excerpt_of` says whether the excerpt is of the article or the page.
    """

    title: str | None = None
    excerpt: str | None = None
    excerpt_of: Literal["article", "page"] | None = None
    language: str | None = None
    canonical_url: str | None = None
    published_at: str | None = None


def is_readable(content_type: str) -> bool:
    """Return whether a body of this type is text; anything else is not even downloaded."""
    return mime(content_type) in HTML_TYPES | XML_TYPES | _TEXT_TYPES


def mime(content_type: str) -> str:
    """Return the type without its parameters."""
    return content_type.partition(";")[0].strip().lower()
