"""Tesseract, behind the few calls that the pack needs of it (RUN-27)."""

import importlib.util
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import tesserocr
from PIL import Image

from dpp.packs.ocr.faults import OutOfTimeError
from dpp.packs.ocr.pages import Box
from dpp.packs.ocr.profiles import Segmentation
from dpp.platform.config import ConfigurationError


@dataclass(frozen=True, slots=True)
class Rotation:
    """A turn counter-clockwise: 0, 90, 180 or 270 degrees."""

    degrees: int
    is_sure: bool


DATA_PACKAGE = "dpp_tessdata"
"""The folder with the trained data in the ocr layer (dpp_cli/layers/ocr.py)."""

_RESOLUTION = 300  # Tesseract warns about images that state none; it only guides how it judges sizes
_OSD = "osd"
_SURE_ORIENTATION = 2.0
"""Tesseract's measure, without a bound; of Hangul, wrong answers come with 0.9 and right ones from 0.6 on."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """A word, or a part of one, as it was read; `confidence` 0–100 is Tesseract's.

    Hangul comes syllable by syllable; `glued` says that no blank parts it from what stands before it.
    """

    text: str
    confidence: float
    glued: bool
    box: Box


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text, and where it stands in the image that was read."""

    fragments: tuple[Fragment, ...]
    box: Box

    @property
    def characters(self) -> int:
        """Without blanks."""
        return sum(len(one.text) for one in self.fragments)

    @property
    def confidence(self) -> float:
        """The mean of its fragments, by their length; 0 of an empty line."""
        return mean_confidence([self])

    @property
    def least_confidence(self) -> float:
        """That of its least sure fragment."""
        return min((one.confidence for one in self.fragments), default=0.0)


def mean_confidence(lines: list[Line]) -> float:
    """The mean confidence, 0–100, by characters; 0 where there is none."""
    fragments = [one for line in lines for one in line.fragments]
    weight = sum(len(one.text) for one in fragments)
    return sum(one.confidence * len(one.text) for one in fragments) / weight if weight else 0.0


def find_trained_data(configured: str | None) -> Path:
    """The folder with the trained data. Raises ConfigurationError."""
    if configured is not None:
        return Path(configured)
    spec = importlib.util.find_spec(DATA_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError("no trained data: the ocr layer is missing, and DPP_TESSDATA_DIR is not set")
    return Path(next(iter(spec.submodule_search_locations)))


class Engine:
    """One Tesseract for a job's language and one for orientation, loaded when first asked; `with` ends both."""

    def __init__(self, trained_data: Path, language: str) -> None:
        self._trained_data = trained_data
        self._language = language
        self._loaded: dict[str, Any] = {}

    def load(self) -> None:
        """Load both now. Raises ConfigurationError."""
        self._api(self._language)
        self._api(_OSD)

    def rotation(self, image: Image.Image) -> Rotation:
        """Return how far the page must be turned to stand upright, as its letters look."""
        api = self._api(_OSD)
        self._show(api, image)
        found = api.DetectOrientationScript()
        if not found:  # too few letters
            return Rotation(0, is_sure=False)
        return Rotation(int(found["orient_deg"]), is_sure=found["orient_conf"] >= _SURE_ORIENTATION)

    def read(self, image: Image.Image, segmentation: Segmentation, deadline: float) -> list[Line]:
        """Read the image. `deadline` (`time.monotonic()`) is looked at between words.

        Raises OutOfTimeError.
        """
        left = deadline - time.monotonic()
        if left <= 0:
            raise OutOfTimeError
        api = self._api(self._language)
        api.SetPageSegMode(segmentation.value)
        self._show(api, image)
        read = api.Recognize(max(1, int(left * 1000)))
        if time.monotonic() >= deadline:  # what was read until then is not told from the rest
            raise OutOfTimeError
        found = api.GetIterator() if read else None
        return list(_lines(found)) if found is not None else []

    def close(self) -> None:
        """Free what was loaded."""
        while self._loaded:
            self._loaded.popitem()[1].End()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _api(self, language: str) -> Any:
        if language not in self._loaded:
            mode = tesserocr.PSM.OSD_ONLY if language == _OSD else tesserocr.PSM.AUTO
            try:
                self._loaded[language] = tesserocr.PyTessBaseAPI(
                    path=str(self._trained_data), lang=language, psm=mode, oem=_engine_mode(language)
                )
            except RuntimeError:
                raise ConfigurationError(f"the trained data for {language} can't be loaded") from None
        return self._loaded[language]

    @staticmethod
    def _show(api: Any, image: Image.Image) -> None:
        api.SetImageBytes(image.tobytes(), image.width, image.height, 1, image.width)
        api.SetSourceResolution(_RESOLUTION)


def _engine_mode(language: str) -> Any:
    # The data for orientation is of the old kind, and only that.
    return tesserocr.OEM.DEFAULT if language == _OSD else tesserocr.OEM.LSTM_ONLY


def _lines(found: Any) -> Iterator[Line]:
    level = tesserocr.RIL
    fragments: list[Fragment] = []
    box: Box = (0, 0, 0, 0)
    for item in tesserocr.iterate_level(found, level.WORD):
        if item.IsAtBeginningOf(level.TEXTLINE):
            if fragments:
                yield Line(tuple(fragments), box)
            fragments = []
            box = tuple(item.BoundingBox(level.TEXTLINE) or (0, 0, 0, 0))
        text = "" if item.Empty(level.WORD) else item.GetUTF8Text(level.WORD).strip()
        if text:
            glued = bool(fragments) and not item.BlanksBeforeWord()
            place = tuple(item.BoundingBox(level.WORD) or box)
            fragments.append(Fragment(text, float(item.Confidence(level.WORD)), glued, place))
    if fragments:
        yield Line(tuple(fragments), box)
