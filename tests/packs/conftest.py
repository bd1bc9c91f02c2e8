"""Fixtures of the packs' tests."""

from collections.abc import Iterator

import pytest

from tests.packs.certificates import Authority
from tests.packs.internet import Internet


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The one certificate authority that the tests' clients trust."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def world(authority: Authority) -> Iterator[Internet]:
    """An internet on loopback; a connection that has no route in it fails the test."""
    world = Internet(authority)
    yield world
    assert world.dialer.strays == []
