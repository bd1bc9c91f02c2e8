"""The outcome of a page, as the process that reads it reports it (RUN-27)."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter

from dpp.packs.ocr.engine import Line
from dpp.packs.ocr.faults import ImageFault
from dpp.packs.ocr.geometry import scaled
from dpp.packs.ocr.marks import UNREADABLE, Tally, mark
from dpp.packs.ocr.pages import Box, Page
from dpp.packs.ocr.profiles import Pass
from dpp.packs.ocr.reading import PageReading
from dpp.packs.ocr.stated import cells_with_stated, with_stated
from dpp.packs.ocr.tables import Table

type Json = dict[str, JsonValue]


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    number: int


class LostPages(_Report):
    """`pages` successive pages from `number` on that were not read, and why."""

    fault: ImageFault
    pages: int = 1


class ReadPage(_Report):
    """A page that was read; `text`, `words` and `tables` as they stand in the result, but for where they are from."""

    text: Json
    words: list[Json]
    tables: list[Json]
    doubtful: list[str]
    tally: Tally
    pixels: int
    is_unreadable: bool


type Outcome = ReadPage | LostPages

OUTCOME: TypeAdapter[Outcome] = TypeAdapter(ReadPage | LostPages)
"""Reads an outcome back from JSON."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """Shows places in pixels of the file; `back` carries them there from those of the page's image."""

    back: Callable[[Box], Box]

    def place(self, box: Box) -> Json:
        left, top, right, bottom = self.back(box)
        return {"x": left, "y": top, "w": right - left, "h": bottom - top}

    def table(self, table: Table) -> Json:
        cells: list[JsonValue] = [
            {
                "row": one.cell.row + 1,
                "column": one.cell.column + 1,
                "rows": one.cell.rows,
                "columns": one.cell.columns,
                **_text(one.lines),
                **self.place(one.cell.box),
            }
            for one in table.cells
        ]
        return {**self.place(table.box), "rows": table.rows, "columns": table.columns, "cells": cells}


def _text(lines: tuple[Line, ...]) -> Json:
    marked = mark(lines)
    mean = marked.tally.mean
    return {"text": marked.text, "confidence": None if mean is None else round(mean, 4)}


def read_page_report(number: int, page: Page, reading: PageReading) -> ReadPage:
    """The report of a page that was read, with what its file states of it."""
    prepared = reading.prepared
    blocks = list(reading.blocks)
    is_unreadable = not blocks and not prepared.is_blank
    blocks = with_stated(blocks, page.known)
    shown = _Shown(scaled(page.image.size, page.size))
    tally = Tally()
    doubtful: list[str] = []
    words: list[Json] = []
    texts: list[JsonValue] = []
    if is_unreadable:  # ink of which nothing could be made must not look like an empty page
        texts.append({"text": UNREADABLE, "confidence": 0.0, "kind": Pass.BODY})
    for block in blocks:
        marked = mark(block.lines)
        texts.append({**_text(block.lines), "kind": block.kind})
        doubtful.extend(marked.doubtful)
        tally.add(marked.tally)
        words += [{"text": word.text, "confidence": word.confidence, **shown.place(word.box)} for word in marked.words]
    text: Json = {
        "blocks": texts,
        "layout": {
            "columns": prepared.layout.columns,
            "rotation_degrees": prepared.rotation.degrees,
            "skew_degrees": round(prepared.skew_degrees, 1),
            "steps": list(prepared.steps),
            "blank": prepared.is_blank and not blocks,
            "width": page.size[0],
            "height": page.size[1],
        },
    }
    return ReadPage(
        number=number,
        text=text,
        words=words,
        tables=[shown.table(table) for table in cells_with_stated(reading.tables, page.known)],
        doubtful=doubtful,
        tally=tally,
        pixels=page.pixels,
        is_unreadable=is_unreadable,
    )
