"""What each profile means, as data (RUN-27; docs/packs.md shows the same table).

The source document (001 §9.4.3) names the profiles and leaves their meaning open; this is it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from types import MappingProxyType


class Segmentation(IntEnum):
    """What Tesseract takes an image for; the values are its page segmentation modes."""

    AUTO = 3
    SINGLE_BLOCK = 6
    SINGLE_LINE = 7
    SPARSE = 11


class Step(StrEnum):
    """What may be done to a page before it is read; each only where the page's measures call for it."""

    INVERT = "invert"
    FLATTEN = "flatten"
    CONTRAST = "contrast"
    DENOISE = "denoise"
    ROTATE = "rotate"
    DESKEW = "deskew"


class Pass(StrEnum):
    """What of a page is read together: each pass brings its letters to the size that Tesseract reads best."""

    BODY = "body"
    TITLE = "title"
    FINE_PRINT = "fine_print"


@dataclass(frozen=True, slots=True)
class Profile:
    """How a kind of page is read."""

    sensitivity: float
    """How soon a flaw is mended: the thresholds of contrast, shade and noise move by it."""
    keeps_rows: bool
    """Whether a wide gap stands within a row, as in a table, or between columns of text."""
    scattered: bool
    """Whether what looks like a block may be single words in no order."""
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
