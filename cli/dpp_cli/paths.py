"""Paths in the checkout. Everything created at run time is under `.dpp/`, which git ignores."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MADE = ROOT / ".dpp"
BUILD = MADE / "build"
UV = MADE / "uv" / "bin" / "uv"

OPENAPI_DOCUMENT = ROOT / "docs" / "openapi.json"
ASSEMBLY = BUILD / "cdk.out"

FUNCTIONS = ROOT / "functions"
DOMAIN_LAYER = ROOT / "layers" / "dpp"
DOMAIN_BUILD = BUILD / "layers" / "dpp"
DEPS_LAYER = BUILD / "layers" / "deps"
MIGRATIONS = ROOT / "migrations"
MIGRATIONS_LAYER = BUILD / "layers" / "migrations"
OPERATE_LAYER = BUILD / "layers" / "operate"
API_DOCS_LAYER = BUILD / "layers" / "api_docs"
OCR_LAYER = BUILD / "layers" / "ocr"
URL_LAYER = BUILD / "layers" / "url"


def importable(folder: Path) -> None:
    """Make modules in a folder of the checkout importable that are not part of this package."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def state_dir() -> Path:
    """Return the local stack's folder: `.dpp/local`, or `DPP_LOCAL_STATE` (the e2e tests use their own stack)."""
    return Path(os.environ.get("DPP_LOCAL_STATE") or MADE / "local").absolute()
