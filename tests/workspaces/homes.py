"""Packing and unpacking of homes."""

from pathlib import Path

import zstandard

from dpp.workspaces.providers import home_tar


def no_heartbeat() -> None:
    """The heartbeat of a lease that is never lost."""


def packed(home: Path) -> bytes:
    return b"".join(home_tar.pack(home, no_heartbeat))


def unpack(archive: bytes, into: Path) -> None:
    """Unpack into a folder, which is created if needed."""
    into.mkdir(exist_ok=True)
    home_tar.unpack(iter([archive]), into, no_heartbeat)


def plain_of(archive: bytes) -> bytes:
    """The uncompressed tar of an archive."""
    return zstandard.ZstdDecompressor(max_window_size=8 << 20).decompressobj().decompress(archive)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def pack_and_unpack(home: Path) -> Path:
    """Pack a home and unpack it beside, and return the restored folder."""
    archive, back = packed(home), home.with_name("back")
    home_tar.verify(iter([archive]), no_heartbeat)
    unpack(archive, back)
    return back
