"""HTML that is put together from parts: text is escaped, and what is HTML already is a type of its own."""

import re
from html import escape

_CODE = re.compile(r"`([^`]+)`")


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, *children: str, **attributes: str) -> Markup:
    """An element; `class_` and `aria_label` are written as HTML has them."""
    given = "".join(
        f' {key.removesuffix("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{given}>{join(*children)}</{name}>")


def join(*children: str) -> Markup:
    """Parts after one another."""
    return Markup("".join(one if isinstance(one, Markup) else escape(one, quote=False) for one in children))


def listed(parts: list[Markup], between: str) -> Markup:
    """Parts with something between them."""
    return Markup(join(between).join(parts))


def text(told: str) -> Markup:
    """A line in which backticks mark code."""
    return Markup(_CODE.sub(r"<code>\1</code>", escape(told, quote=False)))


def prose(told: str) -> Markup:
    """Paragraphs of such lines."""
    return join(*(tag("p", text(one)) for one in told.split("\n\n") if one.strip()))
