"""Builds the layer of the function `api_docs`: the OpenAPI document and its page."""

import json
import shutil
import tempfile
from pathlib import Path

from dpp_cli.deploy.toolchain import fresh, stamp
from dpp_cli.docs import api_page
from dpp_cli.paths import API_DOCS_LAYER, OPENAPI_DOCUMENT

PACKAGE = "dpp_api_docs"
"""The folder under the layer's `python/`: Python finds it on its path, wherever a layer is unpacked."""

MAX_BYTES = 6_000_000
"""Lambda's limit for a response."""


def build_api_docs_layer() -> Path:
    """Build it unless it is up to date; return its root. Raises OSError."""
    target = API_DOCS_LAYER
    stamped = target.with_suffix(".stamp")
    if target.exists() and fresh(stamped, sources()):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        built = Path(scratch) / "layer"
        write(built / "python" / PACKAGE)
        shutil.rmtree(target, ignore_errors=True)
        built.rename(target)
    stamped.mkdir(exist_ok=True)
    stamp(stamped, sources())
    return target


def write(folder: Path) -> None:
    """Return the files to serve, built from the committed document."""
    document = json.loads(OPENAPI_DOCUMENT.read_text(encoding="utf-8"))
    page = api_page.render(document)
    compact = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    folder.mkdir(parents=True)
    for name, text in (("openapi.json", compact), ("docs.html", page.html), ("docs.policy", page.policy)):
        (folder / name).write_text(text, encoding="utf-8")


def sources() -> list[Path]:
    """Return the files that the layer is built from."""
    folder = Path(api_page.__file__).parent
    return [OPENAPI_DOCUMENT, Path(__file__), *sorted((*folder.glob("*.py"), *folder.glob("*.css")))]
