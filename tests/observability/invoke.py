"""One invocation of a function with given parts."""

import importlib
from typing import Any

import pytest

from tests.support.api import lambda_context


def invoke(name: str, monkeypatch: pytest.MonkeyPatch, parts: Any, event: Any = None) -> Any:
    """Invoke a function whose wiring is `parts`, and return its answer."""
    module = importlib.import_module(f"{name}.handler")
    monkeypatch.setattr(module, "wiring", lambda: parts)
    return module.handler(event or {}, lambda_context())
