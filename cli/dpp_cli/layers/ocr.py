"""Builds the layer of the ocr pack: its packages (the group `ocr` of `uv.lock`) and Tesseract's trained data.

The data comes from npm, pinned by `cli/tessdata/package-lock.json` with SHA-512: no other registry that this project
installs from has Korean, and unlike a Debian package it needs neither Debian nor root. It is Tesseract's own
`tessdata_best` with integer weights (Apache-2.0): more exact than the distributions' `tessdata_fast`, and as large.
"""

import fcntl
import gzip
import shutil
from pathlib import Path

from dpp_cli.deploy.toolchain import fresh, npm_packages, stamp
from dpp_cli.layers.packages import build_packages_layer
from dpp_cli.paths import MADE, OCR_LAYER, ROOT

LANGUAGES = ("eng", "kor", "osd")
DATA_PACKAGE = "dpp_tessdata"
"""The folder under the layer's `python/`: Python finds it on its path, wherever a layer is unpacked."""

_LOCK = ROOT / "cli" / "tessdata" / "package-lock.json"


def build_ocr_layer(architecture: str | None = None) -> Path:
    """Build the layer unless it is up to date; return its root. Raises ToolError."""
    return build_packages_layer(
        OCR_LAYER,
        ["--only-group", "ocr", "--no-emit-package", "lxml"],  # the worker has it in the layer of the url pack
        architecture,
        extend=lambda python: _copy(trained_data(), python / DATA_PACKAGE),
        made_from=[_LOCK],
    )


def trained_data() -> Path:
    """A folder with `<language>.traineddata`, fetched once; safe for several processes. Raises ToolError."""
    target = MADE / "tessdata"
    target.mkdir(parents=True, exist_ok=True)
    with (target / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not fresh(target, [_LOCK]):
            packages = npm_packages(_LOCK.parent, target / "npm")
            for language in LANGUAGES:
                unpacked = target / f"{language}.traineddata"
                packed = packages / "@tesseract.js-data" / language / "4.0.0_best_int" / f"{unpacked.name}.gz"
                with gzip.open(packed) as source, unpacked.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
            shutil.rmtree(target / "npm")  # 30 MB, of which half are other models
            stamp(target, [_LOCK])
    return target


def _copy(data: Path, target: Path) -> None:
    target.mkdir()
    for language in LANGUAGES:
        shutil.copyfile(data / f"{language}.traineddata", target / f"{language}.traineddata")
