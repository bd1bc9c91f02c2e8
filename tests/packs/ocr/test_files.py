"""Files as clients send them: formats, pages, damage, bombs; whatever comes is read or refused by name (RUN-27)."""

import io
import struct
import time
import zlib
from collections.abc import Callable

import pypdfium2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from dpp.packs.ocr import images
from dpp.packs.ocr.faults import ImageFault, ImageFaultError
from dpp.packs.ocr.images import MAX_IMAGE_BYTES, pages
from dpp.packs.ocr.pages import WORKING_PIXELS, LostPage, Page
from tests.packs.ocr.drawing import KOREAN, draw, encoded

SMALL = draw(KOREAN[:1], 20)


def opened(data: bytes, max_pages: int = 50, seconds: float = 60) -> list[Page | LostPage]:
    return list(pages(data, max_pages, time.monotonic() + seconds))


def first_fault(data: bytes) -> ImageFault | None:
    """Return the fault of a file or of its first page."""
    try:
        first = opened(data)[0]
    except ImageFaultError as error:
        return error.fault
    return first.fault if isinstance(first, LostPage) else None


def tiff(count: int) -> bytes:
    buffer = io.BytesIO()
    SMALL.save(buffer, "TIFF", save_all=True, append_images=[SMALL] * (count - 1), compression="tiff_lzw")
    return buffer.getvalue()


def pdf(count: int, size: tuple[float, float] = (595, 842)) -> bytes:
    document = pypdfium2.PdfDocument.new()
    for _ in range(count):
        document.new_page(*size)
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def png_that_claims(width: int, height: int) -> bytes:
    """A PNG of a few kilobytes whose pixels, all one colour, are as many as it says."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compressobj(9)
    body = b"".join(rows.compress(b"\0" * (1 + (width + 7) // 8)) for _ in range(min(height, 20_000))) + rows.flush()
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_every_format_comes_out_grey(form: str) -> None:
    """RUN-27."""
    [page] = opened(encoded(SMALL, form))
    assert isinstance(page, Page)
    assert (page.image.mode, page.image.size) == ("L", SMALL.size)
    assert page.pixels == SMALL.width * SMALL.height
    assert page.image.point(lambda level: level < 40).getbbox() is not None


@pytest.mark.parametrize("mode", ["1", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_every_way_of_colour_keeps_ink_dark_and_paper_light(mode: str) -> None:
    """RUN-27: sixteen bits are scaled, transparency is paper."""
    if mode == "I;16":
        page = Image.frombytes("I;16", (20, 10), (struct.pack("<H", 3_000) * 5 + struct.pack("<H", 60_000) * 15) * 10)
    elif mode in {"LA", "RGBA"}:
        page = Image.new(mode, (20, 10), 0)  # transparent black
        page.paste(Image.new(mode, (5, 10), (0, 255) if mode == "LA" else (0, 0, 0, 255)), (0, 0))
    else:
        page = Image.new("L", (20, 10), 255)
        page.paste(0, (0, 0, 5, 10))
        page = page.convert("RGB").convert(mode)
    [found] = opened(encoded(page, "TIFF" if mode in {"CMYK", "I;16"} else "PNG"))
    assert isinstance(found, Page)
    assert found.image.getpixel((1, 5)) < 30  # type: ignore[operator]
    assert found.image.getpixel((15, 5)) > 225  # type: ignore[operator]


def test_a_photo_is_turned_as_its_camera_said() -> None:
    """RUN-27: EXIF orientation."""
    exif = Image.Exif()
    exif[0x0112] = 6
    [page] = opened(encoded(SMALL, "JPEG", exif=exif))
    assert isinstance(page, Page)
    assert page.image.size == (SMALL.height, SMALL.width)


def test_pages_of_tiff_and_pdf_are_read_up_to_the_bound() -> None:
    """RUN-27: how many more there are is said, where the file says it."""
    for data, more in ((tiff(5), 1), (pdf(5), 2)):
        assert [type(page) for page in opened(data, 5)] == [Page] * 5
        found = opened(data, 3)
        assert [type(page) for page in found] == [Page] * 3 + [LostPage]
        assert found[3] == LostPage(ImageFault.MAX_PAGES, more)


def test_no_page_is_decoded_after_the_deadline() -> None:
    """RUN-27, D6: what is left is counted without decoding it."""
    for data in (tiff(5), pdf(5)):
        assert opened(data, 4, seconds=-1) == [LostPage(ImageFault.TIMEBOX, 4)]


def test_a_large_scan_is_reduced_before_anything_works_on_it() -> None:
    """RUN-27: memory is bounded by the working size, not by the file."""
    scan = Image.new("L", (6_000, 5_000), 255)
    for form in ("JPEG", "PNG"):
        [page] = opened(encoded(scan, form))
        assert isinstance(page, Page)
        assert page.image.width * page.image.height <= WORKING_PIXELS
        assert page.pixels == 30_000_000


def _bmp_bomb() -> bytes:
    wide = bytearray(encoded(SMALL, "BMP"))
    wide[18:26] = struct.pack("<ii", 60_000, 60_000)
    return bytes(wide)


def _tiff_bomb() -> bytes:
    bomb = io.BytesIO()
    Image.new("1", (30_000, 30_000)).save(bomb, "TIFF", compression="group4")
    return bomb.getvalue()


_BOMBS: dict[str, Callable[[], bytes]] = {
    "png": lambda: png_that_claims(20_000, 20_000),
    "png that ends early": lambda: png_that_claims(50_000, 50_000),
    "bmp": _bmp_bomb,
    "tiff": _tiff_bomb,
}


@pytest.mark.parametrize("name", list(_BOMBS))
def test_a_decompression_bomb_is_refused_before_it_is_decoded(name: str) -> None:
    """RUN-27: by what the first bytes claim, in no time."""
    data = _BOMBS[name]()
    begun = time.process_time()
    assert first_fault(data) is ImageFault.TOO_MANY_PIXELS, name
    assert time.process_time() - begun < 0.5


def test_a_pdf_of_any_size_is_drawn_within_the_working_size() -> None:
    """RUN-27: a page has no pixels of its own; one beyond what the format allows is refused."""
    [page] = opened(pdf(1, (14_000, 14_000)))
    assert isinstance(page, Page)
    assert page.image.width * page.image.height <= WORKING_PIXELS
    assert opened(pdf(1, (20_000, 20_000))) == [LostPage(ImageFault.TOO_MANY_PIXELS)]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", ImageFault.UNSUPPORTED_FORMAT),
        (b"plain text", ImageFault.UNSUPPORTED_FORMAT),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", ImageFault.UNSUPPORTED_FORMAT),
        (encoded(SMALL, "ICO"), ImageFault.UNSUPPORTED_FORMAT),
        (b"%PDF-1.7\nnothing", ImageFault.DAMAGED),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), ImageFault.UNSUPPORTED_FORMAT),
        (bytes(MAX_IMAGE_BYTES + 1), ImageFault.TOO_MANY_BYTES),
    ],
    ids=["empty", "text", "svg", "ico", "pdf without pages", "png without head", "too many bytes"],
)
def test_what_is_no_image_is_refused_by_name(data: bytes, fault: ImageFault) -> None:
    """RUN-27."""
    with pytest.raises(ImageFaultError) as refused:
        opened(data)
    assert refused.value.fault is fault


def test_a_file_cut_short_is_damaged() -> None:
    """RUN-27: of a TIFF, the pages before the cut are there."""
    for form in ("PNG", "JPEG", "BMP", "WEBP"):
        data = encoded(SMALL, form)
        assert first_fault(data[: len(data) // 2]) is ImageFault.DAMAGED, form
    cut = opened(tiff(3)[:-200])
    assert [type(page) for page in cut] in ([Page, Page, LostPage], [Page, LostPage], [Page, Page])


def test_a_locked_pdf_says_so() -> None:
    """RUN-27: standard security handler with a password (ISO 32000, 7.6)."""
    locked = (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
        b"3 0 obj<</Filter/Standard/V 1/R 2/P -4/O<" + b"41" * 32 + b">/U<" + b"42" * 32 + b">>>endobj\n"
        b"trailer<</Root 1 0 R/Encrypt 3 0 R/ID[<00><00>]>>"
    )
    with pytest.raises(ImageFaultError) as refused:
        opened(locked)
    assert refused.value.fault is ImageFault.ENCRYPTED


SEEDS = {form: encoded(SMALL.resize((120, 40)), form) for form in ("PNG", "JPEG", "WEBP", "BMP", "TIFF")}
SEEDS["PDF"] = pdf(1, (60, 60))


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    form=st.sampled_from(sorted(SEEDS)),
    cuts=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=6)), min_size=1, max_size=6),
    length=st.floats(0.3, 1),
)
def test_corrupted_bytes_are_read_or_refused_and_never_anything_else(
    form: str, cuts: list[tuple[float, bytes]], length: float
) -> None:
    """RUN-27."""
    data = bytearray(SEEDS[form])
    for place, noise in cuts:
        at = int(place * (len(data) - 1))
        data[at : at + len(noise)] = noise
    data = data[: max(1, int(len(data) * length))]
    try:
        found = list(images.pages(bytes(data), 3, time.monotonic() + 20))
    except ImageFaultError:
        return
    for page in found:
        assert isinstance(page, LostPage) or page.image.mode == "L"
