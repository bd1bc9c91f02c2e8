"""docs/operations.md: every log message that it explains is one that the code writes (RUN-31)."""

import ast
import re
from pathlib import Path

import pytest

from dpp_cli.paths import FUNCTIONS, ROOT

_PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
_TABLE = _PAGE.partition("\n## Log messages\n")[2].partition("\n## ")[0]
_ROWS = [line.split(" | ")[0] for line in _TABLE.splitlines() if line.startswith("| `")]
MESSAGES = [message.partition("…")[0].strip() for row in _ROWS for message in re.findall(r"`([^`]+)`", row)]
_SOURCES = [*(ROOT / "layers").rglob("*.py"), *FUNCTIONS.rglob("*.py")]


def _texts(source: Path) -> set[str]:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.fixture(scope="module")
def texts() -> set[str]:
    """Every string of the code."""
    return set[str]().union(*map(_texts, _SOURCES))


@pytest.mark.parametrize("message", MESSAGES)
def test_the_code_writes_every_message_on_the_page(message: str, texts: set[str]) -> None:
    """An operator searches the logs for these words."""
    assert any(text.startswith(message) for text in texts)


def test_the_table_was_found() -> None:
    """An empty table would explain nothing and pass."""
    assert len(MESSAGES) > 30
