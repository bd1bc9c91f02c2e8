"""Builds the layer of the url pack: its packages (the group `url` of `uv.lock`), without babel's locales.

trafilatura needs babel only to compare the languages of links, which the pack doesn't do, and never reads a locale.
"""

import shutil
from pathlib import Path

from dpp_cli.layers.packages import build_packages_layer
from dpp_cli.paths import URL_LAYER


def build_url_layer(architecture: str | None = None) -> Path:
    """Build the layer unless it is up to date; return its root. Raises ToolError."""
    return build_packages_layer(
        URL_LAYER,
        ["--only-group", "url"],
        architecture,
        extend=lambda python: shutil.rmtree(python / "babel" / "locale-data"),
        made_from=[Path(__file__)],
    )
