"""Pages as the readers of images and of PDF return them, and the limits of their size (RUN-27)."""

from dataclasses import dataclass

from PIL import Image

from dpp.packs.ocr.faults import ImageFault, ImageFaultError

MAX_PIXELS = 40_000_000
"""A page of A4 at 600 dpi has 35 million."""
WORKING_PIXELS = 12_000_000
"""Larger pages are reduced to this: A4 at about 350 dpi, beyond which recognition does not improve."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page, grey (mode L), reduced to at most WORKING_PIXELS; `pixels` as it was in the file."""

    image: Image.Image
    pixels: int


@dataclass(frozen=True, slots=True)
class LostPage:
    """`pages` successive pages that were not read, and why."""

    fault: ImageFault
    pages: int = 1


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
