"""Homes and their archives, as the tests make and look at them."""

from pathlib import Path

import zstandard

from dpp.workspaces.providers import home_tar


def no_heartbeat() -> None:
    """A lease that is never lost."""


def packed(home: Path) -> bytes:
    """The home's archive."""
    return b"".join(home_tar.pack(home, no_heartbeat))


def unpack(archive: bytes, into: Path) -> None:
    """Unpack into a folder, which is made where there is none."""
    into.mkdir(exist_ok=True)
    home_tar.unpack(iter([archive]), into, no_heartbeat)


def plain_of(archive: bytes) -> bytes:
    """The tar in an archive."""
    return zstandard.ZstdDecompressor(max_window_size=8 << 20).decompressobj().decompress(archive)


def names_in(folder: Path) -> list[str]:
    """What stands in a folder."""
    return sorted(path.name for path in folder.iterdir())


def there_and_back(home: Path) -> Path:
    """What becomes of a home that is packed and unpacked again."""
    archive, back = packed(home), home.with_name("back")
    home_tar.verify(iter([archive]), no_heartbeat)
    unpack(archive, back)
    return back
