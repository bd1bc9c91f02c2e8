"""Packing a home and unpacking it again restores it (003 §7, WS-10)."""

import io
import os
import socket
import stat
import tarfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpp.workspaces.errors import LeaseLost, OperationFailed
from dpp.workspaces.providers import home_tar
from tests.workspaces.homes import names_in, no_heartbeat, pack_and_unpack, packed, plain_of, unpack

IS_ROOT = os.geteuid() == 0


# Kept properties.


def test_empty_home_is_restored_empty(home: Path) -> None:
    back = pack_and_unpack(home)
    assert list(back.iterdir()) == []


def test_contents_are_restored_byte_for_byte(home: Path) -> None:
    contents = {f"f{size}": os.urandom(size) for size in (0, 1, 511, 512, 513, 4096, 262143, 262144, 262145, 3_000_001)}
    for name, content in contents.items():
        (home / name).write_bytes(content)
    back = pack_and_unpack(home)
    assert {path.name: path.read_bytes() for path in back.iterdir()} == contents


def test_empty_files_and_folders_are_kept(home: Path) -> None:
    (home / "file").touch()
    (home / "folder" / "below").mkdir(parents=True)
    back = pack_and_unpack(home)
    assert (back / "file").stat().st_size == 0
    assert (back / "folder" / "below").is_dir()


@pytest.mark.parametrize("mode", [0o000, 0o400, 0o644, 0o755, 0o777, 0o4755, 0o2711, 0o1777, 0o6555])
def test_modes_of_files_and_folders_are_kept(home: Path, mode: int) -> None:
    if not IS_ROOT and not mode & 0o400:
        pytest.skip("only root can read a file without permissions")
    (home / "file").touch()
    (home / "folder").mkdir()
    (home / "folder" / "inside").touch()
    (home / "file").chmod(mode)
    (home / "folder").chmod(mode | 0o500 * (not IS_ROOT))
    back = pack_and_unpack(home)
    assert stat.S_IMODE((back / "file").stat().st_mode) == mode
    assert (back / "folder").stat().st_mode == (home / "folder").stat().st_mode
    (home / "folder").chmod(0o700)
    (back / "folder").chmod(0o700)


def test_mode_and_time_of_the_home_folder_are_kept(home: Path) -> None:
    (home / "file").touch()
    home.chmod(0o710)
    os.utime(home, ns=(1, 1_234_567_890_123_456_789))
    back = pack_and_unpack(home)
    assert stat.S_IMODE(back.stat().st_mode) == 0o710
    assert back.stat().st_mtime_ns == 1_234_567_890_123_456_789


@pytest.mark.parametrize(
    "mtime_ns", [0, 1, 999_999_999, 1_700_000_000_123_456_789, 4_102_444_800_000_000_001, -1_500_000_001]
)
def test_times_are_kept_to_the_nanosecond(home: Path, mtime_ns: int) -> None:
    (home / "folder").mkdir()
    (home / "folder" / "file").write_bytes(b"x")
    (home / "folder" / "link").symlink_to("file")
    for name in ("folder/file", "folder/link", "folder"):
        os.utime(home / name, ns=(mtime_ns, mtime_ns), follow_symlinks=False)
    back = pack_and_unpack(home)
    for name in ("folder/file", "folder/link", "folder"):
        assert (back / name).lstat().st_mtime_ns == (home / name).lstat().st_mtime_ns == mtime_ns


@pytest.mark.skipif(not IS_ROOT, reason="only root can change owners")
def test_numeric_owners_are_kept(home: Path) -> None:
    (home / "file").touch()
    (home / "file").chmod(0o4755)
    (home / "link").symlink_to("file")
    owners = {"file": (1000, 1001), "link": (4_000_000_000, 7)}
    for name, (uid, gid) in owners.items():
        os.chown(home / name, uid, gid, follow_symlinks=False)
    (home / "file").chmod(0o4755)
    back = pack_and_unpack(home)
    for name, owner in owners.items():
        found = (back / name).lstat()
        assert (found.st_uid, found.st_gid) == owner
    assert stat.S_IMODE((back / "file").stat().st_mode) == 0o4755


def test_owners_are_not_restored_without_root(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").touch()
    archive = packed(home)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "fchown", lambda *_: pytest.fail("an owner was set"))
    unpack(archive, home.with_name("back"))


@pytest.mark.parametrize("length", [99, 100, 101, 255])
def test_long_names_are_kept(home: Path, length: int) -> None:
    (home / ("n" * length)).write_bytes(b"x")
    (home / "link").symlink_to("t" * length)
    back = pack_and_unpack(home)
    assert names_in(back) == names_in(home)
    assert str((back / "link").readlink()) == "t" * length


def test_home_may_be_deeper_than_the_path_limit(home: Path) -> None:
    depth, name = 40, "d" * 200
    folder_fd = os.open(home, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=folder_fd)
        below = os.open(name, os.O_RDONLY, dir_fd=folder_fd)
        os.close(folder_fd)
        folder_fd = below
    os.close(os.open("deepest", os.O_CREAT | os.O_WRONLY, dir_fd=folder_fd))
    os.close(folder_fd)
    back = pack_and_unpack(home)
    folder_fd = os.open(back, os.O_RDONLY)
    for _ in range(depth):
        below = os.open(name, os.O_RDONLY, dir_fd=folder_fd)
        os.close(folder_fd)
        folder_fd = below
    assert os.listdir(folder_fd) == ["deepest"]  # noqa: PTH208 - a descriptor
    os.close(folder_fd)


def test_names_in_any_language_and_of_any_bytes_are_kept(home: Path) -> None:
    names = [
        "집/일".replace("/", "-").encode(), b"a\nb", b"=", b" lead", b"trail ", b"\xff\xfe", b"\xed\xa0\x80", b"\\x"
    ]  # fmt: skip
    for name in names:
        (home / os.fsdecode(name)).write_bytes(name)
        (home / os.fsdecode(b"l" + name)).symlink_to(os.fsdecode(name))
    back = pack_and_unpack(home)
    assert names_in(back) == sorted(os.fsdecode(name) for name in [*names, *(b"l" + name for name in names)])
    for name in names:
        assert (back / os.fsdecode(b"l" + name)).read_bytes() == name


def test_hard_links_within_the_home_are_kept(home: Path) -> None:
    (home / "a" / "deep").mkdir(parents=True)
    (home / "a" / "deep" / "first").write_bytes(b"content")
    (home / "b").hardlink_to(home / "a" / "deep" / "first")
    (home / "c").hardlink_to(home / "b")
    back = pack_and_unpack(home)
    inodes = {(back / name).stat().st_ino for name in ("a/deep/first", "b", "c")}
    assert len(inodes) == 1
    assert (back / "c").read_bytes() == b"content"
    assert (back / "c").stat().st_nlink == 3


def test_file_with_a_hard_link_outside_is_restored_as_a_file(home: Path) -> None:
    (home / "file").write_bytes(b"x")
    (home.with_name("outside")).hardlink_to(home / "file")
    back = pack_and_unpack(home)
    assert (back / "file").read_bytes() == b"x"
    assert (back / "file").stat().st_nlink == 1


def test_symlinks_are_kept_and_never_followed(home: Path) -> None:
    outside = home.with_name("outside")
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    targets = {"up": "../outside", "absolute": str(outside), "nowhere": "no/such", "self": "self", "slash": "a/"}
    for name, target in targets.items():
        os.symlink(target, home / name)  # noqa: PTH211 - a Path has no slash at its end
    back = pack_and_unpack(home)
    assert {name: os.readlink(back / name) for name in names_in(back)} == targets  # noqa: PTH115
    assert b"secret" not in plain_of(packed(home))


def test_sockets_and_pipes_are_not_archived(home: Path) -> None:
    os.mkfifo(home / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        folder_fd = os.open(home, os.O_RDONLY)
        listening.bind(f"/proc/self/fd/{folder_fd}/socket")
        os.close(folder_fd)
        (home / "file").touch()
        assert names_in(pack_and_unpack(home)) == ["file"]


def test_holes_stay_holes(home: Path) -> None:
    with (home / "sparse").open("wb") as file:
        file.seek(20 << 20)
        file.write(b"middle")
        file.truncate(64 << 20)
    back = pack_and_unpack(home)
    assert (back / "sparse").stat().st_size == 64 << 20
    assert (back / "sparse").stat().st_blocks * 512 < 1 << 20
    with (back / "sparse").open("rb") as file:
        file.seek(20 << 20)
        assert file.read(6) == b"middle"


@given(pages=st.lists(st.sampled_from([b"\0" * 4096, b"\0" * 4095 + b"x", b"y" * 4096]), max_size=80), tail=st.binary())
@settings(max_examples=30, deadline=None)
def test_any_mixture_of_full_and_empty_pages_is_restored(
    tmp_path_factory: pytest.TempPathFactory, pages: list[bytes], tail: bytes
) -> None:
    home = tmp_path_factory.mktemp("mixture") / "home"
    home.mkdir()
    content = b"".join(pages) + tail
    (home / "file").write_bytes(content)
    assert (pack_and_unpack(home) / "file").read_bytes() == content


def test_same_home_gives_the_same_bytes(home: Path) -> None:
    for name in "cab":
        (home / name).write_bytes(name.encode())
    assert packed(home) == packed(home)


def test_archive_is_a_plain_tar(home: Path) -> None:
    """So that an operator can extract files with standard tools."""
    (home / "folder").mkdir()
    (home / "folder" / "파일").write_bytes(b"content")
    plain = plain_of(packed(home))
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        assert archive.getnames() == [".", "folder", "folder/파일"]
        [file] = [archive.extractfile(member) for member in archive if member.isfile()]
        assert file is not None
        assert file.read() == b"content"


# Failures.


@pytest.mark.parametrize(
    "change",
    [
        lambda home: (home / "a" / "2").unlink(),
        lambda home: (home / "a" / "new").touch(),
        lambda home: (home / "b").rename(home / "moved"),
        lambda home: (home / "a" / "1").write_bytes(b"shorter"),
        lambda home: os.truncate(home / "a" / "1", 6 << 20),
    ],
    ids=["vanished", "appeared", "renamed", "shorter", "longer"],
)
def test_change_during_packing_fails(home: Path, change: Callable[[Path], object]) -> None:
    (home / "a").mkdir()
    (home / "a" / "1").write_bytes(os.urandom(5 << 20))
    (home / "a" / "2").write_bytes(b"2")
    (home / "b").touch()
    chunks = home_tar.pack(home, no_heartbeat)
    next(chunks)
    change(home)
    with pytest.raises(OperationFailed, match="HomeChanged") as failed:
        list(chunks)
    assert not failed.value.is_terminal


def test_missing_home_is_not_packed_as_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed, match="HomeChanged"):
        packed(tmp_path / "none")


def test_packing_and_unpacking_stop_when_the_lease_is_lost(home: Path) -> None:
    (home / "file").write_bytes(os.urandom(3 << 20))
    archive = packed(home)

    def lost() -> None:
        raise LeaseLost

    with pytest.raises(LeaseLost):
        list(home_tar.pack(home, lost))
    (home.with_name("back")).mkdir()
    with pytest.raises(LeaseLost):
        home_tar.unpack(iter([archive]), home.with_name("back"), lost)


def test_unpacking_into_a_folder_with_files_is_refused(home: Path) -> None:
    archive = packed(home)
    (home / "file").write_bytes(b"mine")
    with pytest.raises(OperationFailed, match="HomeUnwritable"):
        home_tar.unpack(iter([archive]), home, no_heartbeat)
    assert (home / "file").read_bytes() == b"mine"


# Memory.


def test_memory_does_not_grow_with_the_home(home: Path) -> None:
    with (home / "sparse").open("wb") as file:
        file.truncate(100 << 20)
    (home / "full").write_bytes(os.urandom(12 << 20))
    into, sizes = home.with_name("back"), [0]
    into.mkdir()

    def counted(chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            sizes[0] = max(sizes[0], len(chunk))
            yield chunk

    tracemalloc.start()
    try:
        home_tar.unpack(counted(home_tar.pack(home, no_heartbeat)), into, no_heartbeat)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sizes[0] < 4 << 20
    assert peak < 80 << 20
    assert (into / "sparse").stat().st_blocks * 512 < 1 << 20
