"""The preflight of a page and what is done to it before it is read, each step only where it is needed (RUN-27)."""

from dataclasses import dataclass

from PIL import Image, ImageChops, ImageFilter, ImageOps

from dpp.packs.ocr import measures
from dpp.packs.ocr.engine import Engine, Rotation
from dpp.packs.ocr.layout import Layout, lay_out
from dpp.packs.ocr.profiles import Profile, Step

_WHITE = 255
_LOW_CONTRAST = 90
"""Levels between ink and paper; print on paper has some 200."""
_UNEVEN = 50
_SPECKLES = 0.002
"""Share of pixels that stand alone; drawn text has less than a tenth of it."""
_GRAIN_OF_CONTRAST = 0.06
_LEAST_SKEW_DEGREES = 0.2
_MIN_INK = 0.0002
_BLANK_CONTRAST = 25


@dataclass(frozen=True, slots=True)
class Prepared:
    """A page ready to be read."""

    image: Image.Image
    is_blank: bool
    layout: Layout
    rotation: Rotation
    """By which the page was turned."""
    skew_degrees: float
    steps: tuple[Step, ...] = ()
    guess: int | None = None
    """Degrees of a turn that the page's letters suggest, where that is unsure and was not followed."""


def prepare(engine: Engine, page: Image.Image, profile: Profile, *, rotation_degrees: int | None = None) -> Prepared:
    """Look at the page, improve what hinders reading, and lock its layout.

    `rotation_degrees`: known already; else the page's letters are asked.
    """
    steps: list[Step] = []
    image, seen = _lit(page, profile, steps)
    if seen.contrast < _BLANK_CONTRAST or seen.ink_share < _MIN_INK:
        return Prepared(image, True, Layout((), 0), Rotation(0, is_sure=True), 0.0, tuple(steps))
    image = _cleaned(image, seen, profile, steps)
    seen_rotation = engine.rotation(image) if rotation_degrees is None else _known(rotation_degrees)
    # What the letters say may be a guess; then a page is upright sooner than not.
    rotation = seen_rotation if seen_rotation.is_sure else Rotation(0, is_sure=False)
    if rotation.degrees:
        image = image.rotate(rotation.degrees, expand=True)
        steps.append(Step.ROTATE)
    skew = measures.skew_degrees(image, seen.threshold)
    if abs(skew) >= _LEAST_SKEW_DEGREES:
        image = image.rotate(-skew, Image.Resampling.BICUBIC, expand=True, fillcolor=_WHITE)
        steps.append(Step.DESKEW)
    layout = lay_out(
        image, measures.light(image).threshold, keeps_rows=profile.keeps_rows, speckled=Step.DENOISE in steps
    )
    guess = None if seen_rotation.is_sure else seen_rotation.degrees
    return Prepared(image, False, layout, rotation, skew, tuple(dict.fromkeys(steps)), guess)


def _known(degrees: int) -> Rotation:
    return Rotation(degrees, is_sure=True)


def _lit(page: Image.Image, profile: Profile, steps: list[Step]) -> tuple[Image.Image, measures.Light]:
    """Dark ink on light paper, evenly lit."""
    image = page
    seen = measures.light(image)
    if seen.is_dark_paper:
        image = ImageOps.invert(image)
        seen = measures.light(image)
        steps.append(Step.INVERT)
    if seen.unevenness > _UNEVEN / profile.sensitivity:
        image = _flattened(image)
        seen = measures.light(image)
        steps.append(Step.FLATTEN)
    return image, seen


def _cleaned(image: Image.Image, seen: measures.Light, profile: Profile, steps: list[Step]) -> Image.Image:
    if measures.noise(image, seen.threshold) > _SPECKLES / profile.sensitivity:
        # Those pixels alone: a filter over all of them would take the strokes of small letters with it.
        lone = measures.lone_pixels(image, seen.threshold, neighbours=1)
        image = Image.composite(image.filter(ImageFilter.MedianFilter(3)), image, lone)
        steps.append(Step.DENOISE)
    grain = measures.grain(image, seen.threshold)
    if grain > _GRAIN_OF_CONTRAST / profile.sensitivity * seen.contrast:
        image = image.filter(ImageFilter.GaussianBlur(1.2))
        steps.append(Step.DENOISE)
    if seen.contrast < _LOW_CONTRAST * profile.sensitivity:
        image = _stretched(image, seen)
        steps.append(Step.CONTRAST)
    return image


def _flattened(image: Image.Image) -> Image.Image:
    """Take the shade of the paper away: what is left is how much darker than its surroundings each pixel is."""
    size = max(1, image.width // 16), max(1, image.height // 16)
    paper = image.resize(size, Image.Resampling.BOX).filter(ImageFilter.MaxFilter(5))
    paper = paper.filter(ImageFilter.GaussianBlur(3)).resize(image.size, Image.Resampling.BICUBIC)
    return ImageOps.invert(ImageChops.subtract(paper, image))


def _stretched(image: Image.Image, seen: measures.Light) -> Image.Image:
    """Ink to black and paper to white, in a straight line between."""
    span = max(1.0, seen.contrast)
    return image.point([min(_WHITE, max(0, round((level - seen.ink) * _WHITE / span))) for level in range(256)])
