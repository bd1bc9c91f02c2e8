"""Title and readable text of a page (RUN-26).

A scanner, not a parser. HTML parsers build a tree, and on purpose-made pages that takes quadratic time
(2 MB of nested `<div>` keep Lexbor busy for many minutes) and fifty times the memory; an excerpt needs no
tree. This one looks at each character at most a few times and stops as soon as it has enough.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

TITLE_CHARACTERS = 300
EXCERPT_CHARACTERS = 4_000

_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_TEXT_TYPES = frozenset({"text/plain", "text/markdown", "text/csv", "text/xml", "application/xml", "application/json"})
_UNREADABLE = ("script", "style", "noscript", "template", "svg", "iframe", "object", "select")
_END_OF = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("title", *_UNREADABLE)}
# Tags within a line; any other tag stands between two words.
_INLINE = frozenset(
    (
        "a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins", "kbd",
        "mark", "q", "rp", "rt", "ruby", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "u",
        "var", "wbr",
    )
)  # fmt: skip
# A quote counts only as an attribute's value. Possessive: once a tag has failed, there is no other way.
_TAG = re.compile(r"""</?([a-zA-Z][^\s/>]*+)(?:=\s*+"[^"]*+"|=\s*+'[^']*+'|[^>])*+>""")
_MAX_TAGS = 50_000
"""A page that has no 4,000 characters of text by then has nothing to say."""
_CHARSET = re.compile(r"""charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
_META_WINDOW_BYTES = 1_024
"""A page must declare its charset within this many bytes (WHATWG HTML, 13.2.3.2)."""

# Only these, since codecs also knows transformations, and decoders that are slow on purpose-made input.
_CHARSETS = re.compile(
    r"utf-?8|utf-?16(le|be)?|us-ascii|euc-?kr|cp949|ks_c_5601-1987|uhc|johab|shift[_-]jis|euc-jp|gb2312|gbk|gb18030"
    r"|big5|iso-?8859-?\d{1,2}|latin-?1|windows-125\d|cp125\d|koi8-[ru]",
    re.IGNORECASE,
)
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


@dataclass(frozen=True, slots=True)
class Text:
    """A page's title and text; None if there is none."""

    title: str | None
    excerpt: str | None


def is_readable(content_type: str) -> bool:
    """Return whether a body of this type is text; anything else is not even downloaded."""
    mime = _mime(content_type)
    return mime in _HTML_TYPES or mime in _TEXT_TYPES


def extract(content_type: str, body: bytes) -> Text:
    """Title and text of a readable body."""
    decoded = _decode(content_type, body)
    if _mime(content_type) not in _HTML_TYPES:
        return Text(None, _shortened(decoded, EXCERPT_CHARACTERS))
    title, parts, gathered = None, [], 0
    for is_title, text in _texts(decoded):
        if is_title:
            title = title or _shortened(_unescaped(text[: 4 * TITLE_CHARACTERS]), TITLE_CHARACTERS)
            continue
        parts.append(text[: 4 * EXCERPT_CHARACTERS])
        gathered += len(text.strip())
        if gathered > 4 * EXCERPT_CHARACTERS:
            break
    return Text(title, _shortened(_unescaped("".join(parts)), EXCERPT_CHARACTERS))


def _texts(page: str) -> Iterator[tuple[bool, str]]:
    """The texts of a page in their order, and of each whether it is the title; tags, as a browser sees them.

    What has no end reaches to the end of the page, as in the standard, which also keeps this linear.
    """
    at = 0
    for _ in range(_MAX_TAGS):
        start = page.find("<", at)
        if start < 0:
            yield False, page[at:]
            return
        yield False, page[at:start]
        tag = _TAG.match(page, start)
        if tag is None:
            at = _after_no_tag(page, start)
            if at == start + 1:
                yield False, "<"
            continue
        at = tag.end()
        name = tag[1].lower()
        if name in _END_OF and not tag[0].startswith("</") and not tag[0].endswith("/>"):
            end = _END_OF[name].search(page, at)
            inner_end = end.start() if end else len(page)
            if name == "title":
                yield True, page[at:inner_end]
            at = inner_end
        if name not in _INLINE:
            yield False, " "


def _after_no_tag(page: str, start: int) -> int:
    """Return the position where text continues after a `<` that starts no complete tag."""
    if page.startswith("<!--", start):
        closing, length = "-->", 3
    elif page[start + 1 : start + 2] in ("!", "?", "/") or page[start + 1 : start + 2].isalpha():
        closing, length = ">", 1
    else:
        return start + 1  # a mere "less than"
    end = page.find(closing, start + 2)
    return end + length if end >= 0 else len(page)


def _mime(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _decode(content_type: str, body: bytes) -> str:
    """By the header's charset, else the page's own, else UTF-8; what does not decode becomes U+FFFD."""
    named = _CHARSET.search(content_type) or _CHARSET.search(
        body[:_META_WINDOW_BYTES].decode("ascii", errors="replace")
    )
    charset = named[1] if named and _CHARSETS.fullmatch(named[1]) else "utf-8"
    try:
        return body.decode(charset, errors="replace")
    except LookupError:
        return body.decode(errors="replace")


def _unescaped(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:
        return text  # a character reference of thousands of digits, which int() refuses


def _shortened(text: str, characters: int) -> str | None:
    # Cut before the blanks go, so that two megabytes cost no more than their beginning.
    return _BLANKS.sub(" ", text[: 8 * characters]).strip()[:characters].strip() or None
