"""Text that a PDF page states beside its drawing: values of form fields, and annotations' words (RUN-27).

A field's drawing is read with Tesseract's errors, and one without an appearance stream may not be drawn at all; the
document's own value has neither fault. (ISO 32000-1, 12.5 annotations and 12.7 interactive forms.)
"""

import ctypes
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from dpp.packs.ocr.faults import ImageFault, ImageFaultError
from dpp.packs.ocr.pages import Box, Known, KnownKind

_MAX_VALUE_BYTES = 2_000_000
_HIDDEN = pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
_PASSWORD_FLAG = 1 << 13
_WITH_WORDS = frozenset(
    {
        pdfium.FPDF_ANNOT_TEXT,
        pdfium.FPDF_ANNOT_HIGHLIGHT,
        pdfium.FPDF_ANNOT_UNDERLINE,
        pdfium.FPDF_ANNOT_SQUIGGLY,
        pdfium.FPDF_ANNOT_STRIKEOUT,
        pdfium.FPDF_ANNOT_CARET,
        pdfium.FPDF_ANNOT_SQUARE,
        pdfium.FPDF_ANNOT_CIRCLE,
        pdfium.FPDF_ANNOT_LINE,
        pdfium.FPDF_ANNOT_POLYGON,
        pdfium.FPDF_ANNOT_POLYLINE,
        pdfium.FPDF_ANNOT_INK,
        pdfium.FPDF_ANNOT_FILEATTACHMENT,
    }
)
_BUTTONS = frozenset({pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON})
_NAME_PARTS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_OFF = "Off"
_CONTRADICTED = "\0"
"""Behind a state that the field's value says and its drawing does not."""
CHECKED, UNCHECKED = "[x]", "[ ]"
CHOSEN, NOT_CHOSEN = "(x)", "( )"


def taken_texts(page: pypdfium2.PdfPage, form: Any, size: tuple[int, int]) -> Iterator[Known]:
    """The stated texts of a page that is drawn in `size` pixels, in the file's order; hidden ones are left out.

    Those that stand in for their drawing are hidden from then on, so that they are not read a second time. `form` is
    PDFium's form environment, or None where the document has no form.
    """
    for number in range(pdfium.FPDFPage_GetAnnotCount(page)):
        annotation = pdfium.FPDFPage_GetAnnot(page, number)
        if not annotation:
            continue
        try:
            flags = pdfium.FPDFAnnot_GetFlags(annotation)
            known = None if flags & _HIDDEN else _stated(page, form, annotation, size)
            if known is None:
                continue
            if known.kind is not KnownKind.NOTE:
                pdfium.FPDFAnnot_SetFlags(annotation, flags | pdfium.FPDF_ANNOT_FLAG_HIDDEN)
            yield known
        finally:
            pdfium.FPDFPage_CloseAnnot(annotation)


def _stated(page: pypdfium2.PdfPage, form: Any, annotation: Any, size: tuple[int, int]) -> Known | None:
    kind = KnownKind.NOTE
    match pdfium.FPDFAnnot_GetSubtype(annotation):
        case pdfium.FPDF_ANNOT_WIDGET if form:
            is_button = pdfium.FPDFAnnot_GetFormFieldType(form, annotation) in _BUTTONS
            kind = KnownKind.BUTTON if is_button else KnownKind.FIELD
            text = _field(form, annotation)
        case pdfium.FPDF_ANNOT_WIDGET:  # a field that no form has: its value is its own
            kind, text = KnownKind.FIELD, _string(annotation, b"V")
        case pdfium.FPDF_ANNOT_FREETEXT:
            kind, text = KnownKind.FIELD, _string(annotation, b"Contents")
        case pdfium.FPDF_ANNOT_STAMP:
            text = _string(annotation, b"Contents")
            if not text and not _text(_appearance_of(annotation)):
                text = _NAME_PARTS.sub(" ", _string(annotation, b"Name"))  # a standard stamp, as /NotApproved
        case subtype if subtype in _WITH_WORDS:
            text = _string(annotation, b"Contents")
        case _:
            return None
    is_sure = not text.endswith(_CONTRADICTED)
    text = _plain(text.removesuffix(_CONTRADICTED))
    box = _box(page, annotation, size)
    return Known(text, box, kind, is_sure) if text and box is not None else None


def _field(form: Any, widget: Any) -> str:
    """A field's state as text; empty for what has none, such as an empty field or a button."""
    match pdfium.FPDFAnnot_GetFormFieldType(form, widget):
        case pdfium.FPDF_FORMFIELD_CHECKBOX:
            return _state(form, widget, CHECKED, UNCHECKED)
        case pdfium.FPDF_FORMFIELD_RADIOBUTTON:
            return _state(form, widget, CHOSEN, NOT_CHOSEN)
        case pdfium.FPDF_FORMFIELD_TEXTFIELD:
            if pdfium.FPDFAnnot_GetFormFieldFlags(form, widget) & _PASSWORD_FLAG:
                return ""  # shown as asterisks, so it is not for the reader
        case pdfium.FPDF_FORMFIELD_COMBOBOX | pdfium.FPDF_FORMFIELD_LISTBOX:
            chosen = _chosen(form, widget)
            if chosen:
                return chosen
        case _:
            return ""
    return _text(lambda buffer, room: pdfium.FPDFAnnot_GetFormFieldValue(form, widget, buffer, room))


def _state(form: Any, widget: Any, on: str, off: str) -> str:
    """A button's state as it is drawn; in doubt where only its value says that it is on."""
    if pdfium.FPDFAnnot_IsChecked(form, widget) or _string(widget, b"AS") not in {"", _OFF}:
        return on
    return off if _string(widget, b"V") in {"", _OFF} else on + _CONTRADICTED


def _chosen(form: Any, widget: Any) -> str:
    """The labels of what is chosen of a list, a line each; a value that is none of the list has no label."""
    count = pdfium.FPDFAnnot_GetOptionCount(form, widget)
    chosen = [number for number in range(count) if pdfium.FPDFAnnot_IsOptionSelected(form, widget, number)]

    def label(number: int) -> str:
        return _text(lambda buffer, room: pdfium.FPDFAnnot_GetOptionLabel(form, widget, number, buffer, room))

    return "\n".join(label(number) for number in chosen)


def _string(annotation: Any, key: bytes) -> str:
    return _text(lambda buffer, room: pdfium.FPDFAnnot_GetStringValue(annotation, key, buffer, room))


def _appearance_of(annotation: Any) -> Callable[[Any, int], int]:
    mode = pdfium.FPDF_ANNOT_APPEARANCEMODE_NORMAL
    return lambda buffer, room: int(pdfium.FPDFAnnot_GetAP(annotation, mode, buffer, room))


def _text(ask: Callable[[Any, int], int]) -> str:
    """Return the text that a PDFium call writes as UTF-16LE. It is called twice, first for the length."""
    size = ask(None, 0)
    if size > _MAX_VALUE_BYTES:  # more than a result may hold
        raise ImageFaultError(ImageFault.OUTPUT_LIMIT)
    if size <= 2:
        return ""
    buffer = (ctypes.c_ushort * ((size + 1) // 2))()
    size = min(ask(buffer, size), size)
    return bytes(buffer)[: max(0, size - 2)].decode("utf-16-le", "replace")


def _plain(text: str) -> str:
    """Lines of printable text, without blank ones."""
    rows = ("".join(letter if letter.isprintable() else " " for letter in row).split() for row in text.splitlines())
    return "\n".join(" ".join(row) for row in rows if row)


def _box(page: pypdfium2.PdfPage, annotation: Any, size: tuple[int, int]) -> Box | None:
    """Return the box of an annotation in the drawn page; None outside of it."""
    rect = pdfium.FS_RECTF()
    if not pdfium.FPDFAnnot_GetRect(annotation, rect):
        return None
    corners = [_place(page, size, x, y) for x in (rect.left, rect.right) for y in (rect.bottom, rect.top)]
    left, top = (max(0, min(values)) for values in zip(*corners, strict=True))
    right, bottom = (min(most, max(values)) for values, most in zip(zip(*corners, strict=True), size, strict=True))
    return (left, top, right, bottom) if left < right and top < bottom else None


def _place(page: pypdfium2.PdfPage, size: tuple[int, int], x: float, y: float) -> tuple[int, int]:
    if not (math.isfinite(x) and math.isfinite(y)):
        return 0, 0
    across, down = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDF_PageToDevice(page, 0, 0, *size, 0, x, y, across, down)
    return across.value, down.value
