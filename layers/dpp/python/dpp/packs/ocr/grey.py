"""Pixels of any kind as grey ones: transparency, depth and colour, with the letters visible in 8 bits (RUN-27)."""

import math
from itertools import accumulate

from PIL import Image, ImageChops, ImageFilter, ImageMath, ImageOps

_WHITE = 255
_LEVELS = 256
_SAMPLE_SIDE = 1_000
_WIDE_MODES = ("I", "F")
"""First letters of the modes with more than 8 bits a pixel."""
_FLAT = 40
"""Levels: a page whose brightness varies less may still vary in colour."""
_CARD_EDGE = 0.1
"""Share of the visible pixels at the edge of the transparent ones, below which they are a sheet and not letters."""
_CLEAR = 60
"""Levels between letters and ground with which white or black is good enough as the ground."""
_STRAY = 0.05
"""Of the letters' edge: what is nearer to the ground's level is not looked at (smoothing of the edge)."""


def grey(image: Image.Image) -> Image.Image:
    """The loaded image in mode L.

    More than 8 bits are scaled by the range that the pixels use. Transparent pixels get a ground that contrasts with
    what is visible. Letters that differ from their ground in colour alone are shown by the channel that parts them.
    """
    if image.mode.startswith(_WIDE_MODES):
        return _scaled(image)
    if image.mode in {"LAB", "HSV", "YCbCr"}:
        image = image.convert("RGB")
    if not image.has_transparency_data:
        return _parted(image)
    # RGBA, since of a palette with transparency `convert("LA")` loses the colours.
    coloured = image.convert("RGBA")
    alpha = coloured.getchannel("A")
    return _on_ground(_parted(coloured.convert("RGB"), alpha), alpha)


def is_flat(image: Image.Image) -> bool:
    """Return whether a grey page hardly varies, so that a look at its colours is worth it."""
    low, high = image.getextrema()
    return float(high) - float(low) < _FLAT  # type: ignore[arg-type]


def _scaled(image: Image.Image) -> Image.Image:
    wide = image.convert("F")
    low, high = (float(level) for level in wide.getextrema())  # type: ignore[arg-type]
    if not (math.isfinite(low) and math.isfinite(high)):
        wide = _finite(wide)
        low, high = (float(level) for level in wide.getextrema())  # type: ignore[arg-type]
    if not high > low:
        return Image.new("L", image.size, _WHITE)
    scale = (_LEVELS - 1) / (high - low)
    # One step after the other: the product of a huge value and a tiny scale stays in range.
    return wide.point(lambda level: level * 1 - low).point(lambda level: level * scale + 0.5).convert("L")


def _finite(wide: Image.Image) -> Image.Image:
    """The image with what is no number, or beyond any sensor, at the nearest level that others have."""
    sample = wide.resize((min(wide.width, 500), min(wide.height, 500)), Image.Resampling.NEAREST)
    levels = [level for level in memoryview(sample.tobytes()).cast("f") if math.isfinite(level)]
    low, high = (min(levels), max(levels)) if levels else (0.0, 0.0)
    bounded = ImageMath.lambda_eval(
        lambda args: args["min"](args["max"](args["wide"], args["low"]), args["high"]),
        wide=wide,
        low=Image.new("F", wide.size, low),
        high=Image.new("F", wide.size, high),
    )
    assert isinstance(bounded, Image.Image)  # noqa: S101 - the operands are images
    return bounded


def _parted(image: Image.Image, visible: Image.Image | None = None) -> Image.Image:
    """Brightness, or the one channel that parts ink from paper where brightness hardly does."""
    light = image.convert("L")
    if image.mode in {"1", "L"}:
        return light
    mask = visible.point([0 if level < _WHITE // 4 else _WHITE for level in range(_LEVELS)]) if visible else None
    if _span(light, mask) >= _FLAT:
        return light
    best = max(image.convert("RGB").split(), key=lambda channel: _span(channel, mask))
    return best if _span(best, mask) > 2 * _span(light, mask) else light


def _span(channel: Image.Image, mask: Image.Image | None) -> int:
    levels = [level for level, count in enumerate(channel.histogram(mask)) if count]
    return levels[-1] - levels[0] if levels else 0


def _on_ground(light: Image.Image, alpha: Image.Image) -> Image.Image:
    low, high = (int(level) for level in alpha.getextrema())  # type: ignore[arg-type]
    if low == high:  # also where nothing would be visible: then the alpha channel is a leftover
        return light
    alpha = alpha.point([min(_WHITE, level * _WHITE // high) for level in range(_LEVELS)])
    ground = _ground(light, alpha, (low + high) * _WHITE // (2 * high))
    page = Image.new("L", light.size, ground)
    page.paste(light, mask=alpha)
    if ground in {0, _WHITE}:
        return page if ground else ImageOps.invert(page)
    # Letters both darker and lighter than the ground: what counts is how far from it they are.
    return ImageOps.invert(ImageOps.autocontrast(ImageChops.difference(page, Image.new("L", page.size, ground))))


def _ground(light: Image.Image, alpha: Image.Image, middle: int) -> int:
    """The level of a ground on which what is visible can be told from what is not."""
    share = min(1.0, _SAMPLE_SIDE / max(light.size))
    size = max(1, round(light.width * share)), max(1, round(light.height * share))
    light, alpha = (one.resize(size, Image.Resampling.NEAREST) for one in (light, alpha))
    visible = alpha.point([_WHITE if level > middle else 0 for level in range(_LEVELS)])
    edge = ImageChops.multiply(ImageOps.invert(visible).filter(ImageFilter.MaxFilter(3)), visible)
    histogram = light.histogram(edge)
    count = sum(histogram)
    if not count:
        return _WHITE
    if count < _CARD_EDGE * visible.histogram()[_WHITE] and _span(light, visible) >= _FLAT:
        # A sheet with its own paper: the ground goes on with it.
        return _WHITE if sum(histogram[_LEVELS // 2 :]) > count / 2 else 0
    return int(max((_WHITE, 0, *range(16, 240, 8)), key=lambda level: _worth(histogram, level, count)))


def _worth(histogram: list[int], ground: int, count: int) -> int:
    """Return the distance of nearly all of the edge from the ground. White and black win if they are clear."""
    by_distance = [0] * _LEVELS
    for level, pixels in enumerate(histogram):
        by_distance[abs(level - ground)] += pixels
    distance: int = next(far for far, sum_ in enumerate(accumulate(by_distance)) if sum_ > _STRAY * count)
    return distance + _LEVELS if ground in {0, _WHITE} and distance >= _CLEAR else distance
