"""Loggers as they were: some of these tests make a function's logger, which would write on into what they captured."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def loggers_as_they_were() -> Iterator[None]:
    """What a test captures is closed when it ends."""
    modules = logging.getLogger("dpp")
    before = modules.handlers, modules.propagate
    yield
    modules.handlers, modules.propagate = before
