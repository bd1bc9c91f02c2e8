"""Fixtures of the ocr tests: Tesseract with its trained data, and runs of the pack."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dpp.packs.contract import PackRequest, PackResult, PackSuccess, PackType
from dpp.packs.inputs.ocr import OcrInputs
from dpp.packs.ocr.engine import Engine, Line
from dpp.packs.ocr.marks import Marked, mark
from dpp.packs.ocr.pack import run
from dpp.packs.ocr.profiles import PROFILES
from dpp.packs.ocr.reading import PageReading, read_page
from dpp.packs.ocr.settings import OcrSettings
from dpp_cli.layers.ocr import trained_data
from tests.packs.ocr.drawing import inline

type RunPack = Callable[..., PackResult]


def data_of(result: PackResult) -> Any:
    """The data of a run that succeeded."""
    assert isinstance(result, PackSuccess), result
    return result.data


def text_of(result: PackResult, page: int = 0) -> str:
    """The text of a page of a run that succeeded, in the order of reading."""
    return "\n".join(block["text"] for block in data_of(result)["texts"][page]["blocks"])


@pytest.fixture(scope="session")
def tessdata() -> Path:
    """The trained data, fetched once a checkout."""
    return trained_data()


@pytest.fixture(scope="session")
def engine(tessdata: Path) -> Iterator[Engine]:
    """Tesseract for Korean and English."""
    with Engine(tessdata, "kor+eng") as loaded:
        yield loaded


@pytest.fixture(scope="session")
def read(engine: Engine) -> Callable[..., tuple[Marked, PageReading]]:
    """Read a drawn page by a profile."""

    def read(page: Image.Image, profile: str = "P1") -> tuple[Marked, PageReading]:
        reading = read_page(engine, page, PROFILES[profile], time.monotonic() + 60)
        lines: list[Line] = [line for block in reading.blocks for line in block.lines]
        return mark(lines), reading

    return read


@pytest.fixture(scope="session")
def ocr(tessdata: Path) -> RunPack:
    """Run the pack on files given as bytes, in this process."""

    def ocr(*files: bytes, timebox_sec: int = 60, max_cost_usd_micros: int = 250_000, **inputs: object) -> PackResult:
        wanted = {"images": [inline(file) for file in files], **inputs}
        request = PackRequest(
            run_id="run",
            pack_type=PackType.OCR,
            inputs={},
            timebox_sec=timebox_sec,
            max_cost_usd_micros=max_cost_usd_micros,
        )
        settings = OcrSettings.load({"DPP_TESSDATA_DIR": str(tessdata)})
        return run(OcrInputs.model_validate(wanted), request, settings)

    return ocr
