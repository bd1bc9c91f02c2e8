"""The preflight of a page and what is done to it before it is read, each step only where it is needed (RUN-27)."""

from dataclasses import dataclass

from PIL import Image, ImageChops, ImageFilter, ImageOps

from dpp.packs.ocr import measures
from dpp.packs.ocr.engine import Engine, Rotation
from dpp.packs.ocr.geometry import turned_back, within
from dpp.packs.ocr.layout import Layout, lay_out
from dpp.packs.ocr.pages import Box
from dpp.packs.ocr.profiles import Profile, Step
from dpp.packs.ocr.rules import Grid, Ruling, unruled

_WHITE = 255
_LOW_CONTRAST = 90
"""Levels between ink and paper; print on paper has some 200."""
_UNEVEN = 50
_SPECKLES = 0.002
"""Share of pixels that stand alone; drawn text has less than a tenth of it."""
_GRAIN_OF_CONTRAST = 0.06
_LEAST_SKEW_DEGREES = 0.2
_LEAST_INK = 0.0002
_LEAST_CONTRAST = 25
"""A page with less has to show that it is not blank."""
_PAPER_NOISE = 200
"""Level of lifted paper; what is lighter is its grain."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A page ready to be read."""

    image: Image.Image
    is_blank: bool
    layout: Layout
    """Of what is outside of the grids."""
    rotation: Rotation
    """By which the page was turned."""
    skew_degrees: float
    steps: tuple[Step, ...] = ()
    guess: int | None = None
    """Degrees of a turn that the page's letters suggest, where that is unsure and was not followed."""
    grids: tuple[Grid, ...] = ()
    """The ruled tables; their lines are no longer in the image."""
    threshold: int = 0
    speckled: bool = False
    size: tuple[int, int] = (0, 0)
    """Of the page as it came."""

    def back(self, box: Box) -> Box:
        """A box of this image, in the page as it came."""
        degrees = self.rotation.degrees
        sideways = degrees % 180 != 0
        upright = (self.size[1], self.size[0]) if sideways else self.size
        if self.is_straightened:
            box = turned_back(upright, self.image.size, -self.skew_degrees)(box)
        return turned_back(self.size, upright, degrees)(box) if degrees else within(box, self.size)

    @property
    def is_straightened(self) -> bool:
        """Return whether the page was turned by its lines' lean."""
        return Step.DESKEW in self.steps


def prepare(engine: Engine, page: Image.Image, profile: Profile, *, rotation_degrees: int | None = None) -> Prepared:
    """Look at the page, improve what hinders reading, and lock its layout.

    `rotation_degrees`: known already; else the page's letters are asked.
    """
    steps: list[Step] = []
    image, seen = _lit(page, profile, steps)
    if seen.contrast < _LEAST_CONTRAST or seen.ink_share < _LEAST_INK:
        # Twice, since hardly any page needs the dust taken away, which takes longer than the look itself.
        if not measures.has_ink(image) or not measures.has_ink(image := _without_dust(image, seen.threshold)):
            return Prepared(image, True, Layout((), 0), Rotation(0, is_sure=True), 0.0, tuple(steps), size=page.size)
        if seen.contrast < _LEAST_CONTRAST:
            image = _lifted(image)
            seen = measures.light(image)
            steps.append(Step.CONTRAST)
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
    speckled = Step.DENOISE in steps
    threshold = measures.light(image).threshold
    ruling = unruled(image, threshold)
    layout = lay_out(_without(ruling), threshold, keeps_rows=profile.keeps_rows, speckled=speckled)
    return Prepared(
        ruling.image,
        False,
        layout,
        rotation,
        skew,
        tuple(dict.fromkeys(steps)),
        None if seen_rotation.is_sure else seen_rotation.degrees,
        ruling.grids,
        threshold,
        speckled,
        page.size,
    )


def _without(ruling: Ruling) -> Image.Image:
    """The page with paper where the grids are."""
    if not ruling.grids:
        return ruling.image
    image = ruling.image.copy()
    for grid in ruling.grids:
        image.paste(_WHITE, grid.box)
    return image


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


def _without_dust(image: Image.Image, threshold: int) -> Image.Image:
    """Pixels that stand alone, or two together, are no print."""
    lone = measures.lone_pixels(image, threshold, neighbours=1)
    return Image.composite(image.filter(ImageFilter.MedianFilter(3)), image, lone)


def _lifted(image: Image.Image) -> Image.Image:
    """Print that hardly differs from its paper, in full contrast."""
    clear = ImageOps.autocontrast(_flattened(image))
    return clear.point([_WHITE if level > _PAPER_NOISE else level for level in range(256)])


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
