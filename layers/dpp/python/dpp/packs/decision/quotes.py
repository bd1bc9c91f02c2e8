"""Finds a model's quotes in the context: a quote that does not stand there carries nothing (RUN-25)."""

import re
import unicodedata
from collections.abc import Iterable

from dpp.packs.decision.answers import Passage

MIN_CHARACTERS = 3
MAX_CHARACTERS = 600
MAX_QUOTES = 8
"""Of one answer or score; a model that quotes more quotes everything."""
_MARKS = " \t\n\"'“”‘’「」『』…"


def verified(quotes: Iterable[str], context: str) -> tuple[tuple[Passage, ...], int]:
    """The quotes with their places, in the order of the context, and the number of those that do not stand in it.

    Quotes may differ from the context in white space, and in quotation marks around them. A passage has the context's
    own words.
    """
    found: dict[tuple[int, int], Passage] = {}
    missing = 0
    for quote in list(quotes)[:MAX_QUOTES]:
        place = _place(quote, context)
        if place is None:
            missing += 1
        else:
            found[place] = Passage(context[slice(*place)], *place)
    return tuple(found[place] for place in sorted(found)), missing


def _place(quote: str, context: str) -> tuple[int, int] | None:
    words = quote.strip(_MARKS).split()
    length = sum(map(len, words))
    if not MIN_CHARACTERS <= length <= MAX_CHARACTERS:
        return None
    # Models write composed letters, whatever they read.
    for form in dict.fromkeys((" ".join(words), unicodedata.normalize("NFC", " ".join(words)))):
        if match := re.search(r"\s+".join(map(re.escape, form.split())), context):
            return match.span()
    return None
