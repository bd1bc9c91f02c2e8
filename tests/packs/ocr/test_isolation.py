"""A page that crashes, hangs or bursts takes no other with it; what was read is kept and priced (RUN-27, D6)."""

import io
import os
import signal
import struct
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dpp.packs.contract import PackFailure, PackReason, PackRequest, PackSuccess, PackType
from dpp.packs.ocr import isolation, pack
from dpp.packs.ocr.reading import read_page
from dpp.packs.prices import ocr_cost_usd_micros
from dpp.packs.process import PackProcess
from tests.packs.ocr.conftest import RunPack, data_of
from tests.packs.ocr.drawing import ENGLISH, draw, encoded, inline
from tests.packs.ocr.pdf_writing import pages_of, pdf_of, stream

CLEAN = draw(ENGLISH[:1], 24)
TRAP = Image.new("L", (77, 33), 255)
"""A page that a patched reader knows by its size."""


def tiff_of(*pages: Image.Image) -> bytes:
    buffer = io.BytesIO()
    pages[0].save(buffer, "TIFF", save_all=True, append_images=pages[1:])
    return buffer.getvalue()


def trapped(monkeypatch: pytest.MonkeyPatch, spring: Callable[[], None]) -> None:
    """Have the reading of a trap end in `spring`."""

    def read(engine: Any, image: Image.Image, profile: Any, deadline: float) -> Any:
        if image.size == TRAP.size:
            spring()
        return read_page(engine, image, profile, deadline)

    monkeypatch.setattr(pack, "read_page", read)


def limit_pages(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    """Limit the waits for a file to open and for its pages, one after the other; those after them are not limited."""
    waits = iter(seconds)
    monkeypatch.setattr(
        isolation, "share_of", lambda deadline, is_alone: min(deadline, time.monotonic() + next(waits, 90))
    )


def overdraw() -> None:
    raise MemoryError


def stumble() -> None:
    raise LookupError("a bug")


@pytest.mark.parametrize(
    ("spring", "fault"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "DAMAGED"),
        (lambda: time.sleep(600), "TOO_SLOW"),
        (overdraw, "TOO_MUCH_MEMORY"),
        (stumble, "INTERNAL_ERROR"),
    ],
    ids=["crash", "hang", "memory", "bug"],
)
def test_pages_around_one_that_fails_are_read_and_priced(
    spring: Callable[[], None], fault: str, ocr: RunPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-27: the page is named, counted as lost, and not charged."""
    trapped(monkeypatch, spring)
    if fault == "TOO_SLOW":
        limit_pages(monkeypatch, 90, 90, 1)
    result = ocr(tiff_of(CLEAN, TRAP, CLEAN), encoded(CLEAN), timebox_sec=90)
    assert isinstance(result, PackSuccess), result
    assert [(text["source"], text["page"]) for text in data_of(result)["texts"]] == [
        ("images[0]", 1),
        ("images[0]", 3),
        ("images[1]", 1),
    ]
    assert result.discard_log == [{"source": "images[0]", "page": 2, "reason": fault}]
    assert result.cost_usd_micros == ocr_cost_usd_micros(pages=3, pixels=3 * CLEAN.width * CLEAN.height)
    assert 0.6 < result.reliability_score <= 0.75


def test_a_file_that_ends_its_reader_again_and_again_is_given_up(ocr: RunPack, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-27: the rest of its pages is named at once."""
    trapped(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGKILL))
    result = ocr(tiff_of(CLEAN, *[TRAP] * 20))
    assert isinstance(result, PackSuccess)
    assert sum(int(str(entry.get("pages", 1))) for entry in result.discard_log) == 20
    assert len(result.discard_log) == 6


def test_a_run_of_which_every_page_failed_is_a_failure(ocr: RunPack, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-17: and says of each page why, and what to do."""
    trapped(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGKILL))
    result = ocr(tiff_of(TRAP, TRAP), b"no image")
    assert isinstance(result, PackFailure)
    assert result.reason_code is PackReason.PACK_INPUTS_INVALID
    assert result.detail == "no page could be read; the first: DAMAGED: check that the whole file was sent"
    assert [entry["reason"] for entry in result.discard_log] == ["DAMAGED", "DAMAGED", "UNSUPPORTED_FORMAT"]


def test_pages_beyond_the_reservation_are_named_and_not_read(ocr: RunPack) -> None:
    """D14: the price bounds the work; one page is read whatever it costs."""
    small = encoded(CLEAN)
    result = ocr(tiff_of(CLEAN, CLEAN, CLEAN), small, max_cost_usd_micros=9_100)
    assert isinstance(result, PackSuccess)
    assert data_of(result)["pages"] == 2
    assert result.discard_log == [
        {"source": "images[0]", "page": 3, "reason": "MAX_COST"},
        {"source": "images[1]", "reason": "MAX_COST"},
    ]
    assert result.cost_usd_micros == 9_100
    assert result.reliability_score > 0.9
    one = ocr(small, max_cost_usd_micros=0)
    assert data_of(one)["pages"] == 1


def test_a_page_may_take_its_share_of_the_time_that_is_left() -> None:
    """RUN-27: one that nothing waits for may take it all."""
    now = time.monotonic()
    assert isolation.share_of(now + 90, is_alone=True) == now + 90
    assert isolation.share_of(now + 90, is_alone=False) == pytest.approx(now + isolation.MOST_PAGE_SECONDS, abs=1)
    assert isolation.share_of(now + 20, is_alone=False) == pytest.approx(now + 12, abs=1)
    assert isolation.share_of(now + 3, is_alone=False) == now + 3


# Hostile files. Each is named, and the clean page behind them all is read.


def nested_drawings(levels: int) -> bytes:
    """A PDF whose first page draws a form that draws the next one twice, and so on; its second page is empty."""
    forms = [
        stream(
            "/X Do /X Do" if level + 1 < levels else "0 0 9 9 re f",
            f"/Type /XObject /Subtype /Form /BBox [0 0 300 100] /Resources << /XObject << /X {4 + level} 0 R >> >>",
        )
        for level in range(levels)
    ]
    return pages_of(["/X Do", ""], forms, "/XObject << /X 3 0 R >>")


def image_bomb() -> bytes:
    """A PDF whose page is a picture of 50,000 by 50,000 pixels, of a few kilobytes."""
    packed = zlib.compress(bytes(1_000_000)).decode("latin-1")
    picture = "/Type /XObject /Subtype /Image /Width 50000 /Height 50000 /ColorSpace /DeviceRGB /BitsPerComponent 8"
    return pages_of(
        ["q 300 0 0 100 0 0 cm /X Do Q"], [stream(packed, f"{picture} /Filter /FlateDecode")], "/XObject << /X 3 0 R >>"
    )


def page_of_size(size: str) -> bytes:
    return pdf_of(
        [
            "<< /Type /Catalog /Pages 2 0 R >>",
            "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            f"<< /Type /Page /Parent 2 0 R /MediaBox [{size}] >>",
        ]
    )


def tiff_with(tags: list[tuple[int, int, int, int]], following: int = 0) -> bytes:
    """A TIFF of one directory at byte 8; each tag is (tag, type, count, value)."""
    body = b"".join(struct.pack("<HHII", *tag) for tag in sorted(tags))
    return b"II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + body + struct.pack("<I", following)


def tiff_tags(width: int, height: int, **changed: int) -> list[tuple[int, int, int, int]]:
    tags = {256: width, 257: height, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: height, 279: width * height}
    return [(tag, 4, 1, changed.get(f"t{tag}", value)) for tag, value in tags.items()]


def jpeg_that_claims(width: int, height: int) -> bytes:
    data = bytearray(encoded(CLEAN, "JPEG"))
    place = data.index(b"\xff\xc0") + 5
    data[place : place + 4] = struct.pack(">HH", height, width)
    return bytes(data)


def gif_that_claims(width: int, height: int) -> bytes:
    data = bytearray(encoded(CLEAN, "GIF"))
    data[6:10] = struct.pack("<HH", width, height)
    return bytes(data)


WEBP = encoded(CLEAN, "WEBP")
CATALOGUE = "<< /Type /Catalog /Pages 2 0 R >>"
HOSTILE: dict[str, Callable[[], bytes]] = {
    "pdf of nested arrays": lambda: pdf_of([CATALOGUE, "[" * 100_000 + "]" * 100_000]),
    "pdf of nested dictionaries": lambda: pdf_of([CATALOGUE, "<< /Kids " * 20_000 + ">>" * 20_000]),
    "pdf tree in a circle": lambda: pdf_of([CATALOGUE, "<< /Type /Pages /Kids [2 0 R] /Count 100000 >>"]),
    "pdf table in a circle": lambda: (
        b"%PDF-1.4\nxref\n0 1\n0000000000 65535 f \ntrailer << /Size 1 /Prev 9 >>\nstartxref\n9\n%%EOF\n"
    ),
    "pdf without area": lambda: page_of_size("0 0 0 0"),
    "pdf beyond all numbers": lambda: page_of_size("0 0 1e30 1e30"),
    "pdf with a lying length": lambda: page_of_size("0 0 30 30").replace(b"/Count 1", b"/Count 2000000000"),
    "pdf with a picture of 50,000 by 50,000": image_bomb,
    "tiff directory in a circle": lambda: tiff_with(tiff_tags(30, 30), following=8),
    "tiff of no width": lambda: tiff_with(tiff_tags(0, 30)),
    "tiff with strips beyond its end": lambda: tiff_with(tiff_tags(30, 30, t273=2_000_000_000)),
    "tiff with a lying count": lambda: tiff_with([*tiff_tags(30, 30), (320, 3, 4_000_000_000, 8)]),
    "tiff of 30,000 by 1,000 in nothing": lambda: tiff_with(tiff_tags(30_000, 1_000)),
    "jpeg of 65,000 by 65,000": lambda: jpeg_that_claims(65_000, 65_000),
    "jpeg of 6,000 by 6,000 in nothing": lambda: jpeg_that_claims(6_000, 6_000),
    "gif of 65,000 by 65,000": lambda: gif_that_claims(65_000, 65_000),
    "webp with a lying length": lambda: WEBP[:4] + b"\xff\xff\xff\x7f" + WEBP[8:200],
}


def test_hostile_files_cost_the_clean_one_nothing(tessdata: Path) -> None:
    """RUN-27, D6: in the process and the memory of a run, each named in the log or read for what it shows."""
    files = [make() for make in HOSTILE.values()]
    request = PackRequest(
        run_id="run",
        pack_type=PackType.OCR,
        inputs={"images": [inline(file) for file in (*files, encoded(CLEAN))]},
        timebox_sec=90,
        max_cost_usd_micros=1_000_000,
    )
    with PackProcess({**os.environ, "DPP_TESSDATA_DIR": str(tessdata)}) as process:
        result = process.run(request, cancelled=threading.Event())
    texts = data_of(result)["texts"]
    assert texts[-1]["source"] == f"images[{len(files)}]"
    assert texts[-1]["blocks"][0]["text"].startswith("The quick brown fox")
    assert isinstance(result, PackSuccess)
    named = {str(entry["source"]) for entry in result.discard_log} | {str(text["source"]) for text in texts}
    assert named == {f"images[{number}]" for number in range(len(files) + 1)}
    bombs = [f"images[{number}]" for number, name in enumerate(HOSTILE) if "65,000" in name]
    faults = {entry["source"]: entry["reason"] for entry in result.discard_log}
    assert [faults[bomb] for bomb in bombs] == ["TOO_MANY_PIXELS"] * 2


def test_a_drawing_without_end_is_too_slow_and_the_next_page_is_read(
    ocr: RunPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-27: PDFium looks at no clock, so its process is ended."""
    limit_pages(monkeypatch, 90, 1)
    result = ocr(nested_drawings(28), timebox_sec=90)
    assert isinstance(result, PackSuccess), result
    assert result.discard_log == [{"source": "images[0]", "page": 1, "reason": "TOO_SLOW"}]
    assert [text["page"] for text in data_of(result)["texts"]] == [2]
