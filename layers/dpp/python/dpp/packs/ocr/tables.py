"""Tables of a page: of ruled grids, and of rows whose words stand in columns (RUN-27)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from dpp.packs.ocr.engine import Fragment, Line
from dpp.packs.ocr.geometry import Carry, around, carried
from dpp.packs.ocr.pages import Box
from dpp.packs.ocr.rules import Cell

_GUTTER = 1.0
"""Line heights between two columns, at least."""
_CROSSING = 0.2
"""Share of the rows whose words may reach across a gutter, as a heading does."""


@dataclass(frozen=True, slots=True)
class CellReading:
    """A cell with what was read of it; an empty one has no line."""

    cell: Cell
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table with all its cells, row by row."""

    box: Box
    rows: int
    columns: int
    cells: tuple[CellReading, ...]

    def carried(self, back: Carry) -> "Table":
        """The table with its boxes in the other picture."""
        cells = tuple(
            CellReading(
                Cell(one.cell.row, one.cell.column, one.cell.rows, one.cell.columns, back(one.cell.box)),
                tuple(carried(line, back) for line in one.lines),
            )
            for one in self.cells
        )
        return Table(back(self.box), self.rows, self.columns, cells)


def rows_of(table: Table) -> list[Line]:
    """The table as text: a line a row, of its cells from left to right."""
    lines = []
    for row in range(table.rows):
        fragments: list[Fragment] = []
        for one in table.cells:
            if one.cell.row == row:
                fragments += [fragment for line in one.lines for fragment in line.fragments]
        if fragments:
            lines.append(Line(tuple(fragments), around(one.box for one in fragments)))
    return lines


def aligned(lines: Sequence[Line]) -> Table | None:
    """The table that the lines of a block make; None where there are no two columns or no two rows."""
    if len(lines) < 2:
        return None
    words = [_words(line) for line in lines]
    height = sorted(line.box[3] - line.box[1] for line in lines)[len(lines) // 2]
    box = around(line.box for line in lines)
    edges = _gutters([around(one.box for one in word) for row in words for word in row], box, height, len(lines))
    if not edges:
        return None
    starts = [box[0], *edges, box[2]]
    bottoms = [box[1], *((a.box[3] + b.box[1]) // 2 for a, b in pairwise(lines)), box[3]]
    cells = []
    for row, (top, bottom) in enumerate(pairwise(bottoms)):
        for column, (left, right) in enumerate(pairwise(starts)):
            inside = [
                fragment
                for word in words[row]
                if column == sum(edge <= _middle(word) for edge in edges)
                for fragment in word
            ]
            read = (Line(tuple(inside), around(one.box for one in inside)),) if inside else ()
            cells.append(CellReading(Cell(row, column, 1, 1, (left, top, right, max(bottom, top + 1))), read))
    return Table(box, len(lines), len(starts) - 1, tuple(cells))


def _words(line: Line) -> list[list[Fragment]]:
    words: list[list[Fragment]] = []
    for fragment in line.fragments:
        if fragment.glued and words:
            words[-1].append(fragment)
        else:
            words.append([fragment])
    return words


def _middle(word: Sequence[Fragment]) -> float:
    box = around(one.box for one in word)
    return (box[0] + box[2]) / 2


def _gutters(words: Sequence[Box], box: Box, height: int, rows: int) -> list[int]:
    """The middles of the gaps between columns: wide enough, and free of words in nearly all rows."""
    changes = sorted([(one[0], 1) for one in words] + [(one[2], -1) for one in words])
    middles = []
    depth, gap_start = 0, box[0]
    most = int(_CROSSING * rows)
    for place, change in changes:
        before, depth = depth, depth + change
        if before <= most < depth and gap_start > box[0] and place - gap_start >= _GUTTER * height:
            middles.append((gap_start + place) // 2)
        if depth <= most < before:
            gap_start = place
    return middles
