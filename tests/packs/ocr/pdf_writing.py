"""Small PDF files for the ocr tests, written object by object (ISO 32000-1, 7.5)."""

from collections.abc import Sequence

LABELS = "BT /F1 24 Tf 60 700 Td (Application form) Tj 0 -60 Td (Applicant name:) Tj ET"


def pdf_of(objects: Sequence[str], *, trailer: str = "") -> bytes:
    """The objects, numbered from 1, the first of which is the catalogue. PDFium finds them without a table."""
    body = "".join(f"{number} 0 obj\n{one}\nendobj\n" for number, one in enumerate(objects, start=1))
    return f"%PDF-1.7\n{body}trailer << /Size {len(objects) + 1} /Root 1 0 R {trailer} >>\n%%EOF\n".encode("latin-1")


def stream(content: str, dictionary: str = "") -> str:
    """A stream object."""
    return f"<< /Length {len(content)} {dictionary} >>\nstream\n{content}\nendstream"


def form(annotations: Sequence[str], content: str = LABELS, more: str = "", catalogue: str = "") -> bytes:
    """A page of 612 by 792 points with annotations, all of which are fields of the form, too.

    `more` and `catalogue` are entries of the form's dictionary and of the catalogue.
    """
    ids = " ".join(f"{6 + number} 0 R" for number in range(len(annotations)))
    fonts = "/DR << /Font << /F1 5 0 R /Helv 5 0 R >> >> /DA (/F1 24 Tf 0 g)"
    return pdf_of(
        [
            f"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [{ids}] {fonts} {more} >> {catalogue} >>",
            "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
            f" /Resources << /Font << /F1 5 0 R >> >> /Annots [{ids}] >>",
            stream(content),
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            *annotations,
        ]
    )


def pages_of(contents: Sequence[str], others: Sequence[str] = (), resources: str = "") -> bytes:
    """A page of 300 by 100 points for each content; `others` are the objects from number 3 on."""
    first = 3 + len(others)
    kids = " ".join(f"{first + 2 * number} 0 R" for number in range(len(contents)))
    page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 100] /Resources << {} >> /Contents {} 0 R >>"
    made = []
    for number, content in enumerate(contents):
        made += [page.format(resources, first + 2 * number + 1), stream(content)]
    tree = f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>"
    return pdf_of(["<< /Type /Catalog /Pages 2 0 R >>", tree, *others, *made])


def widget(kind: str, place: tuple[int, int, int, int], more: str) -> str:
    """A field of the type `kind` with its widget in one."""
    rect = " ".join(map(str, place))
    return f"<< /Type /Annot /Subtype /Widget /FT /{kind} /F 4 /Rect [{rect}] /P 3 0 R {more} >>"


def remark(kind: str, place: tuple[int, int, int, int], more: str) -> str:
    """An annotation that is no field."""
    rect = " ".join(map(str, place))
    return f"<< /Type /Annot /Subtype /{kind} /F 4 /Rect [{rect}] /P 3 0 R {more} >>"


def text_string(text: str) -> str:
    """A text string in UTF-16."""
    return f"<FEFF{text.encode('utf-16-be').hex()}>"
