"""Boxes of what was read, carried back from the piece that was read to the page (RUN-27)."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from PIL import Image

from dpp.packs.ocr.engine import Line
from dpp.packs.ocr.pages import Box

type Carry = Callable[[Box], Box]
"""From a box in one picture to the smallest upright one around it in another."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A piece of a page, scaled and framed; `left` and `top` are the page's pixels at the piece's edge."""

    image: Image.Image
    left: int
    top: int
    across: float
    down: float
    frame: int

    def back(self, box: Box) -> Box:
        """The box in the page."""
        return (
            round((box[0] - self.frame) / self.across) + self.left,
            round((box[1] - self.frame) / self.down) + self.top,
            round((box[2] - self.frame) / self.across) + self.left,
            round((box[3] - self.frame) / self.down) + self.top,
        )


def carried(line: Line, back: Carry) -> Line:
    """The line with its boxes in the other picture."""
    fragments = tuple(replace(one, box=back(one.box)) for one in line.fragments)
    return Line(fragments, back(line.box))


def turned_back(size: tuple[int, int], turned: tuple[int, int], degrees: float) -> Carry:
    """From a picture that `Image.rotate` with `expand` made of one of `size`, to that one."""
    angle = -math.radians(degrees)
    cosine, sine = math.cos(angle), math.sin(angle)

    def back(box: Box) -> Box:
        corners = [(x - turned[0] / 2, y - turned[1] / 2) for x in (box[0], box[2]) for y in (box[1], box[3])]
        across = [x * cosine + y * sine + size[0] / 2 for x, y in corners]
        down = [y * cosine - x * sine + size[1] / 2 for x, y in corners]
        return within((round(min(across)), round(min(down)), round(max(across)), round(max(down))), size)

    return back


def scaled(size: tuple[int, int], wanted: tuple[int, int]) -> Carry:
    """From a picture of `size` to the same one in another size."""
    across, down = wanted[0] / size[0], wanted[1] / size[1]

    def back(box: Box) -> Box:
        moved = round(box[0] * across), round(box[1] * down), round(box[2] * across), round(box[3] * down)
        return within(moved, wanted)

    return back


def within(box: Box, size: tuple[int, int]) -> Box:
    """The box without what is outside of a picture of `size`; at least one pixel of it."""
    left, top = min(max(0, box[0]), size[0] - 1), min(max(0, box[1]), size[1] - 1)
    return left, top, max(left + 1, min(box[2], size[0])), max(top + 1, min(box[3], size[1]))


def around(boxes: Iterable[Box]) -> Box:
    """The smallest box that holds all of them; there is at least one."""
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)
