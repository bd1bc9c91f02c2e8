"""Ink that no reading explains: marked as unreadable where it stands, so that nothing is lost in silence (RUN-27)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from PIL import ImageDraw

from dpp.packs.ocr.engine import Fragment, Line
from dpp.packs.ocr.layout import Region, lay_out
from dpp.packs.ocr.pages import Box
from dpp.packs.ocr.prepare import Prepared
from dpp.packs.ocr.profiles import Pass

_WHITE = 255
_NO_LETTER = "\ufffd"
_AROUND = 0.4
"""Of a line's height: what is so near to it is a part of its letters."""
_SMALLEST, _LARGEST = 0.5, 2.5
"""Of the usual height: what is lower is a speck or a stroke, and what is higher is a picture or one large sign."""
MAX_LEFTOVERS = 50
"""Of a page."""


@dataclass(frozen=True, slots=True)
class Block:
    """The lines of a region, as they count, and what the region is on its page."""

    lines: tuple[Line, ...]
    kind: Pass


def with_leftovers(prepared: Prepared, blocks: Sequence[Block]) -> list[Block]:
    """The blocks of a page, with an unreadable one for each piece of ink that none of them explains.

    None where nothing was read at all: then the page as a whole is unreadable, and its reader says so.
    """
    lines = [line for block in blocks for line in block.lines]
    if not lines:
        return list(blocks)
    usual = median(line.box[3] - line.box[1] for line in lines)
    merged = list(blocks)
    for line in list(_unexplained(prepared, lines, usual))[:MAX_LEFTOVERS]:
        place = next((at for at, block in enumerate(merged) if _follows(block, line.box)), len(merged))
        merged.insert(place, Block((line,), Pass.BODY))
    return merged


def _unexplained(prepared: Prepared, lines: Sequence[Line], usual: float) -> Iterator[Line]:
    rest = prepared.image.copy()
    pen = ImageDraw.Draw(rest)
    for line in lines:
        # Words for the sides, since a line's own box may have grown over what was not read.
        reach = round(_AROUND * (line.box[3] - line.box[1]))
        for box in (fragment.box for fragment in line.fragments):
            pen.rectangle(
                (box[0] - reach, min(box[1], line.box[1]) - reach, box[2] + reach, max(box[3], line.box[3]) + reach),
                fill=_WHITE,
            )
    found = lay_out(rest, prepared.threshold, keeps_rows=True, speckled=prepared.speckled)
    for region in found.regions:
        width = region.box[2] - region.box[0]
        if region.line_height < _SMALLEST * usual or width < _SMALLEST * usual:
            continue
        yield Line((Fragment(_NO_LETTER * _letters(region, width, usual), 0.0, False, region.box),), region.box)


def _letters(region: Region, width: int, usual: float) -> int:
    """About how many letters a piece of ink may be: one of a picture."""
    if region.line_height > _LARGEST * usual:
        return 1
    return max(1, round(region.lines * width / region.line_height))


def _follows(block: Block, box: Box) -> bool:
    """Return whether a block stands below a piece of ink, in the same columns."""
    top = min(line.box[1] for line in block.lines)
    left, right = min(line.box[0] for line in block.lines), max(line.box[2] for line in block.lines)
    return box[1] <= top and left < box[2] and box[0] < right
