"""Anything but an intact archive is refused, and leaves no half home (003 §7, WS-10)."""

import os
import tarfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dpp.workspaces.errors import OperationFailed
from dpp.workspaces.providers import home_tar
from dpp.workspaces.providers.tar_members import Kind, Member, header_of
from tests.workspaces.homes import no_heartbeat, packed, plain_of, unpack

ROOT_MEMBER = Member(Kind.FOLDER, (), 0o755, 0, 0, 10**9)


def _reason_for(archive: bytes) -> str | None:
    """The reason of the terminal refusal; None if the archive is accepted."""
    try:
        home_tar.verify(iter([archive]), no_heartbeat)
    except OperationFailed as failed:
        return failed.reason if failed.is_terminal else "not terminal"
    return None


def _tar_of(*members: Member | tarfile.TarInfo, end: bytes = bytes(1024)) -> bytes:
    blocks = b"".join(
        header_of(member) if isinstance(member, Member) else member.tobuf(tarfile.PAX_FORMAT) for member in members
    )
    return zstandard.ZstdCompressor(write_checksum=True).compress(blocks + end)


def _file(*names: str, kind: Kind = Kind.FILE, target: str = "", is_linked: bool = False) -> Member:
    return Member(kind, names, 0o644, 0, 0, 10**9, target=target, is_linked=is_linked)


def _special(kind: bytes, name: str = "special", size_bytes: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.size = size_bytes
    info.linkname = "target" if kind == tarfile.SYMTYPE else ""
    return info


HOSTILE: dict[str, tuple[Member | tarfile.TarInfo, ...]] = {
    "absolute name": (ROOT_MEMBER, _file("", "etc", "passwd")),
    "path out": (ROOT_MEMBER, _file("..", "outside")),
    "path out from below": (ROOT_MEMBER, _file("a", kind=Kind.FOLDER), _file("a", "..", "..", "outside")),
    "folder out": (ROOT_MEMBER, _file("..", kind=Kind.FOLDER)),
    "dot in a name": (ROOT_MEMBER, _file(".", "a")),
    "empty name": (ROOT_MEMBER, _file("a", kind=Kind.FOLDER), _file("a", "")),
    "zero in a name": (ROOT_MEMBER, _file("é\0b")),
    "zero in a link": (ROOT_MEMBER, _file("a", kind=Kind.SYMLINK, target="é\0b")),
    "name too long": (ROOT_MEMBER, _file("n" * 256)),
    "below a symlink": (ROOT_MEMBER, _file("a", kind=Kind.SYMLINK, target="/tmp"), _file("a", "b")),  # noqa: S108
    "below a file": (ROOT_MEMBER, _file("a"), _file("a", "b")),
    "below nothing": (ROOT_MEMBER, _file("a", "b")),
    "in a folder that has ended": (
        ROOT_MEMBER, _file("a", kind=Kind.FOLDER), _file("b", kind=Kind.FOLDER), _file("a", "late")
    ),
    "file twice": (ROOT_MEMBER, _file("a"), _file("a")),
    "folder over a symlink": (
        ROOT_MEMBER, _file("a", kind=Kind.SYMLINK, target="/"), _file("a", kind=Kind.FOLDER)
    ),
    "folder twice": (ROOT_MEMBER, _file("a", kind=Kind.FOLDER), _file("a", kind=Kind.FOLDER)),
    "root twice": (ROOT_MEMBER, ROOT_MEMBER),
    "root that is a file": (_file(),),
    "no root": (_file("a"),),
    "nothing": (),
    "hard link out": (ROOT_MEMBER, _file("a", kind=Kind.HARD_LINK, target="../outside")),
    "hard link to an absolute name": (ROOT_MEMBER, _file("a", kind=Kind.HARD_LINK, target="/etc/passwd")),
    "hard link to nothing": (ROOT_MEMBER, _file("a", kind=Kind.HARD_LINK, target="b")),
    "hard link to a later file": (
        ROOT_MEMBER, _file("a", kind=Kind.HARD_LINK, target="b"), _file("b", is_linked=True)
    ),
    "hard link to a symlink": (
        ROOT_MEMBER,
        _file("a", kind=Kind.SYMLINK, target="/etc/passwd", is_linked=True),
        _file("b", kind=Kind.HARD_LINK, target="a"),
    ),
    "hard link to a folder": (
        ROOT_MEMBER,
        _file("a", kind=Kind.FOLDER, is_linked=True),
        _file("b", kind=Kind.HARD_LINK, target="a"),
    ),
    "link to nowhere": (ROOT_MEMBER, _file("a", kind=Kind.SYMLINK)),
    "character device": (ROOT_MEMBER, _special(tarfile.CHRTYPE)),
    "block device": (ROOT_MEMBER, _special(tarfile.BLKTYPE)),
    "pipe": (ROOT_MEMBER, _special(tarfile.FIFOTYPE)),
    "folder with content": (ROOT_MEMBER, _special(tarfile.DIRTYPE, size_bytes=512)),
    "symlink with content": (ROOT_MEMBER, _special(tarfile.SYMTYPE, size_bytes=1)),
    "GNU sparse file": (ROOT_MEMBER, _special(tarfile.GNUTYPE_SPARSE)),
    "global header": (_special(tarfile.XGLTYPE), ROOT_MEMBER),
}  # fmt: skip


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE.keys())
def test_content_that_no_home_has_is_refused(tmp_path: Path, members: tuple[Member | tarfile.TarInfo, ...]) -> None:
    archive = _tar_of(*members)
    before = set(tmp_path.parent.iterdir())
    assert _reason_for(archive) == "ArchiveRefused"
    with pytest.raises(OperationFailed, match="ArchiveRefused") as failed:
        unpack(archive, tmp_path / "x")
    assert failed.value.is_terminal
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert set(tmp_path.parent.iterdir()) == before


@pytest.mark.parametrize("key", ["GNU.sparse.name", "SCHILY.xattr.user.x", "charset"])
def test_unknown_headers_are_refused(key: str) -> None:
    info = tarfile.TarInfo("a")
    info.pax_headers = {key: "x"}
    with pytest.raises(OperationFailed, match="ArchiveRefused"):
        home_tar.verify(iter([_tar_of(ROOT_MEMBER, info)]), no_heartbeat)


@pytest.mark.parametrize(
    "pax", [{"mtime": "x"}, {"mtime": "1e5"}, {"size": "-1"}, {"uid": "4294967295"}, {"mtime": "9" * 19}]
)
def test_invalid_numbers_are_damage(pax: dict[str, str]) -> None:
    info = tarfile.TarInfo("a")
    info.pax_headers = pax
    with pytest.raises(OperationFailed, match="ArchiveCorrupted"):
        home_tar.verify(iter([_tar_of(ROOT_MEMBER, info)]), no_heartbeat)


@pytest.mark.parametrize(
    "end", [b"", bytes(512), bytes(1023), bytes(512) + b"x" * 512, bytes(1024) + b"x", bytes(4096) + b"x"]
)
def test_archive_without_its_end_or_with_more_is_damaged(end: bytes) -> None:
    with pytest.raises(OperationFailed, match="ArchiveCorrupted"):
        home_tar.verify(iter([_tar_of(ROOT_MEMBER, _file("a"), end=end)]), no_heartbeat)


def test_content_between_two_members_is_damage() -> None:
    file = Member(Kind.FILE, ("a",), 0o644, 0, 0, 10**9, size_bytes=1)
    for content, reason in ((b"x" + bytes(511), None), (b"x" + bytes(510) + b"y", "ArchiveCorrupted")):
        plain = header_of(ROOT_MEMBER) + header_of(file) + content + bytes(1024)
        archive = zstandard.ZstdCompressor(write_checksum=True).compress(plain)
        assert _reason_for(archive) == reason


def test_frame_without_checksum_is_refused(home: Path) -> None:
    plain = plain_of(packed(home))
    bare = zstandard.ZstdCompressor(write_checksum=False).compress(plain)
    with pytest.raises(OperationFailed, match="ArchiveCorrupted"):
        home_tar.verify(iter([bare]), no_heartbeat)


@pytest.mark.parametrize("more", [b"x", bytes(1), bytes(2000), zstandard.ZstdCompressor().compress(b"")])
@pytest.mark.parametrize("apart", [True, False])
def test_content_after_the_frame_is_refused(home: Path, more: bytes, apart: bool) -> None:
    archive = packed(home)
    with pytest.raises(OperationFailed, match="ArchiveCorrupted"):
        home_tar.verify(iter([archive, more] if apart else [archive + more]), no_heartbeat)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The archive of a small home with every kind of member."""
    home = tmp_path_factory.mktemp("small") / "home"
    (home / "folder").mkdir(parents=True)
    (home / "folder" / "file").write_bytes(os.urandom(600) + bytes(9000))
    (home / "z").hardlink_to(home / "folder" / "file")
    (home / "link").symlink_to("folder")
    return packed(home)


def test_archive_truncated_anywhere_is_refused(small: bytes, tmp_path: Path) -> None:
    for length in range(len(small)):
        with pytest.raises(OperationFailed, match="ArchiveCorrupted"):
            home_tar.verify(iter([small[:length]]), no_heartbeat)
    for length in range(0, len(small), 7):
        with pytest.raises(OperationFailed, match="ArchiveCorrupted"):
            unpack(small[:length], tmp_path / str(length))


def test_archive_with_any_flipped_bit_is_refused_or_has_the_same_content(small: bytes) -> None:
    """Some bits of zstd have no meaning (RFC 8878 §3.1.1.1); only the checksum of the object covers them."""
    plain = plain_of(small)
    meaningless = 0
    for at in range(len(small)):
        for bit in range(8):
            flipped = bytearray(small)
            flipped[at] ^= 1 << bit
            reason = _reason_for(bytes(flipped))
            if reason is None:
                assert plain_of(bytes(flipped)) == plain
                meaningless += 1
            else:
                assert reason == "ArchiveCorrupted"
    assert meaningless < len(small) * 8 / 100


@given(data=st.binary(max_size=3000))
@settings(max_examples=200, deadline=None)
def test_any_bytes_raise_operation_failed(data: bytes) -> None:
    padded = data + bytes(-len(data) % 512)
    for archive in (data, zstandard.ZstdCompressor(write_checksum=True).compress(padded + bytes(1024))):
        with pytest.raises(OperationFailed):
            home_tar.verify(iter([archive]), no_heartbeat)


def test_damaged_headers_are_refused_or_harmless(small: bytes) -> None:
    plain = plain_of(small)
    for at in range(0, 3072):
        damaged = plain[:at] + bytes([plain[at] ^ 0xFF]) + plain[at + 1 :]
        archive = zstandard.ZstdCompressor(level=1, write_checksum=True).compress(damaged)
        assert _reason_for(archive) in ("ArchiveCorrupted", "ArchiveRefused", None)
