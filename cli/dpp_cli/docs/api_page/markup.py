"""Builds HTML from parts: text is escaped; markup has a type of its own."""

import re
from html import escape

_CODE = re.compile(r"`([^`]+)`")


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def tag(name: str, *children: str, **attributes: str) -> Markup:
    """Build an element; `class_` and `aria_label` become `class` and `aria-label`."""
    given = "".join(
        f' {key.removesuffix("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{given}>{join(*children)}</{name}>")


def join(*children: str) -> Markup:
    """Concatenate parts."""
    return Markup("".join(one if isinstance(one, Markup) else escape(one, quote=False) for one in children))


def listed(parts: list[Markup], between: str) -> Markup:
    """Join parts with a separator."""
    return Markup(join(between).join(parts))


def text(line: str) -> Markup:
    """Render a line in which backticks mark code."""
    return Markup(_CODE.sub(r"<code>\1</code>", escape(line, quote=False)))


def prose(paragraphs: str) -> Markup:
    """Render paragraphs of such lines."""
    return join(*(tag("p", text(one)) for one in paragraphs.split("\n\n") if one.strip()))
