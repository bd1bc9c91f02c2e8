"""The ocr profiles as data (RUN-27; docs/packs.md shows the same table).

The source document (001 §9.4.3) names the profiles and leaves their meaning open; this is it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from types import MappingProxyType


class Segmentation(IntEnum):
    """Tesseract's page segmentation modes."""

    AUTO = 3
    SINGLE_BLOCK = 6
    SINGLE_LINE = 7
    SPARSE = 11


class Step(StrEnum):
    """Preprocessing steps; each is applied only if the page's measures require it."""

    INVERT = "invert"
    FLATTEN = "flatten"
    CONTRAST = "contrast"
    DENOISE = "denoise"
    ROTATE = "rotate"
    DESKEW = "deskew"


class Pass(StrEnum):
    """Recognition passes, each of which scales its letters to the size that Tesseract reads best; and notes, which a
    PDF states and nobody has to read."""

    BODY = "body"
    TITLE = "title"
    FINE_PRINT = "fine_print"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Profile:
    """Settings for one kind of page."""

    sensitivity: float
    """Factor on the thresholds of contrast, shade and noise for preprocessing."""
    keeps_rows: bool
    """True: a wide gap is within a row, as in a table; False: it separates columns of text."""
    scattered: bool
    """True: an apparent block may be single words in no order."""
    reread_below: int
    """Confidence, 0–100: lines with any word below it are read again, alone and at other sizes, and the better
    reading counts."""


PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        # A printed or scanned document of running text, in one or more columns.
        "P1": Profile(sensitivity=1.0, keeps_rows=False, scattered=False, reread_below=65),
        # The same, photographed or worn: uneven light, pale print. Doubtful lines get a second look.
        "P2A": Profile(sensitivity=2.0, keeps_rows=False, scattered=False, reread_below=85),
        # Forms, tables, receipts: rows stay rows.
        "P2B": Profile(sensitivity=2.0, keeps_rows=True, scattered=False, reread_below=85),
        # Posters, labels, screenshots: text of any size anywhere.
        "P3": Profile(sensitivity=1.0, keeps_rows=False, scattered=True, reread_below=85),
    }
)


def lock_segmentation(lines: int) -> Segmentation:
    """The mode in which a region is read: what the preflight saw of it is not looked for again."""
    return Segmentation.SINGLE_LINE if lines == 1 else Segmentation.SINGLE_BLOCK
