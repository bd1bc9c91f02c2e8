"""Volumes as folders: a crash at any point leaves no half volume (003 §7, WS-9)."""

import errno
import fcntl
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from dpp.workspaces.errors import OperationFailed, ProviderUnavailable
from dpp.workspaces.ports import Volume
from dpp.workspaces.providers.directory_volumes import DirectoryVolumes
from dpp.workspaces.providers.disk import failing_as, remove

WS = UUID("0199e1c0-ABCD-7000-8000-00000000000A")
NAME = "ws-0199e1c0-abcd-7000-8000-00000000000a-home"


class _Killed(BaseException):
    """The process dies."""


@pytest.fixture
def users() -> set[UUID]:
    """The workspaces whose containers run."""
    return set()


@pytest.fixture
def volumes(tmp_path: Path, users: set[UUID]) -> DirectoryVolumes:
    opened = DirectoryVolumes(tmp_path, users.__contains__)
    opened.set_up()
    return opened


def _installed(volumes: DirectoryVolumes, generation: str = "g1") -> Volume:
    prepared = volumes.prepare(WS, generation)
    (prepared / "file").write_text(generation)
    return volumes.install(WS, generation, "a1", prepared)


def _leftovers(root: Path) -> set[str]:
    """Paths below the root, without locks and the existing volume."""
    paths = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_symlink()}
    return {path for path in paths if not path.startswith("locks")} - {"trash", "generations"}


def test_volume_is_a_symlink_named_after_the_workspace(volumes: DirectoryVolumes, tmp_path: Path) -> None:
    volume = _installed(volumes)
    link = tmp_path / NAME
    assert link.is_symlink()
    assert not link.readlink().is_absolute()
    assert link.resolve() == volume.home.parent
    marker = json.loads((link / "marker.json").read_text())
    assert marker == {"restore_marker": "a1", "generation": "g1"}


def test_unmounted_root_is_an_outage(tmp_path: Path) -> None:
    volumes = DirectoryVolumes(tmp_path / "mount", lambda _: False)
    (tmp_path / "mount").mkdir()
    for call in (
        lambda: volumes.observe([WS]),
        lambda: volumes.find(WS),
        lambda: volumes.prepare(WS, "g1"),
        lambda: volumes.delete(WS, None),
    ):
        with pytest.raises(ProviderUnavailable):
            call()
    assert list((tmp_path / "mount").iterdir()) == []


@pytest.mark.parametrize("generation", ["", "../g", "a/b", "a.b", "x" * 101, "é"])
def test_invalid_generation_is_refused(volumes: DirectoryVolumes, generation: str) -> None:
    with pytest.raises(ValueError, match="generation"):
        volumes.prepare(WS, generation)


def test_folder_that_was_not_prepared_is_not_installed(volumes: DirectoryVolumes, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "home"
    elsewhere.mkdir(parents=True)
    others = volumes.prepare(uuid4(), "g1")
    for prepared in (elsewhere, others, volumes.prepare(WS, "g2")):
        with pytest.raises(ValueError, match="prepared"):
            volumes.install(WS, "g1", "a1", prepared)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda root: (root / NAME).write_text("a file"),
        lambda root: (root / NAME).mkdir(),
        lambda root: (root / NAME).symlink_to("/etc"),
        lambda root: (root / NAME).symlink_to("generations/nowhere/at.all"),
        lambda root: (root / NAME).symlink_to(f"generations/{WS}/g1.gone"),
    ],
    ids=["file", "folder", "link out", "link to another's", "link to nothing"],
)
def test_foreign_volume_is_observed_but_unproven(
    volumes: DirectoryVolumes, tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    spoil(tmp_path)
    assert volumes.observe([WS])[WS].ready
    with pytest.raises(OperationFailed, match="VolumeUnproven"):
        volumes.find(WS)
    with pytest.raises(OperationFailed, match="VolumeUnproven"):
        _installed(volumes)
    volumes.delete(WS, "g1")
    assert os.path.lexists(tmp_path / NAME)
    volumes.delete(WS, None)
    assert not os.path.lexists(tmp_path / NAME)
    assert _leftovers(tmp_path) == set()
    assert Path("/etc/passwd").exists()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "marker.json").unlink(),
        lambda folder: (folder / "marker.json").write_text("{}"),
        lambda folder: (folder / "marker.json").write_text('{"restore'),
        lambda folder: (folder / "home").rename(folder / "moved"),
        lambda folder: ((folder / "home").rename(folder / "moved"), (folder / "home").symlink_to("moved")),
    ],
    ids=["no marker", "empty marker", "broken marker", "no home", "home elsewhere"],
)
def test_incomplete_volume_is_unproven(volumes: DirectoryVolumes, spoil: Callable[[Path], object]) -> None:
    spoil(_installed(volumes).home.parent)
    with pytest.raises(OperationFailed, match="VolumeUnproven") as failed:
        volumes.find(WS)
    assert failed.value.is_terminal


def test_delete_and_prepare_leave_nothing_behind(volumes: DirectoryVolumes, tmp_path: Path) -> None:
    volumes.prepare(WS, "g0")
    volumes.prepare(WS, "g1")
    volume = _installed(volumes, "g2")
    (volume.home / "deep" / "er").mkdir(parents=True)
    (volume.home / "deep").chmod(0o000)
    volumes.delete(WS, "g2")
    assert _leftovers(tmp_path) == set()


def test_late_delete_keeps_the_folder_being_prepared(volumes: DirectoryVolumes) -> None:
    _installed(volumes, "g1")
    volumes.delete(WS, "g1")
    prepared = volumes.prepare(WS, "g2")
    (prepared / "file").write_text("g2")
    volumes.delete(WS, "g1")
    assert (volumes.install(WS, "g2", "a2", prepared).home / "file").read_text() == "g2"


def test_late_prepare_keeps_the_existing_volume(volumes: DirectoryVolumes) -> None:
    volume = _installed(volumes, "g2")
    volumes.prepare(WS, "g1")
    assert volumes.find(WS) == volume
    assert (volume.home / "file").read_text() == "g2"


def test_container_started_during_unlinking_keeps_the_volume(tmp_path: Path, volumes: DirectoryVolumes) -> None:
    """003 §8: delete checks for a container again, once a start can no longer find the volume."""
    volume = _installed(volumes)
    linked: list[bool] = []

    def starting(_: UUID) -> bool:
        linked.append(os.path.lexists(tmp_path / NAME))
        return not linked[-1]

    with pytest.raises(OperationFailed, match="VolumeInUse"):
        DirectoryVolumes(tmp_path, starting).delete(WS, "g1")
    assert linked == [True, False]
    assert volumes.find(WS) == volume
    assert (volume.home / "file").read_text() == "g1"


def test_unknown_use_deletes_nothing(tmp_path: Path, volumes: DirectoryVolumes) -> None:
    volume = _installed(volumes)
    answers = iter([False])

    def unknown(_: UUID) -> bool:
        for answer in answers:
            return answer
        raise ProviderUnavailable

    with pytest.raises(ProviderUnavailable):
        DirectoryVolumes(tmp_path, unknown).delete(WS, "g1")
    assert volumes.find(WS) == volume


def test_volume_changes_only_under_its_lock(
    volumes: DirectoryVolumes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[str] = []

    def check(change: str) -> None:
        with (tmp_path / "locks" / str(WS)).open("rb") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held.append(change)

    real = Path.rename

    def rename(path: Path, target: Path) -> Path:
        check("rename")
        return real(path, target)

    def in_use(_: UUID) -> bool:
        check("in use")
        return False

    monkeypatch.setattr(Path, "rename", rename)
    _installed(volumes)
    DirectoryVolumes(tmp_path, in_use).delete(WS, "g1")
    assert held == ["rename", "in use", "rename", "in use", "rename", "rename"]


class _Deadline:
    """Ends the process at the nth changing call to the file system."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = -1
        for name in ("rename", "mkdir", "unlink", "rmdir", "symlink", "replace", "fsync"):
            monkeypatch.setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, function: Callable[..., object]) -> Callable[..., object]:
        def counted(*args: object, **kwargs: object) -> object:
            if self.left == 0:
                raise _Killed
            self.left -= 1
            return function(*args, **kwargs)

        return counted


def test_install_that_dies_anywhere_leaves_no_volume_or_a_complete_one(
    volumes: DirectoryVolumes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadline, deaths = _Deadline(monkeypatch), 0
    for step in range(60):
        deadline.left = step
        try:
            volume = _installed(volumes)
        except _Killed:
            deadline.left, deaths = -1, deaths + 1
            found = volumes.find(WS)
            assert found is None or (found.home / "file").read_text() == "g1"
            assert _installed(volumes) == volumes.find(WS)
        else:
            deadline.left = -1
            assert volumes.find(WS) == volume
        volumes.delete(WS, "g1")
        assert _leftovers(tmp_path) == set()
    assert 5 < deaths < 60


def test_delete_that_dies_anywhere_leaves_a_complete_volume_or_none(
    volumes: DirectoryVolumes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadline, deaths = _Deadline(monkeypatch), 0
    for step in range(40):
        volume = _installed(volumes)
        deadline.left = step
        try:
            volumes.delete(WS, "g1")
        except _Killed:
            deadline.left, deaths = -1, deaths + 1
            assert volumes.find(WS) in (None, volume)
            if volumes.find(WS):
                assert (volume.home / "file").read_text() == "g1"
        deadline.left = -1
        volumes.delete(WS, "g1")
        assert volumes.find(WS) is None
        assert _leftovers(tmp_path) == set()
    assert 3 < deaths < 40


def test_one_of_many_concurrent_installs_wins(volumes: DirectoryVolumes, tmp_path: Path) -> None:
    barrier, results = threading.Barrier(6), list[Volume | str]()

    def contend(number: int) -> None:
        own = DirectoryVolumes(tmp_path, lambda _: False)
        barrier.wait()
        try:
            prepared = own.prepare(WS, f"g{number % 2}")
            (prepared / "file").write_text("whole")
            results.append(own.install(WS, f"g{number % 2}", "a1", prepared))
        except FileNotFoundError:  # another prepare removed its folder
            results.append("PreparedGone")
        except OperationFailed as failed:
            results.append(failed.reason)

    threads = [threading.Thread(target=contend, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    existing = volumes.find(WS)
    won = {result for result in results if isinstance(result, Volume)}
    assert won == {existing}
    assert {result for result in results if isinstance(result, str)} <= {"PreparedGone", "VolumeExists"}
    assert existing is not None
    assert (existing.home / "file").read_text() == "whole"


def test_find_never_reports_unproven_while_volumes_come_and_go(volumes: DirectoryVolumes, tmp_path: Path) -> None:
    done, failures = threading.Event(), list[BaseException]()

    def find_repeatedly() -> None:
        own = DirectoryVolumes(tmp_path, lambda _: False)
        try:
            while not done.is_set():
                own.find(WS)
        except OperationFailed as failed:
            failures.append(failed)

    finder = threading.Thread(target=find_repeatedly)
    finder.start()
    for _ in range(100):
        _installed(volumes)
        volumes.delete(WS, "g1")
    done.set()
    finder.join()
    assert failures == []


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_unresponsive_file_system_is_an_outage(code: int) -> None:
    with pytest.raises(ProviderUnavailable), failing_as("VolumeUnwritable"):
        raise OSError(code, "secret.txt", "secret.txt")


def test_full_disk_fails_the_operation_without_naming_a_file() -> None:
    with pytest.raises(OperationFailed, match="ENOSPC") as failed, failing_as("VolumeUnwritable"):
        raise OSError(errno.ENOSPC, "secret.txt", "secret.txt")
    assert "secret" not in str(failed.value)
    assert not failed.value.is_terminal


def test_temporarily_unreadable_marker_is_an_outage(volumes: DirectoryVolumes, monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(volumes)

    def stale(_: Path) -> bytes:
        raise OSError(errno.ESTALE, "stale")

    monkeypatch.setattr(Path, "read_bytes", stale)
    with pytest.raises(ProviderUnavailable):
        volumes.find(WS)


def test_failing_stat_is_an_outage(volumes: DirectoryVolumes, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Path) -> os.stat_result:
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(Path, "lstat", refused)
    with pytest.raises(ProviderUnavailable):
        volumes.observe([WS])


def test_remove_follows_no_link_and_works_at_any_depth(tmp_path: Path) -> None:
    kept, removed = tmp_path / "kept", tmp_path / "removed"
    kept.mkdir()
    (kept / "file").touch()
    removed.mkdir()
    (removed / "link").symlink_to(kept)
    (removed / "up").symlink_to("..")
    folder_fd = os.open(removed, os.O_RDONLY)
    for _ in range(60):
        os.mkdir("d" * 200, dir_fd=folder_fd)
        below_fd = os.open("d" * 200, os.O_RDONLY, dir_fd=folder_fd)
        os.close(folder_fd)
        folder_fd = below_fd
    os.close(folder_fd)
    root_fd = os.open(tmp_path, os.O_RDONLY)
    remove(root_fd, "removed")
    remove(root_fd, "removed")
    os.close(root_fd)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (kept / "file").exists()
