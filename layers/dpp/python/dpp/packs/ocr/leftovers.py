"""Ink that no reading explains: marked as unreadable where it stands, so that nothing is lost in silence (RUN-27)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from PIL import Image, ImageDraw, ImageFilter

from dpp.packs.ocr.engine import Fragment, Line, mean_confidence
from dpp.packs.ocr.layout import Region, lay_out
from dpp.packs.ocr.pages import Box
from dpp.packs.ocr.prepare import Prepared
from dpp.packs.ocr.profiles import Pass

_WHITE = 255
_DARK = 255
_FULL = 250
"""Of 255: how dark an area is on average of which every pixel is dark."""
_NO_LETTER = "\ufffd"
_AROUND = 0.4
"""Of a line's height: what is so near to it is a part of its letters."""
_SMALLEST, _LARGEST = 0.5, 2.5
"""Of the usual height: what is lower is a speck or a stroke, and what is higher is a picture or one large sign."""
_SOLID = 0.8
"""Of the usual height: a dark area as wide and as high is no stroke."""
MAX_READ = 20
"""Of a page's pieces of ink, so many are read by themselves."""
_LEGIBLE = 70


@dataclass(frozen=True, slots=True)
class Block:
    """The lines of a region, as they count, and what the region is on its page."""

    lines: tuple[Line, ...]
    kind: Pass


def with_leftovers(prepared: Prepared, blocks: Sequence[Block], read: Callable[[Region], list[Line]]) -> list[Block]:
    """The blocks of a page, with one more for each piece of ink that none of them explains.

    Such a piece is read by itself (`read`), and marked as unreadable where that gives nothing. Nothing is added where
    nothing was read at all: then the page as a whole is unreadable, and its reader says so.
    """
    lines = [line for block in blocks for line in block.lines]
    if not lines:
        return list(blocks)
    usual = median(line.box[3] - line.box[1] for line in lines)
    merged = list(blocks)
    for number, region in enumerate(_unexplained(prepared, lines, usual)):
        found = read(region) if number < MAX_READ and region.line_height <= _LARGEST * usual else []
        if mean_confidence(found) < _LEGIBLE:
            found = [_unreadable(region, usual)]
        place = next((at for at, block in enumerate(merged) if _follows(block, region.box)), len(merged))
        merged.insert(place, Block(tuple(found), Pass.BODY))
    return merged


def _unexplained(prepared: Prepared, lines: Sequence[Line], usual: float) -> list[Region]:
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
    rest.paste(_WHITE, mask=_solid(prepared, usual))
    found = lay_out(rest, prepared.threshold, keeps_rows=True, speckled=prepared.speckled)
    return [
        region
        for region in found.regions
        if region.line_height >= _SMALLEST * usual and region.box[2] - region.box[0] >= _SMALLEST * usual
    ]


def _solid(prepared: Prepared, usual: float) -> Image.Image:
    """A mask of dark areas without a hole, such as bars and bands: much thicker than strokes, they hold no letter."""
    cell = max(2, round(_SOLID / 3 * usual))
    dark = prepared.image.point([_DARK if level <= prepared.threshold else 0 for level in range(256)])
    full = dark.reduce(cell).point([_DARK if level >= _FULL else 0 for level in range(256)])
    whole = full.filter(ImageFilter.MinFilter(3)).filter(ImageFilter.MaxFilter(5))
    across, down = whole.width * cell, whole.height * cell
    return whole.resize((across, down), Image.Resampling.NEAREST).crop((0, 0, *prepared.image.size))


def _unreadable(region: Region, usual: float) -> Line:
    """As many letters as the piece of ink may be; one of a picture."""
    width = region.box[2] - region.box[0]
    is_picture = region.line_height > _LARGEST * usual
    letters = 1 if is_picture else max(1, round(region.lines * width / region.line_height))
    return Line((Fragment(_NO_LETTER * letters, 0.0, False, region.box),), region.box)


def _follows(block: Block, box: Box) -> bool:
    """Return whether a block stands below a piece of ink, in the same columns."""
    top = min(line.box[1] for line in block.lines)
    left, right = min(line.box[0] for line in block.lines), max(line.box[2] for line in block.lines)
    return box[1] <= top and left < box[2] and box[0] < right
