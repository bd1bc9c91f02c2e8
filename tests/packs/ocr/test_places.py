"""Words, tables and unread ink, each with its place on the page (RUN-27)."""

from collections.abc import Sequence
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont

from dpp.packs.contract import PackSuccess
from dpp.packs.ocr.boxes import PageBoxes, boxes_that_fit
from dpp.packs.ocr.engine import Fragment, Line, Rotation
from dpp.packs.ocr.layout import Layout
from dpp.packs.ocr.leftovers import Block, with_leftovers
from dpp.packs.ocr.marks import mark
from dpp.packs.ocr.outcome import Json, read_page_report
from dpp.packs.ocr.pages import Box, Page
from dpp.packs.ocr.prepare import Prepared
from dpp.packs.ocr.profiles import Pass
from dpp.packs.ocr.reading import PageReading
from tests.packs.ocr.conftest import RunPack, data_of, text_of
from tests.packs.ocr.drawing import ENGLISH, SANS, beside, draw, encoded, shaded, turned
from tests.packs.ocr.pdf_writing import form, widget

GOODS = (("품목", "수량", "금액"), ("사과", "3", "4,500"), ("", "12", "36,000"), ("포도", "", ""))
FACT = ("Total due 48213",)
SIZE = 700, 500


def ruled(rows: Sequence[Sequence[str]], line: int = 3, width: int = 220, height: int = 70) -> Image.Image:
    """The rows as a table with ruled cells."""
    columns = len(rows[0])
    page = Image.new("L", (160 + columns * width, 160 + len(rows) * height), 255)
    pen = ImageDraw.Draw(page)
    right, bottom = 80 + columns * width, 80 + len(rows) * height
    for row in range(len(rows) + 1):
        pen.line((80, 80 + row * height, right, 80 + row * height), fill=0, width=line)
    for column in range(columns + 1):
        pen.line((80 + column * width, 80, 80 + column * width, bottom), fill=0, width=line)
    letters = ImageFont.truetype(SANS, 30)
    for row, texts in enumerate(rows):
        for column, text in enumerate(texts):
            pen.text((96 + column * width, 92 + row * height), text, 0, letters)
    return page


def ink_inside(page: Image.Image, box: Any) -> bool:
    """Return whether a box of the result has ink in it, and stands within the page."""
    edges = box["x"], box["y"], box["x"] + box["w"], box["y"] + box["h"]
    assert 0 <= edges[0] < edges[2] <= page.width
    assert 0 <= edges[1] < edges[3] <= page.height
    return page.crop(edges).point(lambda level: 255 if level < 100 else 0).getbbox() is not None


@pytest.mark.parametrize(
    "page",
    [
        draw(ENGLISH[:2], 12),
        draw(ENGLISH[:2], 30),
        turned(draw(ENGLISH, 30), 90),
        turned(draw(ENGLISH, 30), 180),
        turned(draw(ENGLISH, 30), 4),
    ],
    ids=["small", "upright", "sideways", "upside down", "leaning"],
)
def test_each_word_has_its_box_on_the_page_as_it_was_sent(page: Image.Image, ocr: RunPack) -> None:
    """RUN-27: whatever the page went through before it was read, its words and no others are in the boxes."""
    data = data_of(ocr(encoded(page)))
    words = data["words"]
    assert (data["texts"][0]["layout"]["width"], data["texts"][0]["layout"]["height"]) == page.size
    assert [word["text"] for word in words] == text_of(ocr(encoded(page))).replace("(?)", "").split()
    assert all(ink_inside(page, word) for word in words)
    rest = page.copy()
    for word in words:
        assert (word["image"], word["page"]) == (0, 1)
        assert 0 <= word["confidence"] <= 1
        left, top = word["x"] - 3, word["y"] - 3
        rest.paste(255, (left, top, left + word["w"] + 6, top + word["h"] + 6))
    inked = sum(page.histogram()[:100])
    assert sum(rest.histogram()[:100]) < 0.02 * inked


@pytest.mark.parametrize("profile", ["P1", "P2B"])
@pytest.mark.parametrize("line", [1, 4])
def test_a_ruled_table_has_all_its_cells(profile: str, line: int, ocr: RunPack) -> None:
    """RUN-27: the empty ones too, each where it is."""
    page = ruled(GOODS, line)
    result = ocr(encoded(page), ocr_profile=profile)
    [table] = data_of(result)["tables"]
    assert (table["rows"], table["columns"]) == (4, 3)
    assert [cell["text"] for cell in table["cells"]] == [text for row in GOODS for text in row]
    assert [(cell["row"], cell["column"]) for cell in table["cells"]] == [
        (r, c) for r in range(1, 5) for c in range(1, 4)
    ]
    assert [cell["confidence"] is None for cell in table["cells"]] == [text == "" for row in GOODS for text in row]
    assert abs(table["cells"][4]["x"] - 300) <= 6
    assert abs(table["cells"][4]["y"] - 150) <= 6
    assert text_of(result).split("\n") == [" ".join(text for text in row if text) for row in GOODS]


def test_cells_that_span_others_are_one(ocr: RunPack) -> None:
    """RUN-27: where no line parts them."""
    page = ruled((("", "", ""), ("가격", "3", "7")))
    pen = ImageDraw.Draw(page)
    pen.rectangle((85, 85, 735, 145), fill=255)
    pen.text((96, 92), "Summary", 0, ImageFont.truetype(SANS, 30))
    [table] = data_of(ocr(encoded(page)))["tables"]
    assert [(cell["text"], cell["rows"], cell["columns"]) for cell in table["cells"]] == [
        ("Summary", 1, 3),
        ("가격", 1, 1),
        ("3", 1, 1),
        ("7", 1, 1),
    ]


def test_rows_without_rules_are_a_table_where_rows_are_kept(ocr: RunPack) -> None:
    """RUN-27: profile P2B, by the gaps between the columns; profile P1 reads columns and has no table of it."""
    columns = (("품목", "사과", "배", "포도"), ("수량", "3", " ", "7"), ("금액", "4,500", "36,000", "21,000"))
    page = encoded(beside(*(draw(column, 30) for column in columns), gap=200))
    [table] = data_of(ocr(page, ocr_profile="P2B"))["tables"]
    assert [cell["text"] for cell in table["cells"]] == [
        text.strip() for row in zip(*columns, strict=True) for text in row
    ]
    assert data_of(ocr(page))["tables"] == []


def test_a_field_of_a_form_is_in_its_cell(ocr: RunPack) -> None:
    """RUN-27: a PDF form is a table with fields in it."""
    lines = "".join(f"60 {y} m 560 {y} l S " for y in (600, 640, 680)) + "".join(
        f"{x} 600 m {x} 680 l S " for x in (60, 300, 560)
    )
    content = f"1 w {lines} BT /F1 20 Tf 70 652 Td (Name) Tj 0 -40 Td (City) Tj ET"
    data = form([widget("Tx", (310, 605, 550, 635), "/T (c) /V (Seoul)")], content)
    result = ocr(data)
    [table] = data_of(result)["tables"]
    assert [cell["text"] for cell in table["cells"]] == ["Name", "", "City", "Seoul"]
    assert text_of(result) == "Name\nCity Seoul"


def with_ink(*, ink: int) -> Image.Image:
    page = Image.new("L", SIZE, 255)
    page.paste(draw(FACT, 40, ink=ink), (100, 200))
    return page


@pytest.mark.parametrize(
    "page",
    [
        with_ink(ink=236),
        with_ink(ink=251),
        Image.blend(with_ink(ink=150), Image.effect_noise(SIZE, 60), 0.08),
        with_ink(ink=0).point(lambda level: 255 - level),
    ],
    ids=["faint", "hardly visible", "grained", "light on dark"],
)
def test_print_that_hardly_shows_is_read(page: Image.Image, ocr: RunPack) -> None:
    """RUN-27: a page is blank only when its pixels are."""
    assert text_of(ocr(encoded(page))) == FACT[0]


def test_a_page_number_alone_is_read(ocr: RunPack) -> None:
    """RUN-27: however small its share of the page."""
    page = Image.new("L", (1_240, 1_754), 255)
    ImageDraw.Draw(page).text((600, 1_650), "7", 0, ImageFont.truetype(SANS, 32))
    assert text_of(ocr(encoded(page))) == "7"


@pytest.mark.parametrize(
    "page",
    [
        Image.blend(Image.new("L", SIZE, 240), Image.effect_noise(SIZE, 60), 0.08),
        shaded(Image.new("L", (1_240, 1_754), 255), 0.6),
        Image.new("L", (1_240, 1_754), 0),
    ],
    ids=["grain", "shade", "black"],
)
def test_paper_is_blank_whatever_it_looks_like(page: Image.Image, ocr: RunPack) -> None:
    """RUN-27: grain and shade are no print."""
    result = ocr(encoded(page))
    assert data_of(result)["texts"][0]["layout"]["blank"]
    assert isinstance(result, PackSuccess)
    assert result.reliability_score == 1.0


def prepared_of(page: Image.Image) -> Prepared:
    return Prepared(page, False, Layout((), 1), Rotation(0, is_sure=True), 0.0, threshold=128, size=page.size)


def left_of(page: Image.Image, read: Sequence[Box], found: Sequence[Line] = ()) -> list[Line]:
    """The lines that are added to a page of which there is a line in each box of `read`."""
    lines = tuple(Line((Fragment("read", 90.0, False, box),), box) for box in read)
    blocks = with_leftovers(prepared_of(page), [Block(lines, Pass.BODY)], lambda _region: list(found))
    return [line for block in blocks for line in block.lines if line not in lines]


ONE_LINE = draw(ENGLISH[:1], 30)
LINE_BOX = (60, 60, ONE_LINE.width - 60, 100)


def test_a_line_that_no_reading_explains_is_marked_where_it_is() -> None:
    """RUN-27: by about as many letters as it may have, unless it can be read by itself."""
    page = Image.new("L", (ONE_LINE.width, 400), 255)
    page.paste(ONE_LINE, (0, 0))
    assert left_of(page, [LINE_BOX]) == []
    page.paste(ONE_LINE.crop((60, 40, 460, 120)), (60, 240))
    [lost] = left_of(page, [LINE_BOX])
    assert 240 <= lost.box[1] < lost.box[3] <= 320
    marked = mark([lost])
    assert marked.text == "[□]"
    assert 8 <= marked.tally.characters <= 24
    assert marked.tally.mean == 0
    read = Line((Fragment("second", 91.0, False, (60, 240, 460, 320)),), (60, 240, 460, 320))
    assert left_of(page, [LINE_BOX], [read]) == [read]


def test_a_picture_counts_as_one_letter_and_a_bar_or_a_speck_as_none() -> None:
    """RUN-27: a document with a photograph is no unreadable one."""
    page = Image.new("L", (ONE_LINE.width, 700), 255)
    page.paste(ONE_LINE, (0, 0))
    pen = ImageDraw.Draw(page)
    pen.rectangle((60, 140, 700, 190), fill=0)
    pen.rectangle((300, 220, 304, 224), fill=0)
    assert left_of(page, [LINE_BOX]) == []
    for step in range(0, 300, 10):
        pen.arc((100 + step, 300, 400 + step, 600), step, 300, fill=0, width=3)
    [picture] = left_of(page, [LINE_BOX])
    assert mark([picture]).tally.characters == 1


def test_a_page_of_ink_without_a_letter_is_no_reading() -> None:
    """RUN-27: it is not blank, and counts as lost."""
    page = Image.new("L", (800, 600), 0)
    report = read_page_report(1, Page(page, 480_000, page.size), PageReading(prepared_of(page), ()))
    assert report.is_unreadable
    assert report.text["blocks"] == [{"text": "[□]", "confidence": 0.0, "kind": "body"}]
    assert report.text["layout"]["blank"] is False  # type: ignore[index, call-overload]


def test_boxes_that_do_not_fit_are_counted() -> None:
    """RUN-18: whole pages of them are left out, and the tables are kept sooner."""
    word: Json = {"text": "a", "x": 1}
    pages = [PageBoxes(0, number, [word] * count, [{"rows": 1}]) for number, count in ((1, 1), (2, 100), (3, 2))]
    everything = boxes_that_fit(pages, 10_000)
    assert (everything["omitted_words"], everything["omitted_tables"]) == (0, 0)
    less = boxes_that_fit(pages, 400)
    assert (less["tables"], less["omitted_tables"]) == (everything["tables"], 0)
    assert less["omitted_words"] == 100
    assert less["words"] == [{"image": 0, "page": page, **word} for page in (1, 3, 3)]
    assert boxes_that_fit(pages, 10)["omitted_tables"] == 3
