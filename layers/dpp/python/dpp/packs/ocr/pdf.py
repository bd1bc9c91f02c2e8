"""Pages of a PDF as grey pictures, by PDFium (RUN-27)."""

import math
import time
from collections.abc import Iterator

import pypdfium2
import pypdfium2.raw as pdfium
from PIL import Image

from dpp.packs.ocr.annotations import taken_texts
from dpp.packs.ocr.faults import ImageFault, ImageFaultError
from dpp.packs.ocr.grey import grey, is_flat
from dpp.packs.ocr.pages import WORKING_PIXELS, LostPage, Page, Pages, check_pixels

DOTS_PER_INCH = 300
_POINTS_PER_INCH = 72
_MAX_POINTS = 14_400
"""The longest side that the format allows (ISO 32000, annex C): 200 inches."""
_ROUNDING = 10_000
"""Pixels by which a page may become larger when its sides are rounded up."""
_LOCKED = frozenset({pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY})


def pages(data: bytes, max_pages: int, deadline: float, first: int = 0) -> Pages:
    """As `images.pages`."""
    document = _opened(data)
    return Pages(min(len(document), max_pages) - first, _pages(document, first, max_pages, deadline))


def _pages(document: pypdfium2.PdfDocument, first: int, max_pages: int, deadline: float) -> Iterator[Page | LostPage]:
    try:
        count = len(document)
        for number in range(first, min(count, max_pages)):
            if time.monotonic() >= deadline:
                yield LostPage(ImageFault.TIMEBOX, min(count, max_pages) - number)
                return
            try:
                yield _rendered(document, number)
            except ImageFaultError as error:
                yield LostPage(error.fault)
            except (pypdfium2.PdfiumError, ValueError):
                yield LostPage(ImageFault.DAMAGED)
            except MemoryError:
                yield LostPage(ImageFault.TOO_MUCH_MEMORY)
        if count > max_pages:
            yield LostPage(ImageFault.MAX_PAGES, count - max_pages)
        if document.get_formtype() == pdfium.FORMTYPE_XFA_FULL:
            yield LostPage(ImageFault.DYNAMIC_FORM)  # its pages are made by a program; the PDF has a placeholder
    finally:
        document.close()


def _opened(data: bytes) -> pypdfium2.PdfDocument:
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise ImageFaultError(ImageFault.ENCRYPTED if error.err_code in _LOCKED else ImageFault.DAMAGED) from None
    document.init_forms()
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
        scale = min(DOTS_PER_INCH / _POINTS_PER_INCH, ((WORKING_PIXELS - _ROUNDING) / (width * height)) ** 0.5)
        size = math.ceil(width * scale), math.ceil(height * scale)  # as PDFium rounds
        pixels = check_pixels(*size)
        known = tuple(taken_texts(page, document.formenv, size))
        image = _drawn(page, scale, in_colour=False)
        if is_flat(image):
            image = grey(_drawn(page, scale, in_colour=True))
    finally:
        page.close()
    return Page(image, pixels, image.size, known)


def _drawn(page: pypdfium2.PdfPage, scale: float, *, in_colour: bool) -> Image.Image:
    """The page with those of its annotations and form fields that are not hidden."""
    bitmap = page.render(scale=scale, grayscale=not in_colour)
    try:
        # A copy: the pixels of the bitmap go with it.
        image: Image.Image = bitmap.to_pil().convert("RGB" if in_colour else "L").copy()
    finally:
        bitmap.close()
    return image
