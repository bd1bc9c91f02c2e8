"""Pixels of every kind as grey ones whose letters are visible: transparency, depth, colour, orientation (RUN-27)."""

import io
import math
import struct
import time
import zlib
from collections.abc import Callable
from itertools import product

import pytest
from PIL import Image, ImageChops, ImageStat

from dpp.packs.contract import PackSuccess
from dpp.packs.ocr.faults import ImageFault
from dpp.packs.ocr.images import pages
from dpp.packs.ocr.pages import LostPage, Page
from tests.packs.ocr.conftest import RunPack, text_of
from tests.packs.ocr.drawing import character_error_rate, draw, encoded

TEXT = ("Invoice number 48213", "Total due in March")
PAGE = draw(TEXT, 30)
INK = PAGE.point(lambda level: 255 - level)


def grey_of(data: bytes) -> Page:
    found = list(pages(data, 50, time.monotonic() + 60))
    assert isinstance(found[0], Page)
    return found[0]


def difference(page: Image.Image, drawn: Image.Image) -> float:
    """Return the mean difference in levels."""
    return float(ImageStat.Stat(ImageChops.difference(page, drawn)).mean[0])


def on_transparent(level: int, opacity: float = 1.0, hidden: int = 0) -> Image.Image:
    """Letters of one level on a transparent ground, whose hidden pixels have another."""
    page = Image.composite(Image.new("L", PAGE.size, level), Image.new("L", PAGE.size, hidden), INK)
    return Image.merge("LA", (page, INK.point(lambda level: int(level * opacity))))


def of_both_levels() -> Image.Image:
    """Black letters and white ones on a transparent ground."""
    light = Image.new("L", PAGE.size, 0)
    light.paste(255, (0, PAGE.height // 2, *PAGE.size))
    return Image.merge("LA", (light, INK))


def punched(level: int) -> Image.Image:
    """An opaque sheet of one level with letters punched out."""
    return Image.merge("LA", (Image.new("L", PAGE.size, level), PAGE))


def on_a_card(ink: int, paper: int) -> Image.Image:
    """An opaque sheet with letters, and a wide transparent margin."""
    card = Image.composite(Image.new("L", PAGE.size, ink), Image.new("L", PAGE.size, paper), INK)
    sheet = Image.new("LA", (PAGE.width + 400, PAGE.height + 400), 0)
    sheet.paste(Image.merge("LA", (card, Image.new("L", PAGE.size, 255))), (200, 200))
    return sheet


def palette_gif() -> bytes:
    """A GIF of white letters whose ground is a transparent white of the palette."""
    page = PAGE.point(lambda level: 0 if level > 128 else 1).convert("P")
    page.putpalette([255, 255, 255, 250, 250, 250])
    return encoded(page, "GIF", transparency=0)


def png_16(colours: int, most: int) -> bytes:
    """A PNG of 16 bits a channel (grey, or red, green and blue) that uses the values up to `most`."""
    rows = bytearray()
    for row in range(PAGE.height):
        rows += b"\0"
        for level in PAGE.crop((0, row, PAGE.width, row + 1)).tobytes():
            rows += struct.pack(">H", level * most // 255) * colours

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", *PAGE.size, 16, 0 if colours == 1 else 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def wide_tiff(mode: str, low: float, high: float, odd: float | None = None) -> bytes:
    """A TIFF of 32 bits a pixel with values from `low` to `high`, and one odd pixel."""
    page = PAGE.convert("F").point(lambda level: level * ((high - low) / 255) + low).convert(mode)
    if odd is not None:
        page.putpixel((0, 0), odd)
    return encoded(page, "TIFF")


def in_one_brightness(form: str) -> bytes:
    """Red letters on a green of their brightness."""
    page = Image.composite(Image.new("RGB", PAGE.size, (230, 0, 0)), Image.new("RGB", PAGE.size, (0, 117, 0)), INK)
    return encoded(page, form)


READABLE: dict[str, Callable[[], bytes]] = {
    "white on transparent": lambda: encoded(on_transparent(255)),
    "black on transparent": lambda: encoded(on_transparent(0, hidden=255)),
    "grey and half transparent": lambda: encoded(on_transparent(200, opacity=0.4)),
    "nearly all transparent": lambda: encoded(on_transparent(255, opacity=0.06), "WEBP", lossless=True),
    "black and white on transparent": lambda: encoded(of_both_levels()),
    "white palette on transparent": palette_gif,
    "punched out of white": lambda: encoded(punched(255)),
    "punched out of black": lambda: encoded(punched(0), "TIFF"),
    "black on a white card": lambda: encoded(on_a_card(0, 255)),
    "white on a black card": lambda: encoded(on_a_card(255, 0)),
    "no pixel visible": lambda: encoded(Image.merge("LA", (PAGE, Image.new("L", PAGE.size, 0)))),
    "12 bits in 16": lambda: png_16(1, 4_080),
    "10 bits in 16, in colour": lambda: png_16(3, 1_023),
    "little of 8 bits with transparency": lambda: encoded(
        Image.merge("LA", (PAGE.point(lambda level: level // 12), Image.new("L", PAGE.size, 254)))
    ),
    "float from 0 to 1": lambda: wide_tiff("F", 0, 1),
    "float with infinity": lambda: wide_tiff("F", -3, 7, math.inf),
    "float without a number": lambda: wide_tiff("F", 0, 1, math.nan),
    "integers below zero": lambda: wide_tiff("I", -500_000, -2_000),
    "letters in one brightness": lambda: in_one_brightness("PNG"),
    "letters in one brightness, jpeg": lambda: in_one_brightness("JPEG"),
    "cmyk jpeg": lambda: encoded(PAGE.convert("RGB").convert("CMYK"), "JPEG", quality=95),
}


@pytest.mark.parametrize("name", READABLE)
def test_letters_are_read_whatever_their_pixels_are(name: str, ocr: RunPack) -> None:
    """RUN-27: no page is blank whose letters a viewer shows."""
    result = ocr(READABLE[name]())
    assert character_error_rate(TEXT, text_of(result)) <= 0.03
    assert isinstance(result, PackSuccess)
    assert result.reliability_score >= 0.8


def test_a_black_page_without_letters_is_blank_in_16_bits_too() -> None:
    """RUN-27: no range to scale is no division by zero."""
    page = grey_of(encoded(Image.new("I;16", (40, 30), 700)))
    assert page.image.getextrema() == (255, 255)


TURNS = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize(
    ("form", "mode"), [*product(("PNG", "TIFF", "WEBP"), ("L", "LA")), ("JPEG", "L"), ("PNG", "P")]
)
@pytest.mark.parametrize("orientation", TURNS)
def test_a_page_is_turned_before_anything_is_made_of_its_pixels(form: str, mode: str, orientation: int) -> None:
    """RUN-27: EXIF orientation, all eight, in each format that has it."""
    turn = TURNS[orientation]
    page = PAGE if turn is None else PAGE.transpose(turn)
    if mode == "LA":
        page = Image.merge("LA", (Image.new("L", page.size, 255), page.point(lambda level: 255 - level)))
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"tiffinfo": {274: orientation}} if form == "TIFF" else {"exif": exif}
    found = grey_of(encoded(page.convert("RGBA" if (form, mode) == ("WEBP", "LA") else mode), form, **options))
    assert found.size == found.image.size == PAGE.size
    assert difference(found.image, PAGE) < 3


def test_each_page_of_a_tiff_has_an_orientation_of_its_own() -> None:
    """RUN-27."""
    buffer = io.BytesIO()
    sideways = PAGE.transpose(Image.Transpose.ROTATE_90)
    sideways.encoderinfo = {"tiffinfo": {274: 6}}
    PAGE.save(buffer, "TIFF", save_all=True, append_images=[sideways])
    first, second = pages(buffer.getvalue(), 50, time.monotonic() + 60)
    assert isinstance(first, Page)
    assert isinstance(second, Page)
    assert difference(first.image, PAGE) == difference(second.image, PAGE) == 0


def test_damaged_metadata_costs_no_pixel() -> None:
    """RUN-27: the page stands as it is."""
    page = grey_of(encoded(PAGE, exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\x01\x12garbage"))
    assert difference(page.image, PAGE) == 0


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_the_first_frame_of_an_animation_is_read_and_the_rest_named(form: str) -> None:
    """RUN-27: frames are no pages, and nothing is left out in silence."""
    buffer = io.BytesIO()
    PAGE.convert("RGB").save(buffer, form, save_all=True, append_images=[Image.new("RGB", PAGE.size)] * 2)
    first, rest = pages(buffer.getvalue(), 50, time.monotonic() + 60)
    assert isinstance(first, Page)
    assert difference(first.image, PAGE) < 6
    assert rest == LostPage(ImageFault.ANIMATION)


def test_an_inverted_cmyk_jpeg_is_dark_on_light() -> None:
    """RUN-27: Adobe's marker says that 0 is full ink."""
    data = encoded(ImageChops.invert(PAGE.convert("RGB")).convert("CMYK"), "JPEG", quality=95)
    adobe = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00"
    assert data[2:4] in {b"\xff\xe0", b"\xff\xee", b"\xff\xdb"}
    page = grey_of(data if b"Adobe" in data else data[:2] + adobe + data[2:])
    assert page.image.mode == "L"
    assert page.image.point(lambda level: 255 if level < 100 else 0).getbbox() is not None
