"""Bytes to grey pages: PNG, JPEG, WebP, BMP, TIFF of many pages, PDF (RUN-27).

Everything is bounded before it is decoded: a file says how large a page is in its first bytes, and one that
would take more than `MAX_PIXELS` is refused there, whatever its pixels are packed to.
"""

import io
import time
import warnings
from collections.abc import Iterator

from PIL import Image, ImageOps, UnidentifiedImageError

from dpp.packs.ocr.faults import ImageFault, ImageFaultError
from dpp.packs.ocr.pages import WORKING_PIXELS, LostPage, Page, check_pixels, reduced

MAX_IMAGE_BYTES = 20_000_000
_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF")
_WHITE = 255
_OPAQUE_MODES = frozenset({"1", "L", "RGB", "CMYK", "YCbCr", "LAB", "HSV"})
# Pillow says all of these of files that are damaged or made to harm; SyntaxError is its PNG reader's.
_DECODING_ERRORS = (OSError, ValueError, SyntaxError, EOFError, TypeError, KeyError, IndexError, OverflowError)


def pages(data: bytes, max_pages: int, deadline: float) -> Iterator[Page | LostPage]:
    """The pages in their order, at most `max_pages`; what is beyond is one LostPage with MAX_PAGES.

    No page is decoded after `deadline` (`time.monotonic()`): what is left then is one LostPage with TIMEBOX.
    Raises ImageFaultError where nothing of the file can be read.
    """
    if len(data) > MAX_IMAGE_BYTES:
        raise ImageFaultError(ImageFault.TOO_MANY_BYTES)
    if b"%PDF-" in data[:1024]:
        # Here and not above: only a PDF needs the 9 MB library, and the import counts within a timebox.
        from dpp.packs.ocr import pdf  # noqa: PLC0415

        return pdf.pages(data, max_pages, deadline)
    return _raster_pages(data, max_pages, deadline)


def _raster_pages(data: bytes, max_pages: int, deadline: float) -> Iterator[Page | LostPage]:
    with _opened(data) as image:
        for number in range(max_pages):
            try:
                if number and not _seek(image, number):
                    return
                if time.monotonic() >= deadline:
                    yield LostPage(ImageFault.TIMEBOX, _count(image, number, max_pages))
                    return
                yield _page(image)
            except ImageFaultError as error:
                yield LostPage(error.fault)
                if error.fault is ImageFault.DAMAGED and number:
                    return  # where the next page stands is written in this one
        if _seek(image, max_pages):
            yield LostPage(ImageFault.MAX_PAGES)


def _opened(data: bytes) -> Image.Image:
    try:
        with warnings.catch_warnings():
            # Pillow's warning of a bomb, and of odd metadata: our own bound decides.
            warnings.simplefilter("ignore")
            return Image.open(io.BytesIO(data), formats=_FORMATS)
    except Image.DecompressionBombError:
        raise ImageFaultError(ImageFault.TOO_MANY_PIXELS) from None
    except UnidentifiedImageError:
        raise ImageFaultError(ImageFault.UNSUPPORTED_FORMAT) from None
    except _DECODING_ERRORS:
        raise ImageFaultError(ImageFault.DAMAGED) from None


def _seek(image: Image.Image, number: int) -> bool:
    """Go to a page; False where there is none. Only TIFF has pages: frames of an animation are none."""
    if image.format != "TIFF":
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image.seek(number)
    except EOFError:
        return False
    except Image.DecompressionBombError:
        raise ImageFaultError(ImageFault.TOO_MANY_PIXELS) from None
    except _DECODING_ERRORS:
        raise ImageFaultError(ImageFault.DAMAGED) from None
    return True


def _count(image: Image.Image, number: int, most: int) -> int:
    """Return how many pages there are from `number` on and below `most`; their pixels are not decoded for it."""
    try:
        return next(page for page in range(number + 1, most + 1) if page == most or not _seek(image, page)) - number
    except ImageFaultError:
        return 1


def _page(image: Image.Image) -> Page:
    pixels = check_pixels(*image.size)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Of JPEG, the decoder itself can leave out colour and every other pixel, which saves the memory.
            image.draft("L", (image.width // 2, image.height // 2) if pixels > 2 * WORKING_PIXELS else image.size)
            return Page(reduced(ImageOps.exif_transpose(_grey(image))), pixels)
    except Image.DecompressionBombError:
        raise ImageFaultError(ImageFault.TOO_MANY_PIXELS) from None
    except _DECODING_ERRORS:
        raise ImageFaultError(ImageFault.DAMAGED) from None


def _grey(image: Image.Image) -> Image.Image:
    """The image in mode L, on white where it is transparent."""
    image.load()
    if image.mode.startswith("I"):  # 16 bits a pixel, of which `convert` would clip all but the lowest 8
        return image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if image.mode == "F":
        return ImageOps.autocontrast(image.convert("L"))
    if image.mode in _OPAQUE_MODES and "transparency" not in image.info:
        return image.convert("L")
    coloured = image.convert("LA")
    page = Image.new("L", coloured.size, _WHITE)
    page.paste(coloured.getchannel("L"), mask=coloured.getchannel("A"))
    return page
