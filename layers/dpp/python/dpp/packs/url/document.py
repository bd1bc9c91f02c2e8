"""The parts of an HTML page that a result has: title, language, canonical URL, all of its text (RUN-26).

Lexbor builds the tree as the HTML standard says, so a page has the text that a browser shows.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser

from dpp.packs.url.reasons import DiscardedError
from dpp.packs.url.target import parse, redirected

_NOT_SHOWN = frozenset({"head", "script", "style", "template", "noscript", "title"})
# Elements within a line; any other element stands between two words.
_INLINE = frozenset(
    (
        "a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins", "kbd",
        "mark", "nobr", "q", "rp", "rt", "ruby", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "tspan",
        "u", "var", "wbr",
    )
)  # fmt: skip
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8}){0,4}")
MAX_TEXT_CHARACTERS = 100_000
"""Of the text; an excerpt needs fewer, and a page with more has an article."""
_LINK_SHARE = 0.8
"""A block with more of its characters in links is a list of links."""


@dataclass(slots=True)
class _Block:
    """The text between two edges of blocks."""

    parts: list[str] = field(default_factory=list)
    characters: int = 0
    linked: int = 0

    def add(self, part: str, linked: bool) -> None:
        self.parts.append(part)
        shown = len(part.strip())
        self.characters += shown
        self.linked += shown if linked else 0

    @property
    def is_links(self) -> bool:
        return self.linked > _LINK_SHARE * self.characters


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page in blocks."""

    blocks: tuple[_Block, ...]

    def whole(self) -> str:
        """Everything in its order."""
        return _joined(self.blocks)

    def prose(self) -> str:
        """Everything but lists of links."""
        return _joined(block for block in self.blocks if not block.is_links)

    def links(self) -> str:
        """The lists of links."""
        return _joined(block for block in self.blocks if block.is_links)


def _joined(blocks: Iterable[_Block]) -> str:
    return " ".join("".join(block.parts) for block in blocks)


class Document:
    """A parsed page."""

    def __init__(self, page: str) -> None:
        self._tree = LexborHTMLParser(page)

    @property
    def html(self) -> str:
        """The page as its tree says, with nothing left open."""
        return self._tree.html or ""

    @property
    def title(self) -> str | None:
        """The first title that is not the one of a picture."""
        titles = (node for node in self._tree.css("title") if node.parent is None or node.parent.tag != "svg")
        return next((text for node in titles if (text := node.text()).strip()), None)

    @property
    def language(self) -> str | None:
        """The language by `<html lang>`, a meta `content-language` or `og:locale`, such as `ko` or `en-GB`."""
        root = self._tree.css_first("html")
        said = [root.attributes.get("lang") or root.attributes.get("xml:lang")] if root else []
        said.append(self._meta('meta[http-equiv="content-language" i]'))
        said.append(self._meta('meta[property="og:locale"]'))
        tags = (tag.strip() for tag in said if tag)
        return next((tag.replace("_", "-") for tag in tags if _LANGUAGE.fullmatch(tag)), None)

    def canonical_url(self, page_url: str) -> str | None:
        """The URL that the page calls its own, if it is a URL that could be fetched."""
        link = self._tree.css_first('link[rel~="canonical" i][href]')
        said = (link.attributes.get("href") if link else None, self._meta('meta[property="og:url"]'))
        for url in said:
            if url and url.strip():
                try:
                    page = parse(page_url, plain_http_allowed=True)
                    return str(redirected(page, url.strip().encode(), plain_http_allowed=True))
                except (DiscardedError, UnicodeError):
                    continue
        return None

    def text(self) -> PageText:
        """All text that is not code, in its order, with spaces between blocks."""
        blocks, count = [_Block()], 0
        for part, linked in self._parts():
            if part is None:
                blocks.append(_Block())
                continue
            blocks[-1].add(part, linked)
            count += len(part)
            if count > MAX_TEXT_CHARACTERS:
                break
        return PageText(tuple(blocks))

    def _parts(self) -> Iterator[tuple[str | None, bool]]:
        """Each text with whether it is in a link, and None at the edge of a block."""
        node, links = self._tree.root, 0
        while node is not None:
            below = None
            if node.is_text_node:
                yield node.text_content or "", links > 0
            elif node.is_element_node and node.tag not in _NOT_SHOWN:
                links += node.tag == "a"
                if node.tag not in _INLINE:
                    yield None, False
                below = node.first_child
                links -= node.tag == "a" and below is None
            while below is None and node is not None:
                below, node = node.next, node.parent
                if below is None and node is not None:
                    links -= node.tag == "a"
                    if node.tag not in _INLINE:
                        yield None, False
            node = below

    def _meta(self, selector: str) -> str | None:
        found = self._tree.css_first(selector)
        return found.attributes.get("content") if found else None
