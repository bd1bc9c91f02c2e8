"""Fixtures of the packs' tests."""

import time
from collections.abc import Iterator

import pytest

from dpp.packs.url.reader import CpuSeconds, PageReader
from tests.packs.certificates import Authority
from tests.packs.internet import Internet


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The one certificate authority that the tests' clients trust."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def reader() -> Iterator[PageReader]:
    """A running reader of pages: no test waits for its start, which takes longer than a short timebox."""
    with PageReader(CpuSeconds(1, 2)) as reader:
        reader.read("text/html", "https://site.test/", b"<p>", deadline=time.monotonic() + 300)
        yield reader


@pytest.fixture
def world(authority: Authority, reader: PageReader) -> Iterator[Internet]:
    """An internet on loopback; a connection that has no route in it fails the test."""
    world = Internet(authority, reader)
    yield world
    assert world.dialer.strays == []
