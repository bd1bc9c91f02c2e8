"""The passes over a page: titles, body and fine print, each region at the size that suits it (RUN-27)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from dpp.packs.ocr.engine import Engine, Line, mean_confidence
from dpp.packs.ocr.geometry import Cut, carried
from dpp.packs.ocr.layout import Region, inside
from dpp.packs.ocr.leftovers import Block, with_leftovers
from dpp.packs.ocr.pages import Box
from dpp.packs.ocr.prepare import Prepared, prepare
from dpp.packs.ocr.profiles import Pass, Profile, Segmentation, lock_segmentation
from dpp.packs.ocr.rules import Grid
from dpp.packs.ocr.tables import CellReading, Table, aligned, rows_of

_TITLE_SHARE = 1.45
_FINE_PRINT_SHARE = 0.72
"""Of the page's usual line height."""
_GOOD_LINE = 40.0
"""Pixels from the top to the bottom of a line, at which Tesseract reads best."""
_FITTING_LINES = (26.0, 90.0)
_MAX_ENLARGEMENT = 4.0
_HEIGHTS_ALONE = (48.0, 28.0)
_MAX_LINES_ALONE = 40
_KEPT = 0.7
"""Of the characters: a reading that lost more is no better for being sure of the rest."""
_SURE = 70
"""Mean confidence, 0–100, below which a page is also tried in the other three directions, and a region in
another segmentation."""
_VERY_SURE = 85
"""The same where the page's letters suggest a direction."""
_FEW_CHARACTERS = 8
_MUCH_BETTER = 1.3
"""Factor by which a reading must outweigh one in the likely direction."""
_HOPELESS = 40
"""Mean confidence of a region, 0–100, whose lines are not worth a second look."""
_WHITE = 255
_FRAME = 12
"""Pixels of paper around what is read; letters at an edge are lost."""


@dataclass(frozen=True, slots=True)
class PageReading:
    """All that was read of a page, in its pixels; no block and not blank means ink that nothing could be made of."""

    prepared: Prepared
    blocks: tuple[Block, ...]
    tables: tuple[Table, ...] = ()


def read_page(engine: Engine, page: Image.Image, profile: Profile, deadline: float) -> PageReading:
    """Read a page until `deadline` (`time.monotonic()`). Raises OutOfTimeError."""
    first = prepare(engine, page, profile)
    if first.is_blank:
        return PageReading(first, ())
    return _whole(engine, _best(engine, page, first, profile, deadline), profile, deadline)


def _best(engine: Engine, page: Image.Image, first: Prepared, profile: Profile, deadline: float) -> PageReading:
    """The best reading of the page in the directions that come into question, in pixels of its prepared image."""
    best = _read(engine, first, profile, deadline)
    for degrees in sorted({0, 90, 180, 270} - {first.rotation.degrees}, key=lambda turn: turn != first.guess):
        lines = _all_lines(best)
        # A few strokes of a page that lies on its side may be read with confidence, as letters like | and ㅡ.
        enough = _VERY_SURE if degrees == first.guess else _SURE
        if mean_confidence(lines) >= enough and sum(line.characters for line in lines) >= _FEW_CHARACTERS:
            break
        turned = _read(engine, prepare(engine, page, profile, rotation_degrees=degrees), profile, deadline)
        # The few letters of a page number look like others from any side.
        is_likely = first.guess is None or mean_confidence(lines) >= _SURE
        better = _MUCH_BETTER if is_likely else 1.0
        if _weight(_all_lines(turned)) > better * _weight(lines):
            best = turned
    return best


def _all_lines(reading: PageReading) -> list[Line]:
    return [line for block in reading.blocks for line in block.lines]


def _weight(lines: Sequence[Line]) -> float:
    """Return the better of two readings of the same ink: the more confident one, unless it lost letters."""
    return mean_confidence(list(lines)) * math.sqrt(sum(line.characters for line in lines))


def _read(engine: Engine, prepared: Prepared, profile: Profile, deadline: float) -> PageReading:
    regions = _Regions(engine, prepared.image, profile, deadline)
    usual = prepared.layout.usual_line_height
    blocks: list[Block] = []
    tables: list[Table] = []
    grids = list(prepared.grids)
    for region in prepared.layout.regions:
        while grids and _stands_before(grids[0].box, region.box):
            tables.append(_read_grid(regions, prepared, grids.pop(0)))
            blocks.append(Block(tuple(rows_of(tables[-1])), Pass.BODY))
        lines = regions.read(region)
        if not lines:
            continue
        blocks.append(Block(tuple(lines), _kind(region, usual)))
        table = aligned(lines) if profile.keeps_rows else None
        if table is not None:
            tables.append(table)
    for grid in grids:
        tables.append(_read_grid(regions, prepared, grid))
        blocks.append(Block(tuple(rows_of(tables[-1])), Pass.BODY))
    return PageReading(prepared, tuple(block for block in blocks if block.lines), tuple(tables))


def _whole(engine: Engine, reading: PageReading, profile: Profile, deadline: float) -> PageReading:
    """The reading with what it left, and in pixels of the page as it came."""
    prepared = reading.prepared
    regions = _Regions(engine, prepared.image, profile, deadline)
    blocks = with_leftovers(prepared, reading.blocks, regions.read)
    return PageReading(
        prepared,
        tuple(Block(tuple(carried(line, prepared.back) for line in one.lines), one.kind) for one in blocks),
        tuple(table.carried(prepared.back) for table in reading.tables),
    )


def _stands_before(box: Box, other: Box) -> bool:
    """Return whether a grid comes before a region: it is above it, in the same columns."""
    return (box[1] + box[3]) / 2 <= other[1] + 1 and box[0] < other[2] and other[0] < box[2]


def _read_grid(regions: "_Regions", prepared: Prepared, grid: Grid) -> Table:
    cells = []
    for cell in grid.cells:
        found = inside(prepared.image, cell.box, prepared.threshold, speckled=prepared.speckled)
        cells.append(CellReading(cell, tuple(line for region in found for line in regions.read(region))))
    return Table(grid.box, grid.rows, grid.columns, tuple(cells))


class _Regions:
    """Reads the regions of one page, with a bound on the lines that get a second look."""

    def __init__(self, engine: Engine, page: Image.Image, profile: Profile, deadline: float) -> None:
        self._engine = engine
        self._page = page
        self._profile = profile
        self._deadline = deadline
        self._alone_left = _MAX_LINES_ALONE

    def read(self, region: Region) -> list[Line]:
        """The lines of a region, in pixels of the page."""
        cut = _cut(self._page, region)
        lines = _lines_of(self._engine, cut.image, region, self._profile, self._deadline)
        worth = mean_confidence(lines) >= _HOPELESS
        for number, line in enumerate(lines):
            if worth and self._alone_left and line.least_confidence < self._profile.reread_below:
                self._alone_left -= 1
                height = region.line_height * cut.down
                lines[number] = _read_alone(self._engine, cut.image, line, height, self._deadline)
        return [carried(line, cut.back) for line in lines]


def _lines_of(engine: Engine, image: Image.Image, region: Region, profile: Profile, deadline: float) -> list[Line]:
    """The region as the layout has it; where that gives little, as Tesseract would cut it itself."""
    lines = engine.read(image, lock_segmentation(region.lines), deadline)
    if mean_confidence(lines) >= _SURE:
        return lines
    other = Segmentation.SPARSE if profile.scattered or not lines else Segmentation.AUTO
    again = engine.read(image, other, deadline)
    return again if _weight(again) > _weight(lines) else lines


def _kind(region: Region, usual: float) -> Pass:
    if region.line_height >= _TITLE_SHARE * usual:
        return Pass.TITLE
    return Pass.FINE_PRINT if region.line_height <= _FINE_PRINT_SHARE * usual else Pass.BODY


def _cut(page: Image.Image, region: Region) -> Cut:
    """The region with paper around it, at a size that fits."""
    margin = max(2, round(region.line_height / 6))
    least, most = _FITTING_LINES
    scale = 1.0
    if not least <= region.line_height <= most:
        scale = min(_MAX_ENLARGEMENT, _GOOD_LINE / region.line_height)
        if region.lines == 1 or region.line_height < least:
            scale = max(scale, 0.1)
    return _framed(page, region.box, margin, scale)


def _framed(image: Image.Image, box: Box, margin: int, scale: float) -> Cut:
    left, top, right, bottom = box
    edges = (
        max(0, left - margin),
        max(0, top - margin),
        min(image.width, right + margin),
        min(image.height, bottom + margin),
    )
    cut = image.crop(edges)
    whole = cut.size
    if scale != 1:
        size = max(1, round(cut.width * scale)), max(1, round(cut.height * scale))
        cut = cut.resize(size, Image.Resampling.LANCZOS)
    framed = Image.new("L", (cut.width + 2 * _FRAME, cut.height + 2 * _FRAME), _WHITE)
    framed.paste(cut, (_FRAME, _FRAME))
    return Cut(framed, edges[0], edges[1], cut.width / whole[0], cut.height / whole[1], _FRAME)


def _read_alone(engine: Engine, image: Image.Image, line: Line, height: float, deadline: float) -> Line:
    """The line read again by itself, larger and smaller; the best of the readings, in its place."""
    best = line
    for wanted in _HEIGHTS_ALONE:
        cut = _framed(image, line.box, round(height / 4), wanted / max(8.0, height))
        again = engine.read(cut.image, Segmentation.SINGLE_LINE, deadline)
        fragments = tuple(one for found in again for one in carried(found, cut.back).fragments)
        other = Line(fragments, line.box)
        if other.confidence > best.confidence and other.characters >= _KEPT * best.characters:
            best = other
    return best
