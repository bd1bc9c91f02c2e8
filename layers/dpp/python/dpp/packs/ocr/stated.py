"""Puts what a PDF states, values of fields and annotations' words, among what was read of the page (RUN-27)."""

import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from PIL import Image

from dpp.packs.ocr.engine import Fragment, Line
from dpp.packs.ocr.geometry import around
from dpp.packs.ocr.leftovers import Block
from dpp.packs.ocr.marks import mark
from dpp.packs.ocr.pages import Box, Known, KnownKind, Page
from dpp.packs.ocr.profiles import Pass
from dpp.packs.ocr.tables import CellReading, Table

_SURE = 100.0
_DOUBTFUL = 50.0
_SAME_LINE = 0.5
"""Of the lower one's height: a field and a line that overlap by as much stand in one line."""


def without_buttons(page: Page) -> Image.Image:
    """The page with paper where check boxes and radio buttons are, whose frames would be read as letters."""
    buttons = [one.box for one in page.known if one.kind is KnownKind.BUTTON]
    if not buttons:
        return page.image
    image = page.image.copy()
    for left, top, right, bottom in buttons:
        reach = max(2, (bottom - top) // 8)
        box = max(0, left - reach), max(0, top - reach), right + reach, bottom + reach
        histogram = image.crop(box).histogram()
        image.paste(histogram.index(max(histogram)), box)
    return image


def with_stated(blocks: Sequence[Block], known: Sequence[Known]) -> list[Block]:
    """The blocks with each field in its line, or in one of its own; notes at the end, once each."""
    merged = list(blocks)
    for one in sorted(known, key=lambda one: (one.box[1], one.box[0])):
        if one.kind is not KnownKind.NOTE:
            _place(merged, one)
    shown = _squeezed("".join(mark(block.lines).text for block in merged))
    for text, found in groupby((one for one in known if one.kind is KnownKind.NOTE), lambda one: one.text):
        note = next(found)
        if _squeezed(text) not in shown:
            shown += _squeezed(text)
            merged.append(Block(tuple(_lines(note)), Pass.NOTE))
    return merged


def cells_with_stated(tables: Sequence[Table], known: Sequence[Known]) -> list[Table]:
    """The tables with each field in the cell that it stands in."""
    fields = [one for one in known if one.kind is not KnownKind.NOTE]
    return [replace(table, cells=tuple(_with_fields(one, fields) for one in table.cells)) for table in tables]


def _with_fields(one: CellReading, fields: Sequence[Known]) -> CellReading:
    added = [line for field in fields if _is_in(field.box, one.cell.box) for line in _lines(field)]
    return replace(one, lines=(*one.lines, *added))


def _is_in(box: Box, cell: Box) -> bool:
    across, down = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return cell[0] <= across < cell[2] and cell[1] <= down < cell[3]


def _place(blocks: list[Block], known: Known) -> None:
    rows = _lines(known)
    found = _line_beside(blocks, known.box) if len(rows) == 1 else None
    if found is not None:
        block, number = found
        lines = list(blocks[block].lines)
        lines[number] = _joined(lines[number], rows[0])
        blocks[block] = replace(blocks[block], lines=tuple(lines))
        return
    place = next((at for at, block in enumerate(blocks) if _top(block) >= known.box[1]), len(blocks))
    blocks.insert(place, Block(tuple(rows), Pass.BODY))


def _line_beside(blocks: Sequence[Block], box: Box) -> tuple[int, int] | None:
    """The nearest line that the box stands in, as block and line; a label is sooner before its field than behind."""
    nearest: tuple[float, int, int] | None = None
    for place, block in enumerate(blocks):
        for number, line in enumerate(block.lines):
            shared = min(box[3], line.box[3]) - max(box[1], line.box[1])
            if shared < _SAME_LINE * min(box[3] - box[1], line.box[3] - line.box[1]):
                continue
            gap = max(0, box[0] - line.box[2], line.box[0] - box[2])
            off_centre = abs(box[1] + box[3] - line.box[1] - line.box[3]) / 2
            if nearest is None or (gap + off_centre, place, number) < nearest:
                nearest = gap + off_centre, place, number
    return None if nearest is None else nearest[1:]


def _joined(line: Line, added: Line) -> Line:
    """The line with a field before the first word that begins right of where the field does."""
    start = added.box[0]
    place = next(
        (at for at, one in enumerate(line.fragments) if one.box[0] >= start and not one.glued), len(line.fragments)
    )
    fragments = (*line.fragments[:place], *added.fragments, *line.fragments[place:])
    return Line(fragments, around([line.box, added.box]))


def _lines(known: Known) -> list[Line]:
    """The text in its box, its rows one below the other."""
    rows = known.text.split("\n")
    left, top, right, bottom = known.box
    height = (bottom - top) / len(rows)
    lines = []
    for number, row in enumerate(rows):
        box = left, round(top + number * height), right, max(round(top + (number + 1) * height), top + 1)
        lines.append(Line((Fragment(row, _SURE if known.is_sure else _DOUBTFUL, False, box),), box))
    return lines


def _top(block: Block) -> int:
    return min(line.box[1] for line in block.lines)


def _squeezed(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())
