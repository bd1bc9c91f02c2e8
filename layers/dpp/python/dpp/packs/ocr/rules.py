"""Ruled lines of a page: found, taken out of the way of the letters, and put together to grids of cells (RUN-27).

A ruled table has no white space that parts its cells, so the layout alone sees one tall line of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from PIL import Image, ImageChops, ImageDraw

from dpp.packs.ocr.measures import spans_of
from dpp.packs.ocr.pages import Box

_DARK = 255
_WHITE = 255
_LEAST_LENGTH = 48
"""Pixels; strokes of letters in running text are shorter."""
_THICKEST = 0.004
"""Of the page's longer side: a line of 1.2 mm on A4. What is thicker is a bar."""
_LEAST_THICKEST = 6
_LONG = 0.3
"""Of the page's side: a line as long as this is a rule though it crosses no other."""
_LEAST_CELL = 14
_LEAST_FRAME = 200
_REACH = 8
"""Pixels by which crossing lines may miss each other."""
MAX_CELLS = 600
_MAX_LINES = 1_000


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a grid: its place, how many rows and columns it spans, and its inside in pixels."""

    row: int
    column: int
    rows: int
    columns: int
    box: Box


@dataclass(frozen=True, slots=True)
class Grid:
    """A ruled table."""

    box: Box
    rows: int
    columns: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Ruling:
    """The page without its rules, and the grids that they made, from the top."""

    image: Image.Image
    grids: tuple[Grid, ...]


def unruled(image: Image.Image, threshold: int) -> Ruling:
    """Find the rules of an upright page of dark ink."""
    dark = image.point([_DARK if level <= threshold else 0 for level in range(256)])
    thickest = max(_LEAST_THICKEST, round(_THICKEST * max(image.size)))
    flat = list(_lines(dark, thickest))
    # A diagonal flip makes columns of rows.
    upright = [_flipped(line) for line in _lines(dark.transpose(Image.Transpose.TRANSPOSE), thickest)]
    if len(flat) + len(upright) > _MAX_LINES:  # a pattern or a drawing
        return Ruling(image, ())
    away = [line for line in flat if line[2] - line[0] >= _LONG * image.width]
    away += [line for line in upright if line[3] - line[1] >= _LONG * image.height]
    grids = []
    for across, down in _crossing(flat, upright):
        grid = _grid(across, down)
        if grid is not None:
            away += across + down
            if len(grid.cells) > 1:
                grids.append(grid)
    if not away:
        return Ruling(image, ())
    cleaned = image.copy()
    pen = ImageDraw.Draw(cleaned)
    for left, top, right, bottom in away:
        pen.rectangle((left - 1, top - 1, right, bottom), fill=_WHITE)
    return Ruling(cleaned, tuple(sorted(grids, key=lambda grid: grid.box[1])))


def _lines(dark: Image.Image, thickest: int) -> Iterator[Box]:
    """Dark runs along rows, of at least the least length, with runs of neighbouring rows as one line."""
    runs = dark
    reach = 1
    while reach < _LEAST_LENGTH:  # each step doubles the length that must be dark to the right of a pixel
        step = min(reach, _LEAST_LENGTH - reach)
        runs = ImageChops.darker(runs, _shifted(runs, -step))
        reach += step
    for top, bottom in spans_of(runs.getprojection()[1]):
        band = runs.crop((0, top, runs.width, bottom))
        for left, right in spans_of(band.getprojection()[0]):
            part = band.crop((left, 0, right, band.height)).getbbox()
            if part is not None and part[3] - part[1] <= thickest:
                yield left, top + part[1], right + _LEAST_LENGTH - 1, top + part[3]


def _shifted(image: Image.Image, across: int) -> Image.Image:
    moved = Image.new(image.mode, image.size, 0)
    moved.paste(image, (across, 0))
    return moved


def _flipped(line: Box) -> Box:
    return line[1], line[0], line[3], line[2]


def _crossing(flat: Sequence[Box], upright: Sequence[Box]) -> Iterator[tuple[list[Box], list[Box]]]:
    """Sets of lines that hang together by their crossings, each as its flat and its upright ones."""
    touching: dict[Box, list[Box]] = {line: [] for line in (*flat, *upright)}
    for across, down in product(flat, upright):
        if (
            across[0] - _REACH <= down[2]
            and down[0] <= across[2] + _REACH
            and down[1] - _REACH <= across[3]
            and across[1] <= down[3] + _REACH
        ):
            touching[across].append(down)
            touching[down].append(across)
    left = set(touching)
    while left:
        together: set[Box] = set()
        waiting = [left.pop()]
        while waiting:
            line = waiting.pop()
            together.add(line)
            waiting += [other for other in touching[line] if other in left]
            left.difference_update(touching[line])
        yield [line for line in flat if line in together], [line for line in upright if line in together]


def _grid(flat: Sequence[Box], upright: Sequence[Box]) -> Grid | None:
    """The cells between the lines; None of what is no table and no frame, as a large letter."""
    if len(flat) < 2 or not upright:
        return None
    downs = _levels([(line[1], line[3]) for line in flat])
    acrosses = _levels([(line[0], line[2]) for line in upright])
    # A table may be open at its sides: its flat lines then go on beyond the outermost upright ones.
    start, stop = min(line[0] for line in flat), max(line[2] for line in flat)
    if start < acrosses[0][0] - 2 * _LEAST_CELL:
        acrosses.insert(0, (start, start))
    if stop > acrosses[-1][1] + 2 * _LEAST_CELL:
        acrosses.append((stop, stop))
    sides = [b[0] - a[1] for lines in (downs, acrosses) for a, b in pairwise(lines)]
    cells = (len(downs) - 1) * (len(acrosses) - 1)
    if not 0 < cells <= MAX_CELLS or min(sides) < _LEAST_CELL:
        return None
    box = acrosses[0][0], downs[0][0], acrosses[-1][1], downs[-1][1]
    if max(box[2] - box[0], box[3] - box[1]) < _LEAST_FRAME:
        return None
    found = tuple(_cells(downs, acrosses, flat, upright))
    return Grid(box, len(downs) - 1, len(acrosses) - 1, found)


def _levels(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Lines at about the same level as one."""
    levels: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if levels and start <= levels[-1][1] + _REACH:
            levels[-1] = levels[-1][0], max(levels[-1][1], stop)
        else:
            levels.append((start, stop))
    return levels


def _cells(
    downs: Sequence[tuple[int, int]], acrosses: Sequence[tuple[int, int]], flat: Sequence[Box], upright: Sequence[Box]
) -> Iterator[Cell]:
    """From the top left; where no line parts two of them, they are one."""
    rows, columns = len(downs) - 1, len(acrosses) - 1
    taken: set[tuple[int, int]] = set()

    def parted_right(row: int, column: int) -> bool:
        if column + 1 >= columns:
            return True
        middle = (downs[row][1] + downs[row + 1][0]) / 2
        start, stop = acrosses[column + 1]
        return any(b[0] <= stop and start <= b[2] and b[1] <= middle <= b[3] for b in upright)

    def parted_below(row: int, column: int) -> bool:
        if row + 1 >= rows:
            return True
        middle = (acrosses[column][1] + acrosses[column + 1][0]) / 2
        start, stop = downs[row + 1]
        return any(b[1] <= stop and start <= b[3] and b[0] <= middle <= b[2] for b in flat)

    for row, column in product(range(rows), range(columns)):
        if (row, column) in taken:
            continue
        wide = 1
        while not parted_right(row, column + wide - 1) and (row, column + wide) not in taken:
            wide += 1
        tall = 1
        while not any(
            parted_below(row + tall - 1, at) or (row + tall, at) in taken for at in range(column, column + wide)
        ):
            tall += 1
        taken.update(product(range(row, row + tall), range(column, column + wide)))
        box = acrosses[column][1], downs[row][1], acrosses[column + wide][0], downs[row + tall][0]
        yield Cell(row, column, tall, wide, box)
