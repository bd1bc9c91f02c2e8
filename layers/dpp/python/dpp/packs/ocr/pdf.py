"""Pages of a PDF as grey pictures, by PDFium (RUN-27)."""

import time
from collections.abc import Iterator

import pypdfium2
from PIL import Image

from dpp.packs.ocr.faults import ImageFault, ImageFaultError
from dpp.packs.ocr.pages import WORKING_PIXELS, LostPage, Page, check_pixels, reduced

DOTS_PER_INCH = 300
_POINTS_PER_INCH = 72
_MAX_POINTS = 14_400
"""The longest side that the format allows (ISO 32000, annex C): 200 inches."""
_ERROR_PASSWORD = 4


def pages(data: bytes, max_pages: int, deadline: float) -> Iterator[Page | LostPage]:
    """As `images.pages`."""
    document = _opened(data)
    try:
        count = len(document)
        for number in range(min(count, max_pages)):
            if time.monotonic() >= deadline:
                yield LostPage(ImageFault.TIMEBOX, min(count, max_pages) - number)
                return
            try:
                yield _rendered(document, number)
            except ImageFaultError as error:
                yield LostPage(error.fault)
            except (pypdfium2.PdfiumError, ValueError):
                yield LostPage(ImageFault.DAMAGED)
        if count > max_pages:
            yield LostPage(ImageFault.MAX_PAGES, count - max_pages)
    finally:
        document.close()


def _opened(data: bytes) -> pypdfium2.PdfDocument:
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        locked = error.err_code == _ERROR_PASSWORD
        raise ImageFaultError(ImageFault.ENCRYPTED if locked else ImageFault.DAMAGED) from None
    if len(document) == 0:
        document.close()
        raise ImageFaultError(ImageFault.DAMAGED)
    return document


def _rendered(document: pypdfium2.PdfDocument, number: int) -> Page:
    page = document[number]
    try:
        width, height = page.get_size()
        if not (0 < width <= _MAX_POINTS and 0 < height <= _MAX_POINTS):
            raise ImageFaultError(ImageFault.TOO_MANY_PIXELS if max(width, height) > 0 else ImageFault.DAMAGED)
        # A PDF has no pixels of its own, so a large page is drawn coarser instead of being refused.
        scale = min(DOTS_PER_INCH / _POINTS_PER_INCH, (WORKING_PIXELS / (width * height)) ** 0.5)
        pixels = check_pixels(max(1, int(width * scale)), max(1, int(height * scale)))
        bitmap = page.render(scale=scale, grayscale=True, may_draw_forms=False)
        try:
            # A copy: the pixels of the bitmap go with it.
            image: Image.Image = bitmap.to_pil().convert("L").copy()
        finally:
            bitmap.close()
    finally:
        page.close()
    return Page(reduced(image), pixels)
