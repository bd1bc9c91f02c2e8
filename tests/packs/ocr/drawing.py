"""Pages drawn for the ocr tests, and how far a reading is from what was drawn."""

import base64
import io
import random
from collections.abc import Sequence
from pathlib import Path

import pylopdf_fonts_ko
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from rapidfuzz.distance import Levenshtein

_FONTS = Path(pylopdf_fonts_ko.__file__).parent
SANS = _FONTS / "NotoSansKR-Regular.otf"
SERIF = _FONTS / "NotoSerifKR-Regular.otf"

KOREAN = (
    "대한민국은 민주공화국이다. 대한민국의 주권은 국민에게 있고,",
    "모든 권력은 국민으로부터 나온다. 국가는 법률이 정하는 바에",
    "의하여 재외국민을 보호할 의무를 진다. 환불은 구매일로부터",
    "30일 이내에 가능합니다. 배송비는 고객이 부담하여야 합니다.",
    "문의는 평일 오전 9시부터 오후 6시까지 받습니다.",
)
ENGLISH = (
    "The quick brown fox jumps over the lazy dog. Every run is",
    "charged exactly once, whatever crashes on the way. The balance",
    "equals credits minus charges minus open reservations. Please",
    "pay within 30 days of receipt. Questions are answered from nine",
    "in the morning until six in the evening on working days.",
)
MIXED = (
    "Invoice No. 4711 합계 1,250,000원 (VAT 10% 포함)",
    "공급자 Example Corp. 담당 02-123-4567",
    "Payment is due within 30 days. 기한 내 입금 바랍니다.",
)


def draw(
    rows: Sequence[str], size: int = 32, font: Path = SANS, *, ink: int = 0, paper: int = 255, margin: int = 2
) -> Image.Image:
    """The rows as a page: letters of `size` pixels, `margin` of them empty around."""
    letters = ImageFont.truetype(font, size)
    text = "\n".join(rows)
    box = ImageDraw.Draw(Image.new("L", (1, 1))).multiline_textbbox((0, 0), text, letters, spacing=size * 0.6)
    edge = margin * size
    page = Image.new("L", (int(box[2]) + 2 * edge, int(box[3]) + 2 * edge), paper)
    ImageDraw.Draw(page).multiline_text((edge, edge), text, ink, letters, spacing=size * 0.6)
    return page


def beside(*pages: Image.Image, gap: int) -> Image.Image:
    """The pages next to each other."""
    whole = Image.new("L", (sum(p.width for p in pages) + gap * (len(pages) - 1), max(p.height for p in pages)), 255)
    left = 0
    for page in pages:
        whole.paste(page, (left, 0))
        left += page.width + gap
    return whole


def below(*pages: Image.Image) -> Image.Image:
    """The pages below each other."""
    whole = Image.new("L", (max(p.width for p in pages), sum(p.height for p in pages)), 255)
    top = 0
    for page in pages:
        whole.paste(page, (0, top))
        top += page.height
    return whole


def grained(page: Image.Image, sigma: float) -> Image.Image:
    """The page as a bad sensor sees it."""
    random.seed(7)
    grain = Image.effect_noise(page.size, sigma)
    return Image.blend(page, grain, 0.35)


def speckled(page: Image.Image, share: float) -> Image.Image:
    """The page with dust: a share of its pixels black or white."""
    chance = random.Random(7)
    dirty = page.copy()
    pixels = dirty.load()
    assert pixels is not None
    for _ in range(int(page.width * page.height * share)):
        pixels[chance.randrange(page.width), chance.randrange(page.height)] = chance.choice((0, 255))
    return dirty


def shaded(page: Image.Image, darkest: float) -> Image.Image:
    """The page lit from the left: on the right, all is `darkest` times as bright."""
    shade = Image.linear_gradient("L").rotate(90).resize(page.size)
    dark = page.point([int(level * darkest) for level in range(256)])
    return Image.composite(page, dark, shade)


def blurred(page: Image.Image, radius: float) -> Image.Image:
    """The page out of focus."""
    return page.filter(ImageFilter.GaussianBlur(radius))


def turned(page: Image.Image, degrees: float, paper: int = 255) -> Image.Image:
    """The page turned counter-clockwise."""
    return page.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=paper)


def encoded(page: Image.Image, form: str = "PNG", **options: object) -> bytes:
    """The page as a file."""
    buffer = io.BytesIO()
    page.save(buffer, form, **options)
    return buffer.getvalue()


def character_error_rate(drawn: Sequence[str] | str, read: str) -> float:
    """Edits a character that was drawn, marks left out of what was read; line ends count as blanks."""
    wanted = " ".join((drawn if isinstance(drawn, str) else " ".join(drawn)).split())
    found = " ".join(read.replace("(?)", "").split())
    return Levenshtein.distance(wanted, found) / len(wanted)


def inline(file: bytes) -> dict[str, str]:
    """A file as an image of the inputs."""
    return {"kind": "inline", "data": base64.b64encode(file).decode()}
