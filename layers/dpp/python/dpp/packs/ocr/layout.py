"""The layout of a page by its white space: columns, and runs of lines of one size (RUN-27).

A recursive XY-cut (Nagy and Seth, ICPR 1984), since Tesseract's own analysis breaks Hangul, whose letters have gaps
inside, into pieces. A cut is made where no ink is; what comes out is read piece by piece, top to bottom within
a column, columns from the left.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from PIL import Image, ImageFilter

from dpp.packs.ocr.measures import Span, spans_of
from dpp.packs.ocr.pages import Box

_MAP_SIDE = 1_600
_DARK = 255
_INK_COVERAGE = 100
"""Of 255: how dark a cell of the map must be on average to count as ink; a lone speck is less."""
_INK_AMONG_SPECKS = 36
"""The same over five by five cells: more than three of them."""
_GUTTER_LINE_HEIGHTS = 1.1
_GAP_LINE_HEIGHTS = 1.6
_SAME_SIZE = 1.45
_INSIDE_A_LINE = 0.18
"""Of a line's height: gaps in a letter, and between it and its dot or accent."""
_LEAST_HEIGHT = 3
_MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a page with lines of one size, in pixels of the page."""

    box: Box
    line_height: float
    lines: int

    @property
    def area(self) -> float:
        """Of its lines: what weighs when the usual size is asked for."""
        return self.lines * self.line_height * (self.box[2] - self.box[0])


@dataclass(frozen=True, slots=True)
class Layout:
    """The regions in reading order, and the most columns that stand side by side."""

    regions: tuple[Region, ...]
    columns: int

    @property
    def usual_line_height(self) -> float:
        """The height of the region that holds the middle of all text."""
        ordered = sorted(self.regions, key=lambda region: region.line_height)
        half = sum(region.area for region in ordered) / 2
        for region in ordered:
            half -= region.area
            if half <= 0:
                return region.line_height
        return 0.0


def lay_out(image: Image.Image, threshold: int, *, keeps_rows: bool, speckled: bool = False) -> Layout:
    """Cut a page of dark ink. `keeps_rows`: a gap within rows (of a table, a receipt) is no boundary of columns.

    `speckled`: specks must not bridge the white space.
    """
    share = min(1.0, _MAP_SIDE / max(image.size))
    dark = image.point([_DARK if level <= threshold else 0 for level in range(256)])
    if share < 1:
        size = max(1, round(image.width * share)), max(1, round(image.height * share))
        dark = dark.resize(size, Image.Resampling.BOX)
    if speckled:
        dark = dark.filter(ImageFilter.BoxBlur(2))
    least = _INK_AMONG_SPECKS if speckled else _INK_COVERAGE
    ink = dark.point([_DARK if level >= least else 0 for level in range(256)])
    cutter = _Cutter(ink, keeps_rows)
    found = tuple(_scaled(region, share) for region in cutter.cut((0, 0, *ink.size), 0))
    return Layout(found, max(1, cutter.columns))


def inside(image: Image.Image, box: Box, threshold: int, *, speckled: bool) -> tuple[Region, ...]:
    """The regions within a cell, in pixels of the page; none of an empty cell."""
    left, top = box[:2]
    found = lay_out(image.crop(box), threshold, keeps_rows=True, speckled=speckled).regions
    return tuple(
        Region(_moved(region.box, (left, top, 0, 0)), region.line_height, region.lines)
        for region in found
        if region.box[2] - region.box[0] > _LEAST_HEIGHT
    )


class _Cutter:
    def __init__(self, ink: Image.Image, keeps_rows: bool) -> None:
        self._ink = ink
        self._keeps_rows = keeps_rows
        self.columns = 1

    def cut(self, box: Box, depth: int) -> Iterator[Region]:
        crop = self._ink.crop(box)
        inside = crop.getbbox()
        if inside is None:
            return
        box = _moved(inside, box)
        across, down = self._ink.crop(box).getprojection()
        rows = _joined(spans_of(down))
        if not rows:
            return
        height = float(median(stop - start for start, stop in rows))
        parts = self._parts(box, across, rows, height) if depth < _MAX_DEPTH else []
        if len(parts) < 2:
            yield Region(box, height, len(rows))
            return
        for part in parts:
            yield from self.cut(part, depth + 1)

    def _parts(self, box: Box, across: Sequence[int], rows: Sequence[Span], height: float) -> list[Box]:
        left, top, right, bottom = box
        if not self._keeps_rows:
            # Columns that are not in step make one tall row; the width of a gutter is then judged by the page.
            width = _GUTTER_LINE_HEIGHTS * min(height, 0.02 * self._ink.width)
            columns = _split(spans_of(across), max(4.0, width))
            if len(columns) > 1 and all(self._is_column(box, span) for span in columns):
                self.columns = max(self.columns, len(columns))
                return [(left + start, top, left + stop, bottom) for start, stop in columns]
        return [(left, top + run[0][0], right, top + run[-1][1]) for run in _runs(rows)]

    def _is_column(self, box: Box, span: Span) -> bool:
        """Return whether a part between gutters has lines of its own, and is no gap between two words or a bullet."""
        part = self._ink.crop((box[0] + span[0], box[1], box[0] + span[1], box[3]))
        rows = _joined(spans_of(part.getprojection()[1]))
        return len(rows) >= 2 and part.width > 2 * median(stop - start for start, stop in rows)


def _joined(rows: Sequence[Span]) -> list[Span]:
    """Rows of ink as lines of text: what stands closer than letters' own gaps is one line."""
    if not rows:
        return []
    usual = max(stop - start for start, stop in rows) if len(rows) < 3 else median(s[1] - s[0] for s in rows)
    joined = [rows[0]]
    for start, stop in rows[1:]:
        if start - joined[-1][1] <= max(1.0, _INSIDE_A_LINE * usual):
            joined[-1] = joined[-1][0], stop
        else:
            joined.append((start, stop))
    return [row for row in joined if row[1] - row[0] >= _LEAST_HEIGHT]


def _split(spans: Sequence[Span], least_gap: float) -> list[Span]:
    """Spans joined over gaps that are narrower than `least_gap`."""
    joined: list[Span] = []
    for start, stop in spans:
        if joined and start - joined[-1][1] < least_gap:
            joined[-1] = joined[-1][0], stop
        else:
            joined.append((start, stop))
    return joined


def _runs(rows: Sequence[Span]) -> list[list[Span]]:
    """Neighbouring lines of about one height with no wide gap between them."""
    runs = [[rows[0]]]
    for before, row in pairwise(rows):
        run = runs[-1]
        usual = float(median(stop - start for start, stop in run))
        height = row[1] - row[0]
        same = max(usual, height) <= _SAME_SIZE * max(1.0, min(usual, height))
        if same and row[0] - before[1] <= _GAP_LINE_HEIGHTS * max(usual, height):
            run.append(row)
        else:
            runs.append([row])
    return runs


def _moved(inside: Box, outside: Box) -> Box:
    left, top = outside[:2]
    return left + inside[0], top + inside[1], left + inside[2], top + inside[3]


def _scaled(region: Region, share: float) -> Region:
    left, top, right, bottom = (edge / share for edge in region.box)
    # Outwards: a cell of the map that holds no ink may still hold an edge of a letter.
    box = int(left) - 1, int(top) - 1, int(right) + 2, int(bottom) + 2
    return Region(box, region.line_height / share, region.lines)
