"""What is served, read from the layer once a container."""

import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dpp.platform.http.kept import Content

PACKAGE = "dpp_api_docs"
"""The folder of the layer (`dpp_cli/layers/api_docs.py`); Python finds it on its path, wherever a layer is unpacked."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The document, the page, and what a browser may do with the page."""

    document: Content
    page: Content
    page_policy: str


@cache
def wiring() -> Wiring:
    """Read the layer. Raises FileNotFoundError where the function has none."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(PACKAGE)
    folder = Path(next(iter(spec.submodule_search_locations)))

    def read(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    return Wiring(
        document=Content.of("application/json", read("openapi.json")),
        page=Content.of("text/html; charset=utf-8", read("docs.html")),
        page_policy=read("docs.policy"),
    )
