"""Measures of a grey page before recognition: contrast, shade, noise, skew (RUN-27).

Pillow alone: its box resize and histograms run in C, so no array library needs to be shipped for this.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from PIL import Image, ImageChops, ImageFilter, ImageStat

type Span = tuple[int, int]
"""The first cell and the one after the last."""

_SAMPLE_SIDE = 1_000
_SKEW_SIDE = 700
MAX_SKEW_DEGREES = 8.0
_SKEW_STEPS = (1.0, 0.1)
_LEVELS = 256
_CELL = 4
_CLEAN_SHARE = 0.99
"""Of the pixels: with as many of one level, the page was drawn and not scanned, and has no grain."""
_FEW_LEVELS = 5
"""Grain has more, and so few are all that 8 bits keep of a deep page that uses little of its range."""
_LEAST_STEP = 2
_LEAST_STEP_OF_SCANS = 5
_GRAIN_STEP = 1.2
"""Levels by which print differs from paper, of a cell; for scans also by so many of the grain's measure."""


@dataclass(frozen=True, slots=True)
class Light:
    """Levels are 0 (black) to 255."""

    ink: float
    paper: float
    ink_share: float
    """Of the area that is darker than the threshold between ink and paper."""
    threshold: int
    unevenness: float
    """Difference between the lightest and the darkest ninth of the paper."""

    @property
    def contrast(self) -> float:
        """Between paper and ink."""
        return self.paper - self.ink

    @property
    def is_dark_paper(self) -> bool:
        """Return whether most of the page is dark: light text on a dark ground."""
        return self.ink_share > 0.6


def light(image: Image.Image) -> Light:
    """Measure ink and paper by the threshold that parts them best (Otsu, IEEE SMC 9(1), 1979)."""
    sample = _small(image, _SAMPLE_SIDE)
    histogram = sample.histogram()
    threshold = _otsu(histogram)
    total = sum(histogram)
    dark = sum(histogram[: threshold + 1])
    ink = _mean(histogram, 0, threshold + 1)
    paper = _mean(histogram, threshold + 1, _LEVELS) if dark < total else ink
    # The lightest of each spot is its paper, so that text does not count as shade.
    ninths = sample.filter(ImageFilter.MaxFilter(9)).resize((3, 3), Image.Resampling.BOX).histogram()
    levels = [level for level, count in enumerate(ninths) if count]
    return Light(ink, paper, dark / total, threshold, levels[-1] - levels[0])


def has_ink(image: Image.Image) -> bool:
    """Return whether anything on the page stands out of the grain of its paper: False of a blank page alone.

    Over cells of four by four pixels grain is a quarter of itself, and print is not.
    """
    histogram = image.histogram()
    if max(histogram) == sum(histogram):
        return False
    levels = sum(count > 0 for count in histogram)
    if levels <= _FEW_LEVELS or max(histogram) >= _CLEAN_SHARE * sum(histogram):
        least = float(_LEAST_STEP)
    else:
        least = max(_LEAST_STEP_OF_SCANS, _GRAIN_STEP * _grain_of_paper(image) + _LEAST_STEP)
    cells = image.resize(
        (max(1, image.width // _CELL), max(1, image.height // _CELL)), Image.Resampling.BOX, reducing_gap=None
    )
    paper = cells.filter(ImageFilter.GaussianBlur(12))
    highest = ImageChops.difference(cells, paper).getextrema()[1]
    return float(highest) >= least  # type: ignore[arg-type]


def _grain_of_paper(image: Image.Image) -> float:
    """Twice the usual difference of a pixel from its neighbours, which print does not change."""
    sample = _centre(image, _SAMPLE_SIDE)
    histogram = ImageChops.difference(sample, sample.filter(ImageFilter.MedianFilter(3))).histogram()
    half = sum(histogram) / 2
    below = 0
    for level, count in enumerate(histogram):
        if below + count > half:
            return 2 * (level + (half - below) / count)
        below += count
    return 0.0


def noise(image: Image.Image, threshold: int) -> float:
    """The share of pixels that stand alone: dark with no dark neighbour, or light with no light one."""
    lone = lone_pixels(_centre(image, _SAMPLE_SIDE), threshold, neighbours=0)
    return float(ImageStat.Stat(lone).mean[0]) / (_LEVELS - 1)


def lone_pixels(image: Image.Image, threshold: int, *, neighbours: int) -> Image.Image:
    """A mask of the pixels with at most so many like them among their eight neighbours.

    A pixel of a stroke has two. Of small letters some have one, so that one is no sign of specks by itself.
    """
    dark = image.point([_LEVELS - 1 if level <= threshold else 0 for level in range(_LEVELS)])
    around = dark.filter(ImageFilter.BoxBlur(1))
    most = (neighbours + 1.5) / 9 * (_LEVELS - 1)
    lone_dark = ImageChops.multiply(dark, around.point([255 if level < most else 0 for level in range(_LEVELS)]))
    lone_light = ImageChops.multiply(
        ImageChops.invert(dark), around.point([255 if level > _LEVELS - 1 - most else 0 for level in range(_LEVELS)])
    )
    return ImageChops.lighter(lone_dark, lone_light)


def grain(image: Image.Image, threshold: int) -> float:
    """The standard deviation of what is finer than text, on paper: 0 of a drawn page, 10 and more of a bad sensor."""
    sample = _centre(image, _SAMPLE_SIDE)
    fine = ImageChops.difference(sample, sample.filter(ImageFilter.MedianFilter(3)))
    far_from_ink = sample.filter(ImageFilter.MinFilter(5))
    paper = far_from_ink.point([255 if level > threshold else 0 for level in range(_LEVELS)])
    if not paper.getbbox():
        return 0.0
    return float(ImageStat.Stat(fine, paper).rms[0])


def skew_degrees(image: Image.Image, threshold: int) -> float:
    """Return how far lines lean, counter-clockwise, within MAX_SKEW_DEGREES; 0 where no angle is better than none.

    Rows of text make dark and light bands; turned the right way, neighbouring rows differ the most.
    """
    dark = image.point([255 if level <= threshold else 0 for level in range(_LEVELS)])
    small = _small(dark, _SKEW_SIDE)
    best = 0.0
    reach = MAX_SKEW_DEGREES
    for step in _SKEW_STEPS:
        count = round(reach / step)
        angles = [best + step * number for number in range(-count, count + 1)]
        best = max(angles, key=lambda angle: (_banding(small, angle), -abs(angle)))
        reach = step
    if _banding(small, best) < 1.1 * _banding(small, 0.0):
        return 0.0
    return -best


def _small(image: Image.Image, side: int) -> Image.Image:
    share = side / max(image.size)
    if share >= 1:
        return image
    size = max(1, round(image.width * share)), max(1, round(image.height * share))
    return image.resize(size, Image.Resampling.BOX, reducing_gap=2.0)


def _centre(image: Image.Image, side: int) -> Image.Image:
    left, top = max(0, (image.width - side) // 2), max(0, (image.height - side) // 2)
    return image.crop((left, top, min(image.width, left + side), min(image.height, top + side)))


def _banding(image: Image.Image, angle: float) -> float:
    turned = image.rotate(angle, Image.Resampling.NEAREST) if angle else image
    rows = turned.resize((1, turned.height), Image.Resampling.BOX).tobytes()
    return float(sum((above - below) ** 2 for above, below in pairwise(rows)))


def _mean(histogram: Sequence[int], start: int, stop: int) -> float:
    count = sum(histogram[start:stop])
    return sum(level * histogram[level] for level in range(start, stop)) / count if count else float(start)


def _otsu(histogram: Sequence[int]) -> int:
    total = sum(histogram)
    whole = sum(level * count for level, count in enumerate(histogram))
    best, best_level, below, sum_below = -1.0, _LEVELS // 2, 0, 0
    for level, count in enumerate(histogram):
        below += count
        sum_below += level * count
        if not count or below == total:
            continue
        between = (whole * below / total - sum_below) ** 2 / (below * (total - below))
        if between > best:
            best, best_level = between, level
    return best_level


def spans_of(presence: Sequence[int]) -> list[Span]:
    """The runs of true cells of a projection."""
    spans = []
    place = 0
    for present, run in groupby(presence, bool):
        length = sum(1 for _ in run)
        if present:
            spans.append((place, place + length))
        place += length
    return spans
