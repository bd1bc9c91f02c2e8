"""Restores loggers: some tests create a function's logger, which would keep writing into the captured stream."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def loggers_as_they_were() -> Iterator[None]:
    """The captured stream is closed after the test."""
    modules = logging.getLogger("dpp")
    before = modules.handlers, modules.propagate
    yield
    modules.handlers, modules.propagate = before
