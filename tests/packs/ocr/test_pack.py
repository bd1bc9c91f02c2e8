"""The pack as a whole: what it answers, charges and promises of its reliability (RUN-27, RUN-23)."""

import base64
import io
import json
from typing import Any
from zipfile import ZipFile

import pytest
from docx import Document
from PIL import Image
from pydantic import ValidationError

from dpp.packs import frames
from dpp.packs.contract import PACK_RESULT, PackFailure, PackReason, PackSuccess
from dpp.packs.inputs.ocr import OcrArtifacts, OcrInputs, object_context
from dpp.packs.ocr import pack
from dpp.packs.ocr.artifacts import TextPage, make, markdown
from dpp.packs.ocr.engine import Fragment, Line
from dpp.packs.ocr.faults import ImageFault
from dpp.packs.ocr.marks import mark
from dpp.packs.ocr.pack import _reliability, _Work
from dpp.packs.ocr.profiles import Pass
from dpp.packs.prices import ocr_cost_usd_micros
from tests.packs.ocr.conftest import RunPack
from tests.packs.ocr.drawing import ENGLISH, MIXED, below, character_error_rate, draw, encoded

PAGE = below(draw(("Invoice",), 64), draw(MIXED, 28))
FILE = encoded(PAGE)


def plain(result: PackSuccess) -> Any:
    """The answer as its reader meets it."""
    return json.loads(result.model_dump_json())


def line(*fragments: tuple[str, float, bool]) -> Line:
    return Line(tuple(Fragment(*one, (0, 0, 10, 10)) for one in fragments), (0, 0, 10, 10))


def test_an_answer_has_texts_notes_and_both_artifacts(ocr: RunPack) -> None:
    """RUN-27: 001 §9.4.3's members, and what §22.2 lets a client ask for."""
    result = ocr(FILE, artifacts={"include_markdown": True, "include_docx": True})
    assert isinstance(result, PackSuccess), result
    answer = plain(result)
    [text] = answer["data"]["texts"]
    assert (text["source"], text["page"]) == ("images[0]", 1)
    assert [block["kind"] for block in text["blocks"]] == ["title", "body"]
    read = "\n".join(block["text"] for block in text["blocks"])
    assert character_error_rate(("Invoice", *MIXED), read) <= 0.1
    assert all(0 <= block["confidence"] <= 1 for block in text["blocks"])
    assert "## Invoice" in answer["artifacts"]["markdown"]["text"]
    document = Document(io.BytesIO(base64.b64decode(answer["artifacts"]["docx"]["base64"])))
    assert document.paragraphs[0].text == "Invoice"
    assert result.cost_usd_micros == ocr_cost_usd_micros(pages=1, pixels=PAGE.width * PAGE.height)
    assert result.reliability_score >= 0.8
    assert len(PACK_RESULT.dump_json(result)) <= frames.MAX_ANSWER_BYTES


def test_one_bad_image_costs_the_others_nothing(ocr: RunPack) -> None:
    """RUN-27: what was lost is named, and lowers the reliability by its share."""
    good = encoded(draw(ENGLISH[:2], 30))
    alone = ocr(good)
    both = ocr(good, b"no image at all")
    assert isinstance(alone, PackSuccess)
    assert isinstance(both, PackSuccess)
    assert both.discard_log == [{"source": "images[1]", "reason": "UNSUPPORTED_FORMAT"}]
    assert both.reliability_score == pytest.approx(alone.reliability_score / 2, abs=1e-6)
    assert both.data["pages"] == 1


@pytest.mark.parametrize(("file", "fault"), [(b"no image", "UNSUPPORTED_FORMAT"), (FILE[: len(FILE) // 2], "DAMAGED")])
def test_a_run_of_which_nothing_could_be_read_fails_by_name(ocr: RunPack, file: bytes, fault: str) -> None:
    """RUN-27, RUN-31: the fault, and nothing of the file."""
    result = ocr(file)
    assert isinstance(result, PackFailure)
    assert result.reason_code is PackReason.PACK_INPUTS_INVALID
    assert result.detail.startswith(f"no page could be read; the first: {fault}: ")


def test_what_the_timebox_cuts_off_is_in_the_log(ocr: RunPack, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-17, RUN-27: what was read is handed over; with nothing read, the timebox is the reason."""
    buffer = io.BytesIO()
    page = draw(ENGLISH[:3], 30).convert("1")
    page.save(buffer, "TIFF", save_all=True, append_images=[page] * 49, compression="group4")
    result = ocr(buffer.getvalue(), timebox_sec=6)
    assert isinstance(result, PackSuccess), result
    read = result.data["pages"]
    assert isinstance(read, int)
    assert 1 <= read < 50
    assert {entry["reason"] for entry in result.discard_log} == {"TIMEBOX"}
    assert read + sum(int(str(entry.get("pages", 1))) for entry in result.discard_log) == 50
    assert result.reliability_score < read / 50
    monkeypatch.setattr(pack, "_RESERVE_SHARE", 1.0)
    monkeypatch.setattr(pack, "_RESERVE_SECONDS", 60.0)
    nothing = ocr(FILE)
    assert isinstance(nothing, PackFailure)
    assert nothing.reason_code is PackReason.PACK_TIMEBOX_EXCEEDED


def test_pages_beyond_the_clients_bound_are_named_and_not_counted(ocr: RunPack) -> None:
    """RUN-27: `max_pages` is over all images together."""
    blank = encoded(Image.new("1", (60, 60), 1))
    result = ocr(blank, blank, blank, max_pages=2)
    assert isinstance(result, PackSuccess)
    assert result.discard_log == [{"source": "images[2]", "reason": "MAX_PAGES"}]
    assert (result.data["pages"], result.reliability_score) == (2, 1.0)


def test_texts_that_fill_an_answer_leave_the_rest_in_the_log(ocr: RunPack, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-18: an answer fits its envelope; artifacts that don't fit say so."""
    monkeypatch.setattr(pack, "MAX_TEXT_BYTES", 700)
    monkeypatch.setattr(pack, "_MAX_ANSWER_BYTES", 2_000)
    page = encoded(draw(ENGLISH[:4], 30))
    result = ocr(page, page, artifacts={"include_docx": True})
    assert isinstance(result, PackSuccess)
    assert result.discard_log == [{"source": "images[1]", "page": 1, "reason": "OUTPUT_LIMIT"}]
    assert plain(result)["artifacts"]["docx"]["omitted"] == "TOO_LARGE"


def test_doubt_is_marked_and_the_unreadable_is_one_span() -> None:
    """RUN-27: [□] for what can't be read, (?) after what may be wrong; neighbours are one span."""
    marked = mark(
        [
            line(("환", 95, False), ("불", 10, True), ("은", 90, True), ("x", 5, False), ("y", 3, False)),
            line(("Acme", 55, False), ("Corp.", 92, False)),
        ]
    )
    assert marked.text == "환[□]은 [□]\nAcme(?) Corp."
    assert marked.doubtful == ("Acme",)
    assert (marked.tally.characters, marked.tally.unreadable) == (14, 3)
    assert marked.tally.mean == pytest.approx((95 + 90 + 4 * 55 + 5 * 92) / 1_400)


def test_reliability_is_confidence_by_characters_times_the_pages_read() -> None:
    """RUN-27, RUN-3: blank pages are 1, ink without a character is a page lost, a client's own bound is not."""
    work = _Work(pages=2)
    assert _reliability(work) == 1.0
    work.tally.add(mark([line(("ab", 80, False), ("cd", 10, False))]).tally)
    assert _reliability(work) == 0.4
    work.unreadable_pages = 1
    assert _reliability(work) == 0.2
    work.lose("a", ImageFault.DAMAGED, pages=2)
    assert _reliability(work) == 0.1
    work.lose("a", ImageFault.MAX_PAGES, pages=40)
    assert _reliability(work) == 0.1


def test_markdown_says_what_was_read_and_no_markup() -> None:
    """RUN-27: what looks like markup is text."""
    text = markdown(
        [TextPage("a", 1, [("# 1. <b>*x*_y_", Pass.TITLE), ("1. a\n- b|c", Pass.BODY), ("fine", Pass.FINE_PRINT)])]
    )
    assert text == ("<!-- page 1 -->\n\n## \\# 1. \\<b\\>\\*x\\*\\_y\\_\n\n\\1. a\n\\- b\\|c\n\n> fine\n")


def test_an_artifact_that_does_not_fit_leaves_room_for_the_next() -> None:
    """RUN-18: each that fits is there."""
    wanted = OcrArtifacts(include_markdown=True, include_docx=True)
    pages = [TextPage("a", 1, [("가" * 40_000, Pass.BODY)])]
    made = make(wanted, pages, 100_000)
    assert made["markdown"] == {"omitted": "TOO_LARGE", "bytes": 120_000 + 18}
    docx: Any = made["docx"]
    with ZipFile(io.BytesIO(base64.b64decode(docx["base64"]))) as archive:
        assert "가가" in archive.read("word/document.xml").decode()


@pytest.mark.parametrize(
    "image",
    [
        {"kind": "s3"},
        {"kind": "s3", "key": "inputs/t_a/x", "data": "AAAA"},
        {"kind": "s3", "key": "inputs/t_b/x"},
        {"kind": "s3", "key": "inputs/t_a/../t_b/x"},
        {"kind": "s3", "key": "inputs/t_a//x"},
        {"kind": "s3", "key": "inputs/t_a/./x"},
        {"kind": "s3", "key": "inputs/t_a"},
        {"kind": "s3", "key": "dpp/t_a/x/y"},
        {"kind": "s3", "key": "/inputs/t_a/x"},
        {"kind": "s3", "key": "inputs/t_ab/x"},
        {"kind": "s3", "key": "inputs/t_a/x", "bucket": "b-of-others"},
        {"kind": "s3", "key": "inputs/t_a/x\ny"},
        {"kind": "s3", "key": "inputs/t_a/x\\..\\y"},
        {"kind": "inline"},
        {"kind": "inline", "data": "no base64!"},
        {"kind": "inline", "data": "AAAA", "bucket": "some-bucket"},
        {"kind": "url", "key": "https://example.com/a.png"},
    ],
    ids=str,
)
def test_an_image_that_is_not_the_tenants_own_is_refused(image: dict[str, str]) -> None:
    """RUN-27, RUN-31: by its name alone, and without repeating it."""
    with pytest.raises(ValidationError) as refused:
        OcrInputs.model_validate({"images": [image]}, context=object_context("t_a", "b-results"))
    assert json.dumps(image.get("key", "never said"))[1:-1] not in str(refused.value)


def test_the_tenants_own_is_taken() -> None:
    """RUN-27."""
    for key in ("inputs/t_a/x", "inputs/t_a/2026/계약서 1.pdf", "inputs/t_a/..x/y"):
        OcrInputs.model_validate({"images": [{"kind": "s3", "key": key}]}, context=object_context("t_a", "b-results"))


def test_the_price_is_by_page_and_megapixel() -> None:
    """RUN-23: docs/packs.md shows the same figures."""
    assert ocr_cost_usd_micros(pages=1, pixels=1) == 5_000 + 2_000 + 100
    assert ocr_cost_usd_micros(pages=50, pixels=435_000_001) == 5_000 + 100_000 + 43_600
