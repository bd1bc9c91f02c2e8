"""Optional artifacts of an ocr run: all texts as one Markdown or Word document (RUN-27)."""

import base64
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pydantic import JsonValue

from dpp.packs.inputs.ocr import OcrArtifacts
from dpp.packs.ocr.profiles import Pass

DOCX_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_SPECIAL = re.compile(r"([\\`*_<>#|~])")
_LIST_LIKE = re.compile(r"^(\s*)([-+]|\d+[.)])(?=\s)")


@dataclass(frozen=True, slots=True)
class TextPage:
    """A page's blocks as they stand in the result."""

    source: str
    number: int
    blocks: Sequence[tuple[str, Pass]]

    @classmethod
    def of(cls, source: str, number: int, text: Mapping[str, Any]) -> Self:
        """The page of an entry of the result's `texts`."""
        return cls(source, number, [(block["text"], Pass(block["kind"])) for block in text["blocks"]])


def make(wanted: OcrArtifacts, pages: Sequence[TextPage], room_bytes: int) -> dict[str, JsonValue]:
    """Build the requested artifacts that fit `room_bytes` of JSON; the others say TOO_LARGE with their size."""
    made: dict[str, JsonValue] = {}
    if wanted.include_markdown:
        text = markdown(pages)
        size = len(text.encode())
        fits = size <= room_bytes
        room_bytes -= size if fits else 0
        made["markdown"] = {"text": text} if fits else _too_large(size)
    if wanted.include_docx:
        encoded = base64.b64encode(docx(pages)).decode()
        fits = len(encoded) <= room_bytes
        made["docx"] = {"media_type": DOCX_MEDIA_TYPE, "base64": encoded} if fits else _too_large(len(encoded))
    return made


def markdown(pages: Sequence[TextPage]) -> str:
    """CommonMark: a heading a title, small print between rules of its own, letters that are markup escaped."""
    parts = []
    for page in pages:
        parts.append(f"<!-- page {page.number} -->")
        for text, kind in page.blocks:
            rows = [_LIST_LIKE.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", row)) for row in text.split("\n")]
            match kind:
                case Pass.TITLE:
                    parts.append("## " + " ".join(rows))
                case Pass.FINE_PRINT:
                    parts.append("\n".join(f"> {row}" for row in rows))
                case Pass.BODY | Pass.NOTE:
                    parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"


def docx(pages: Sequence[TextPage]) -> bytes:
    """A Word document: a page a page, a heading a title."""
    from docx import Document  # noqa: PLC0415 - 150 ms and 12 MB that only those pay who ask for it
    from docx.enum.text import WD_BREAK  # noqa: PLC0415
    from docx.shared import Pt  # noqa: PLC0415

    document = Document()
    for place, page in enumerate(pages):
        if place:
            document.add_paragraph().add_run().add_break(WD_BREAK.PAGE)
        for text, kind in page.blocks:
            if kind is Pass.TITLE:
                document.add_heading(text.replace("\n", " "), level=1)
                continue
            run = document.add_paragraph().add_run(text)
            if kind is Pass.FINE_PRINT:
                run.font.size = Pt(8)
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def _too_large(size: int) -> JsonValue:
    return {"omitted": "TOO_LARGE", "bytes": size}
