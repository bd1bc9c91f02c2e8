"""Pages as the readers of images and of PDF return them, and the limits of their size (RUN-27)."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from PIL import Image

from dpp.packs.ocr.faults import ImageFault, ImageFaultError

type Box = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels; right and bottom are the first outside."""

MAX_PIXELS = 40_000_000
"""A page of A4 at 600 dpi has 35 million."""
WORKING_PIXELS = 12_000_000
"""Larger pages are reduced to this: A4 at about 350 dpi, beyond which recognition does not improve."""


class KnownKind(StrEnum):
    """Kinds of text that the file itself states."""

    FIELD = "field"
    BUTTON = "button"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Known:
    """A text that a PDF states beside its drawing, and its box in pixels of the page's image.

    A field's text stands where its box is, and its drawing is left out of the image. A button's box has nothing else
    in it. A note is added at the end unless the page shows it already.
    """

    text: str
    box: Box
    kind: KnownKind
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    """One page, upright and grey (mode L), reduced to at most WORKING_PIXELS; `pixels` and `size` as in the file."""

    image: Image.Image
    pixels: int
    size: tuple[int, int]
    known: tuple[Known, ...] = ()


@dataclass(frozen=True, slots=True)
class LostPage:
    """`pages` successive pages that were not read, and why."""

    fault: ImageFault
    pages: int = 1


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of an opened file, and how many they are as far as the file says."""

    count: int
    found: Iterator[Page | LostPage]

    def __iter__(self) -> Iterator[Page | LostPage]:
        return self.found


def reduced(image: Image.Image) -> Image.Image:
    """Return the image with at most WORKING_PIXELS."""
    share = (WORKING_PIXELS / (image.width * image.height)) ** 0.5
    if share >= 1:
        return image
    size = max(1, int(image.width * share)), max(1, int(image.height * share))
    return image.resize(size, Image.Resampling.BOX, reducing_gap=2.0)


def check_pixels(width: int, height: int) -> int:
    """Return the number of pixels. Raises ImageFaultError beyond MAX_PIXELS."""
    if width < 1 or height < 1:
        raise ImageFaultError(ImageFault.DAMAGED)
    if width * height > MAX_PIXELS:
        raise ImageFaultError(ImageFault.TOO_MANY_PIXELS)
    return width * height
