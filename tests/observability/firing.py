"""One invocation of a function, in a container of its own."""

import importlib
from typing import Any

import pytest

from tests.support.api import lambda_context


def fire(name: str, monkeypatch: pytest.MonkeyPatch, parts: Any, event: Any = None) -> Any:
    """One invocation of a function with these parts; what it answers."""
    module = importlib.import_module(f"{name}.handler")
    monkeypatch.setattr(module, "wiring", lambda: parts)
    return module.handler(event or {}, lambda_context())
