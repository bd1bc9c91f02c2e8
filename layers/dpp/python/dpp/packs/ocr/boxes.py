"""Words and tables with their places on the pages, as many as an answer has room for (RUN-18, RUN-27)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from dpp.packs.ocr.outcome import Json


@dataclass(frozen=True, slots=True)
class PageBoxes:
    """A page's words and tables as its reader reported them."""

    image: int
    number: int
    words: Sequence[Json]
    tables: Sequence[Json]


def json_bytes(value: object) -> int:
    """Return the size of the value as JSON in UTF-8."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def boxes_that_fit(pages: Sequence[PageBoxes], room_bytes: int) -> Json:
    """`tables` and `words` of all pages, the tables first; whole pages are left out where there is no room for them.

    `words` and `tables` stand in the data by themselves, so that they can be moved elsewhere as they are.
    """
    tables, omitted_tables, room_bytes = _fitting([(page, page.tables) for page in pages], room_bytes)
    words, omitted_words, _ = _fitting([(page, page.words) for page in pages], room_bytes)
    return {"words": words, "omitted_words": omitted_words, "tables": tables, "omitted_tables": omitted_tables}


def _fitting(found: Sequence[tuple[PageBoxes, Sequence[Json]]], room_bytes: int) -> tuple[list[JsonValue], int, int]:
    kept: list[JsonValue] = []
    omitted = 0
    for page, items in found:
        placed: list[JsonValue] = [{"image": page.image, "page": page.number, **item} for item in items]
        size = json_bytes(placed)
        if size > room_bytes:
            omitted += len(items)
            continue
        room_bytes -= size
        kept += placed
    return kept, omitted, room_bytes
