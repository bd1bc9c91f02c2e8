"""Bytes to grey pages: PNG, JPEG, WebP, GIF, BMP, TIFF of many pages, PDF (RUN-27).

Everything is bounded before it is decoded: a file says how large a page is in its first bytes, and one that
would take more than `MAX_PIXELS` is refused there, whatever its pixels are packed to.
"""

import contextlib
import importlib
import io
import struct
import time
import warnings
import zlib
from collections.abc import Iterator

from PIL import Image, ImageOps, UnidentifiedImageError

from dpp.packs.ocr.faults import ImageFault, ImageFaultError
from dpp.packs.ocr.grey import grey, is_flat
from dpp.packs.ocr.pages import WORKING_PIXELS, LostPage, Page, Pages, check_pixels, reduced

MAX_IMAGE_BYTES = 20_000_000
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
_ANIMATED = frozenset({"GIF", "PNG", "WEBP"})
# Pillow says all of these of files that are damaged or made to harm; SyntaxError is its PNG reader's.
_DECODING_ERRORS = (
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    struct.error,
    zlib.error,
)


def pages(data: bytes, max_pages: int, deadline: float, first: int = 0) -> Pages:
    """The pages in their order from `first` on, up to the one before `max_pages`; one LostPage with MAX_PAGES beyond.

    No page is decoded after `deadline` (`time.monotonic()`): what is left then is one LostPage with TIMEBOX. The file
    is opened at once: raises ImageFaultError where nothing of it can be read.
    """
    if len(data) > MAX_IMAGE_BYTES:
        raise ImageFaultError(ImageFault.TOO_MANY_BYTES)
    if _is_pdf(data):
        # Here and not above: only a PDF needs the 9 MB library, and the import counts within a timebox.
        from dpp.packs.ocr import pdf  # noqa: PLC0415

        return pdf.pages(data, max_pages, deadline, first)
    image = _opened(data)
    count = _count(image, first, max_pages)
    _seek(image, 0)
    return Pages(count, _raster_pages(image, data, range(first, max_pages), deadline))


def load_reader(data: bytes) -> None:
    """Load what reading the file takes, for all processes that are forked from this one."""
    if _is_pdf(data):
        importlib.import_module("dpp.packs.ocr.pdf")


def _is_pdf(data: bytes) -> bool:
    return b"%PDF-" in data[:1024]


def _raster_pages(image: Image.Image, data: bytes, wanted: range, deadline: float) -> Iterator[Page | LostPage]:
    with image:
        for number in wanted:
            try:
                if number and not _seek(image, number):
                    break
            except ImageFaultError as error:
                yield LostPage(error.fault)  # where the next page stands is written in this one
                return
            if time.monotonic() >= deadline:
                yield LostPage(ImageFault.TIMEBOX, _count(image, number, wanted.stop))
                return
            try:
                yield _page(image, data)
            except ImageFaultError as error:
                yield LostPage(error.fault)
        else:
            if _has_more(image, wanted.stop):
                yield LostPage(ImageFault.MAX_PAGES)
        if _is_animated(image):
            yield LostPage(ImageFault.ANIMATION)


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


def _has_more(image: Image.Image, number: int) -> bool:
    try:
        return _seek(image, number)
    except ImageFaultError:
        return True


def _is_animated(image: Image.Image) -> bool:
    try:
        return image.format in _ANIMATED and bool(getattr(image, "is_animated", False))
    except _DECODING_ERRORS:
        return False


def _count(image: Image.Image, number: int, most: int) -> int:
    """Return how many pages there are from `number` on and below `most`, one at least; no pixel is decoded for it."""
    try:
        return next(page for page in range(number + 1, most + 1) if page == most or not _seek(image, page)) - number
    except ImageFaultError:
        return 1


def _upright_grey(image: Image.Image) -> Image.Image:
    """The page's pixels as its camera held it; every step after the first is on at most WORKING_PIXELS."""
    image.load()
    if image.mode in {"I;16", "I;16B", "I;16L", "I;16N", "I"}:
        image = image.convert("F")
    if image.mode not in {"P", "PA", "1"}:
        image = reduced(image)
    with contextlib.suppress(*_DECODING_ERRORS):  # damaged metadata: the pixels stand as they are
        image = ImageOps.exif_transpose(image)
    return reduced(grey(image))


def _page(image: Image.Image, data: bytes) -> Page:
    size = image.size
    pixels = check_pixels(*size)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Of JPEG, the decoder itself can leave out colour and every other pixel, which saves the memory.
            image.draft("L", (image.width // 2, image.height // 2) if pixels > 2 * WORKING_PIXELS else image.size)
            page = _upright_grey(image)
            if image.format in {"JPEG", "MPO"} and image.mode == "L" and is_flat(page):
                page = _upright_grey(_opened(data))
            turned = (page.width > page.height) != (image.width > image.height)
            return Page(page, pixels, (size[1], size[0]) if turned else size)
    except Image.DecompressionBombError:
        raise ImageFaultError(ImageFault.TOO_MANY_PIXELS) from None
    except MemoryError:
        raise ImageFaultError(ImageFault.TOO_MUCH_MEMORY) from None
    except _DECODING_ERRORS:
        raise ImageFaultError(ImageFault.DAMAGED) from None
