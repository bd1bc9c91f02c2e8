"""LIFE-9: logs of the local stack are rotated by size, and what is put aside is deleted; events: test_log_events.py."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner

from dpp_cli.errors import StackError
from dpp_cli.local import events, log_files, parts, rotation, rotator, stack
from dpp_cli.local.processes import ProcessIdentity, marked
from dpp_cli.local.rotation import LogRules, tidy
from dpp_cli.local.state import PartRecord, StateStore, running_state
from dpp_cli.main import app

NOW = datetime(2026, 11, 28, 3, 0, tzinfo=UTC)
SEOUL = ZoneInfo("Asia/Seoul")
RULES = LogRules(max_bytes=2**20, kept_days=7, zone=SEOUL)
DAY = timedelta(days=1)
LINE = b"%07d " + b"x" * 90 + b"\n"


class Crash(BaseException):
    """Ends a pass at a chosen step, as a kill would."""


@pytest.fixture(params=["collapse", "punch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of taking a head off, the second as on btrfs and tmpfs."""
    if request.param == "punch":
        really = log_files._fallocate
        monkeypatch.setattr(
            log_files,
            "_fallocate",
            lambda fd, mode, length: mode != log_files._COLLAPSE_RANGE and really(fd, mode, length),
        )
    return str(request.param)


def numbers(*paths: Path) -> list[int]:
    """The numbers of the lines in these logs, in order."""
    lines = b"".join(path.read_bytes() for path in paths if path.exists()).replace(b"\0", b"").splitlines()
    return [int(line.split()[0]) for line in lines if line.strip()]


def written(path: Path, lines: range) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(LINE % number for number in lines))


def old(path: Path) -> Path:
    return path.with_name(f"{path.name}.old")


class TestSize:
    def test_a_log_is_rotated_when_it_is_larger_than_it_may_be_and_no_sooner(self, tmp_path: Path, way: str) -> None:
        log = tmp_path / "postgres.log"
        log.write_bytes(b"x" * (RULES.max_bytes - 1) + b"\n")
        assert tidy(tmp_path, RULES, NOW).rotated == []
        written(log, range(1))
        assert tidy(tmp_path, RULES, NOW).rotated == ["postgres.log"]
        assert old(log).exists()
        assert log_files.bytes_used(log) <= 2 * 64 * 1024
        assert tidy(tmp_path, RULES, NOW).rotated == []

    def test_every_line_is_whole_in_one_of_the_two(self, tmp_path: Path, way: str) -> None:
        log = tmp_path / "functions" / "dpp-dev-run_worker.log"
        written(log, range(20_000))
        assert tidy(tmp_path, RULES, NOW).rotated == ["functions/dpp-dev-run_worker.log"]
        assert numbers(old(log), log) == list(range(20_000))
        assert old(log).read_bytes().endswith(b"\n")
        assert b"\0" not in old(log).read_bytes()

    def test_the_older_one_is_replaced(self, tmp_path: Path, way: str) -> None:
        log = tmp_path / "workspaces" / "containers" / "logs" / "ws-1.log"
        for first in (0, 20_000, 40_000):
            written(log, range(first, first + 20_000))
            tidy(tmp_path, RULES, NOW)
        kept = numbers(old(log), log)
        assert kept == list(range(kept[0], 60_000))
        assert 19_000 < kept[0] < 40_000

    def test_a_writer_that_holds_the_log_open_loses_no_line(self, tmp_path: Path, way: str) -> None:
        log = tmp_path / "valkey.log"
        program = (
            "import os, sys\nfor number in range(60_000):\n    os.write(1, b'%07d ' % number + b'x' * 90 + b'\\n')\n"
        )
        kept, rotations = list[int](), 0
        with log.open("ab") as output:
            writer = subprocess.Popen([sys.executable, "-c", program], stdout=output)
        while True:
            over = writer.poll() is not None
            if tidy(tmp_path, RULES, NOW).rotated:
                kept += numbers(old(log))
                rotations += 1
            if over:
                break
        assert writer.returncode == 0
        kept += numbers(log)
        assert kept == list(range(60_000))
        assert rotations > 2

    def test_a_line_that_is_not_ended_yet_is_cut_and_not_lost(self, tmp_path: Path, way: str) -> None:
        log = tmp_path / "localstack.log"
        log.write_bytes(b"y" * (RULES.max_bytes + 100))
        tidy(tmp_path, RULES, NOW)
        with log.open("ab") as file:
            file.write(b"z\n")
        whole = old(log).read_bytes() + log.read_bytes().lstrip(b"\0")
        assert whole == b"y" * (RULES.max_bytes + 100) + b"z\n"

    def test_neither_a_link_nor_what_is_no_log_is_touched(self, tmp_path: Path) -> None:
        big = tmp_path / "elsewhere"
        big.write_bytes(b"x" * (2 * RULES.max_bytes))
        (tmp_path / "link.log").symlink_to(big)
        assert tidy(tmp_path, RULES, NOW).rotated == []
        assert big.stat().st_size == 2 * RULES.max_bytes

    def test_the_end_is_read_without_the_rest(self, tmp_path: Path) -> None:
        log = tmp_path / "a.log"
        written(log, range(3_000))
        assert [int(line.split()[0]) for line in log_files.last_lines(log, 1_500)] == list(range(1_500, 3_000))
        assert log_files.last_lines(log, 0) == []
        log.write_bytes(b"\0" * 300_000 + b"one\ntwo\n")
        assert log_files.last_lines(log, 20) == ["one", "two"]


STEPS = ("copy_head", "utime", "replace", "drop_head", "blank")


def crash_at(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_args: object, **_more: object) -> None:
        raise Crash

    match step:
        case "copy_head":  # half of it is written

            def half(_fd: int, to: Path, _head: int) -> int:
                to.write_bytes(b"half")
                raise Crash

            monkeypatch.setattr(log_files, "copy_head", half)
        case "utime":
            monkeypatch.setattr(os, "utime", dies)
        case "replace":
            monkeypatch.setattr(Path, "replace", dies)
        case "drop_head":
            monkeypatch.setattr(log_files, "drop_head", dies)
        case _:
            monkeypatch.setattr(os, "pwrite", dies)


class TestCrash:
    @pytest.mark.parametrize("step", STEPS)
    def test_the_next_pass_takes_up_what_a_crash_left(
        self, tmp_path: Path, way: str, step: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = tmp_path / "postgres.log"
        written(log, range(20_000))
        with monkeypatch.context() as patch:
            crash_at(step, patch)
            with pytest.raises(Crash):
                tidy(tmp_path, RULES, NOW)
        written(log, range(20_000, 20_100))
        assert set(numbers_of_whole_lines(old(log), log)) == set(range(20_100))
        tidy(tmp_path, RULES, NOW)
        tidy(tmp_path, RULES, NOW)
        assert set(numbers_of_whole_lines(old(log), log)) == set(range(20_100))
        assert log_files.bytes_used(log) <= RULES.max_bytes
        assert not list(tmp_path.glob("*.new"))

    def test_a_kill_in_a_copy_lets_go_of_the_lock(self, tmp_path: Path) -> None:
        log = tmp_path / "postgres.log"
        written(log, range(20_000))
        program = (
            "import os, signal, sys\nfrom datetime import UTC, datetime\nfrom pathlib import Path\n"
            "from dpp_cli.local import log_files\nfrom dpp_cli.local.rotation import LogRules, tidy\n"
            "log_files.drop_head = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
            "tidy(Path(sys.argv[1]), LogRules.of({'DPP_RETENTION': '{\"log_max_mb\": 1}'}), datetime.now(UTC))\n"
        )
        killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
        assert killed.returncode == -9
        assert numbers(log) == list(range(20_000))
        assert tidy(tmp_path, RULES, NOW).rotated == ["postgres.log"]
        assert numbers(old(log), log) == list(range(20_000))


def numbers_of_whole_lines(*paths: Path) -> Iterator[int]:
    for path in paths:
        for line in path.read_bytes().replace(b"\0", b"").splitlines() if path.exists() else []:
            if len(line) == 98 and line[:7].isdigit():
                yield int(line[:7])


class TestTwoAtOnce:
    def test_one_leaves_it_to_the_other(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        log = tmp_path / "postgres.log"
        written(log, range(20_000))
        inside, go_on = threading.Event(), threading.Event()
        copy = log_files.copy_head

        def slowly(log_fd: int, to: Path, head: int) -> int:
            inside.set()
            assert go_on.wait(10)
            return copy(log_fd, to, head)

        monkeypatch.setattr(log_files, "copy_head", slowly)
        with ThreadPoolExecutor(1) as other:
            first = other.submit(tidy, tmp_path, RULES, NOW)
            assert inside.wait(10)
            second = tidy(tmp_path, RULES, NOW)
            go_on.set()
            assert (first.result().rotated, second.rotated, second.warnings) == (["postgres.log"], [], [])
        assert numbers(old(log), log) == list(range(20_000))


class TestExpiry:
    def test_what_was_put_aside_is_kept_for_its_days(self, tmp_path: Path) -> None:
        written(tmp_path / "postgres.log", range(20_000))
        tidy(tmp_path, RULES, NOW)
        assert tidy(tmp_path, RULES, NOW + 7 * DAY).deleted == []
        assert tidy(tmp_path, RULES, NOW + 7 * DAY + timedelta(seconds=1)).deleted == ["postgres.log.old"]
        assert (tmp_path / "postgres.log").exists()

    def test_a_log_that_is_written_to_is_never_over(self, tmp_path: Path) -> None:
        written(tmp_path / "synth.log", range(1))
        assert tidy(tmp_path, RULES, NOW + 4_000 * DAY).deleted == []


class TestFaults:
    def test_what_can_not_be_done_is_a_warning_and_the_rest_is_done(self, tmp_path: Path) -> None:
        for name in ("postgres", "valkey"):
            written(tmp_path / f"{name}.log", range(20_000))
        (tmp_path / "postgres.log.old").mkdir()
        done = tidy(tmp_path, RULES, NOW)
        assert done.rotated == ["valkey.log"]
        assert done.warnings == ["can't look after the log postgres.log: Is a directory"]
        assert numbers(tmp_path / "postgres.log") == list(range(20_000))

    def test_a_folder_that_can_not_be_written_stops_nothing(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name in (rotation.LOCK_NAME, events.LOCK_NAME):
            (tmp_path / name).mkdir()
        assert tidy(tmp_path, RULES, NOW).warnings == [f"can't look after the logs in {tmp_path}: Is a directory"]
        events.emit(tmp_path, "deployed", now=NOW, zone_of=SEOUL)
        assert "events.log: Is a directory" in capsys.readouterr().err

    def test_a_file_system_that_can_not_says_so_and_keeps_the_log(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log_files, "_fallocate", lambda *_: False)
        written(tmp_path / "postgres.log", range(20_000))
        (warning,) = tidy(tmp_path, RULES, NOW).warnings
        assert "postgres.log: this file system takes no head off" in warning
        assert numbers(tmp_path / "postgres.log") == list(range(20_000))

    def test_the_commands_warn_and_go_on(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DPP_LOCAL_STATE", str(tmp_path))
        monkeypatch.setenv("DPP_RETENTION", '{"logs_days": 0}')
        (tmp_path / "logs.lock").mkdir()
        result = CliRunner().invoke(app, ["local", "down"])
        assert (result.exit_code, result.stdout) == (0, "Nothing was running.\n")
        assert "DPP_RETENTION.logs_days" in result.stderr
        assert f"can't look after the logs in {tmp_path}" in result.stderr
        refused = CliRunner().invoke(app, ["local", "up"])
        assert isinstance(refused.exception, StackError)


def test_sizes_and_ages_are_those_of_the_retention_section() -> None:
    assert LogRules.of({}) == LogRules(100 * 2**20, 7, SEOUL) == LogRules.default()
    said = {"DPP_RETENTION": '{"log_max_mb": 5, "logs_days": 2}', "DPP_TIME_ZONE": "UTC"}
    assert LogRules.of(said) == LogRules(5 * 2**20, 2, ZoneInfo("UTC"))
    with pytest.raises(StackError, match="log_max_mb"):
        LogRules.of({"DPP_RETENTION": '{"log_max_mb": 0}'})


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class TestPart:
    # It outlives the command that starts it, which lets go of it.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_it_rotates_while_the_stack_is_up_and_ends_with_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DPP_RETENTION", '{"log_max_mb": 1}')
        written(tmp_path / "postgres.log", range(20_000))
        store = StateStore(tmp_path)
        assert parts.ensure_rotation(store) == "logs at 1 MB, kept 7 days"
        first = store.state.parts[parts.ROTATION]
        try:
            until(old(tmp_path / "postgres.log").exists)
            assert "rotation" not in store.state.ports
            (line,) = [one for one in stack.status(tmp_path) if one.name == parts.ROTATION]
            assert (line.healthy, line.pid) == (True, first.pid)
            parts.ensure_rotation(store)  # the next `up`, with what it says then
            assert not first.identity.alive()
        finally:
            assert stack.down(tmp_path) == [parts.ROTATION]
        assert not list(marked(tmp_path))
        printed = [json.loads(line)["event"] for line in (tmp_path / "events.log").read_text().splitlines()]
        assert [one for one in printed if one != "log_rotated"] == [
            "part_started",
            "part_ended",
            "part_started",
            "part_ended",
        ]

    def test_where_it_died_the_status_says_so_and_the_stack_is_up(self, tmp_path: Path) -> None:
        store = StateStore(tmp_path)
        store.record(parts.ROTATION, PartRecord.of(ProcessIdentity(1, "of another boot")))
        (line,) = [one for one in stack.status(tmp_path) if one.name == parts.ROTATION]
        store.set(outputs={"ApiId": "abc", "Stage": "dev"})
        assert running_state(tmp_path).outputs
        assert (line.healthy, line.note.partition(":")[0]) == (False, "died (was pid 1)")

    def test_it_tells_of_a_fault_once_and_ends_when_its_folder_is_gone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder = tmp_path / "stack"
        (folder / rotation.LOCK_NAME).mkdir(parents=True)
        passes: list[float] = []

        def passed(seconds: float) -> None:
            passes.append(seconds)
            if len(passes) == 3:
                (folder / rotation.LOCK_NAME).rmdir()
                folder.rmdir()

        monkeypatch.setattr(time, "sleep", passed)
        rotator.watch(folder, RULES)
        assert len(passes) == 3
        assert capsys.readouterr().out.count("can't look after the logs") == 1
