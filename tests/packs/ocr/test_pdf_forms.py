"""Fields, buttons and annotations, which a PDF states beside its drawing, are in the text (RUN-27)."""

import time

import pytest

from dpp.packs.ocr.faults import ImageFault
from dpp.packs.ocr.images import pages
from dpp.packs.ocr.pages import KnownKind, LostPage, Page
from tests.packs.ocr.conftest import RunPack, data_of, text_of
from tests.packs.ocr.pdf_writing import form, remark, stream, text_string, widget

NAME_PLACE = (260, 632, 580, 664)


def stated(data: bytes) -> dict[str, KnownKind]:
    [page, *_] = pages(data, 50, time.monotonic() + 60)
    assert isinstance(page, Page)
    return {one.text: one.kind for one in page.known}


FIELDS = {
    "with an appearance": (
        [
            widget("Tx", NAME_PLACE, "/T (n) /V (Tamara Quillfeather) /DA (/F1 24 Tf 0 g) /AP << /N 7 0 R >>"),
            stream(
                "/Tx BMC q BT /F1 24 Tf 0 g 4 8 Td (Tamara Quillfeather) Tj ET Q EMC",
                "/Type /XObject /Subtype /Form /BBox [0 0 320 32] /Resources << /Font << /F1 5 0 R >> >>",
            ),
        ],
        "Applicant name: Tamara Quillfeather",
    ),
    "without an appearance": (
        [widget("Tx", NAME_PLACE, "/T (n) /V (Tamara Quillfeather)")],
        "Applicant name: Tamara Quillfeather",
    ),
    "in letters that no font of the file has": (
        [widget("Tx", NAME_PLACE, f"/T (n) /V {text_string('홍길동')}")],
        "Applicant name: 홍길동",
    ),
    "with the value at the parent": (
        ["<< /FT /Tx /T (n) /V (Quillfeather) /Kids [7 0 R] >>", widget("Tx", NAME_PLACE, "/Parent 6 0 R")],
        "Applicant name: Quillfeather",
    ),
    "chosen from a list": (
        [widget("Ch", NAME_PLACE, "/Ff 131072 /T (n) /V (b) /Opt [[(a) (Alpha)] [(b) (Beta)]]")],
        "Applicant name: Beta",
    ),
    "free text": (
        [remark("FreeText", NAME_PLACE, "/Contents (Written beside) /DA (/F1 24 Tf 0 g)")],
        "Applicant name: Written beside",
    ),
}


@pytest.mark.parametrize("name", FIELDS)
def test_a_value_stands_beside_its_label(name: str, ocr: RunPack) -> None:
    """RUN-27: as the document has it, whether or not it is drawn."""
    annotations, row = FIELDS[name]
    assert text_of(ocr(form(annotations))).split("\n") == ["Application form", row]


def test_check_boxes_and_radio_buttons_show_their_state(ocr: RunPack) -> None:
    """RUN-27: before the label that is right of them; a state that only the value says is in doubt."""
    labels = (
        "BT /F1 24 Tf 90 600 Td (Yes please) Tj 0 -60 Td (No thanks) Tj 0 -60 Td (By post) Tj 0 -60 Td (By mail) Tj ET"
    )
    data = form(
        [
            widget("Btn", (60, 598, 80, 618), "/T (a) /V /On /AS /On"),
            widget("Btn", (60, 538, 80, 558), "/T (b) /V /Off /AS /Off"),
            widget("Btn", (60, 478, 80, 498), "/Ff 32768 /T (c) /V /Post /AS /Post"),
            widget("Btn", (60, 418, 80, 438), "/T (d) /V /Yes /AS /Off"),
        ],
        labels,
    )
    result = ocr(data)
    assert text_of(result).split("\n") == ["[x] Yes please", "[ ] No thanks", "(x) By post", "[x](?) By mail"]
    assert [note["value"] for note in data_of(result)["notes"]] == ["[x]"]


def test_a_form_without_print_is_not_blank(ocr: RunPack) -> None:
    """RUN-27: its values are its text, line by line."""
    data = form([widget("Tx", (60, 500, 300, 560), "/T (n) /Ff 4096 /V (First line\\nSecond line)")], content="")
    assert text_of(ocr(data)) == "First line\nSecond line"


def test_remarks_stand_at_the_end_and_once(ocr: RunPack) -> None:
    """RUN-27: notes, stamps and the words of markings; not what the page shows, and not what it hides."""
    data = form(
        [
            remark("Text", (400, 600, 420, 620), "/Contents (Check the date)"),
            remark(
                "Highlight", (60, 630, 200, 660), "/QuadPoints [60 660 200 660 60 630 200 630] /Contents (Wrong name)"
            ),
            remark("Stamp", (400, 500, 560, 560), "/Name /NotApproved"),
            remark("Text", (440, 600, 460, 620), "/Contents (Application form)"),
            "<< /Type /Annot /Subtype /Text /F 2 /Rect [0 0 9 9] /Contents (Hidden) >>",
        ]
    )
    [text] = data_of(ocr(data))["texts"]
    notes = [block["text"] for block in text["blocks"] if block["kind"] == "note"]
    assert notes == ["Check the date", "Wrong name", "Not Approved"]


def test_a_password_field_and_a_button_state_nothing() -> None:
    """RUN-27: what viewers show as asterisks stays so."""
    data = form(
        [
            widget("Tx", NAME_PLACE, "/Ff 8192 /T (p) /V (secret)"),
            widget("Btn", (60, 100, 160, 130), "/Ff 65536 /T (send) /MK << /CA (Send) >>"),
        ]
    )
    assert stated(data) == {}


def test_a_form_that_a_program_draws_is_named() -> None:
    """RUN-27: XFA; the PDF has a placeholder instead of its pages."""
    data = form([], more="/XFA 4 0 R", catalogue="/NeedsRendering true")
    assert list(pages(data, 50, time.monotonic() + 60))[1:] == [LostPage(ImageFault.DYNAMIC_FORM)]
