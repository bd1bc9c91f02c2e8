"""Accuracy of recognition: character error rates of drawn pages, each held to its bound (RUN-27)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from PIL import Image

from dpp.packs.ocr.marks import Marked
from dpp.packs.ocr.profiles import Pass, Step
from dpp.packs.ocr.reading import PageReading
from tests.packs.ocr.drawing import (
    ENGLISH,
    KOREAN,
    MIXED,
    SERIF,
    below,
    beside,
    blurred,
    character_error_rate,
    draw,
    grained,
    shaded,
    speckled,
    turned,
)

TITLE = ("특별 할인 안내",)
FINE_PRINT = ("본 행사는 당사 사정에 의해 예고 없이 변경될 수 있습니다.",)
TABLE = (("품목", "사과", "배", "포도"), ("수량", "3", "12", "7"), ("금액", "4,500", "36,000", "21,000"))
TABLE_ROWS = tuple(" ".join(row) for row in zip(*TABLE, strict=True))

type Read = Callable[..., tuple[Marked, PageReading]]


@dataclass(frozen=True)
class Case:
    """A page, what is on it, and the bounds of its reading."""

    name: str
    rows: Sequence[str]
    page: Callable[[], Image.Image]
    at_most: float
    profile: str = "P1"
    steps: frozenset[Step] = frozenset()


def _table() -> Image.Image:
    return beside(*(draw(column, 30) for column in TABLE), gap=200)


CASES = [
    Case("korean 11 px", KOREAN, lambda: draw(KOREAN, 11), 0.02),
    Case("korean 20 px", KOREAN, lambda: draw(KOREAN, 20), 0.01),
    Case("korean 60 px", KOREAN, lambda: draw(KOREAN, 60), 0.01),
    Case("korean serif", KOREAN, lambda: draw(KOREAN, 28, SERIF), 0.01),
    Case("english 11 px", ENGLISH, lambda: draw(ENGLISH, 11), 0.02),
    Case("english 32 px", ENGLISH, lambda: draw(ENGLISH, 32), 0.01),
    Case("mixed 20 px", MIXED, lambda: draw(MIXED, 20), 0.02),
    Case("one line", KOREAN[:1], lambda: draw(KOREAN[:1], 40), 0.01),
    Case("grained", KOREAN, lambda: grained(draw(KOREAN, 32), 90), 0.04, steps=frozenset({Step.DENOISE})),
    Case("speckled", KOREAN, lambda: speckled(draw(KOREAN, 24), 0.02), 0.03, steps=frozenset({Step.DENOISE})),
    Case("shaded", KOREAN, lambda: shaded(draw(KOREAN, 32), 0.35), 0.02, "P2A", frozenset({Step.FLATTEN})),
    Case("out of focus", ENGLISH, lambda: blurred(draw(ENGLISH, 32), 1.5), 0.04, "P2A"),
    Case("pale", KOREAN, lambda: draw(KOREAN, 32, ink=170, paper=205), 0.01, steps=frozenset({Step.CONTRAST})),
    Case("light on dark", ENGLISH, lambda: draw(ENGLISH, 32, ink=240, paper=20), 0.01, steps=frozenset({Step.INVERT})),
    Case("turned 90", KOREAN, lambda: turned(draw(KOREAN, 30), 90), 0.01, steps=frozenset({Step.ROTATE})),
    Case("turned 180", ENGLISH, lambda: turned(draw(ENGLISH, 30), 180), 0.01, steps=frozenset({Step.ROTATE})),
    Case("turned 270", ENGLISH, lambda: turned(draw(ENGLISH, 30), 270), 0.01, steps=frozenset({Step.ROTATE})),
    Case("leaning 3", KOREAN, lambda: turned(draw(KOREAN, 30), 3), 0.02, steps=frozenset({Step.DESKEW})),
    Case("leaning -5", ENGLISH, lambda: turned(draw(ENGLISH, 30), -5), 0.02, steps=frozenset({Step.DESKEW})),
    Case("table", TABLE_ROWS, _table, 0.03, "P2B"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_a_page_is_read_within_its_error_rate(case: Case, read: Read, record_property: Callable[..., None]) -> None:
    """RUN-27: what is done to the page is what its flaw calls for, and a clean page is left as it is."""
    marked, reading = read(case.page(), case.profile)
    rate = character_error_rate(case.rows, marked.text)
    record_property("character_error_rate", rate)
    print(f"\nCER {case.name}: {rate:.3f} (at most {case.at_most}), confidence {marked.tally.mean}")  # noqa: T201
    assert rate <= case.at_most, marked.text
    assert set(reading.prepared.steps) >= case.steps
    if case.profile == "P1":
        assert set(reading.prepared.steps) == case.steps


def test_columns_are_read_one_after_the_other(read: Read) -> None:
    """RUN-27: the layout is looked at before anything is read."""
    marked, reading = read(beside(draw(KOREAN, 26), draw(ENGLISH, 26), gap=40))
    assert reading.prepared.layout.columns == 2
    assert character_error_rate(KOREAN + ENGLISH, marked.text) <= 0.01


def test_a_title_and_fine_print_have_passes_of_their_own(read: Read) -> None:
    """RUN-27: title, body and fine print, each at its size."""
    page = below(draw(TITLE, 72), draw(KOREAN, 32), draw(FINE_PRINT, 13))
    marked, reading = read(page)
    assert [block.kind for block in reading.blocks] == [Pass.TITLE, Pass.BODY, Pass.FINE_PRINT]
    assert character_error_rate(TITLE + KOREAN + FINE_PRINT, marked.text) <= 0.02


def test_scattered_text_is_found_wherever_it_is(read: Read) -> None:
    """RUN-27: profile P3; the order is nobody's, so words are compared."""
    poster = Image.new("L", (1_400, 1_000), 255)
    for text, size, place in (("할인", 120, (60, 40)), ("SALE", 90, (900, 320)), ("서울 종로구", 34, (120, 820))):
        poster.paste(draw((text,), size, margin=0), place)
    marked, _ = read(poster, "P3")
    assert set(marked.text.replace("(?)", "").split()) >= {"할인", "SALE", "서울", "종로구"}


def test_a_blank_page_is_blank_and_an_inkblot_is_not(read: Read) -> None:
    """RUN-27: ink of which nothing can be made must not look like an empty page."""
    assert read(Image.new("L", (800, 600), 250))[1].prepared.is_blank
    blot = Image.new("L", (800, 600), 255)
    blot.paste(0, (200, 150, 500, 400))
    assert not read(blot)[1].prepared.is_blank
