"""The pack process: hard timebox, nothing left behind, fit for the next run (RUN-17, RUN-31, D6, D8)."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from dpp.packs.contract import PackFailure, PackReason, PackRequest, PackResult, PackSuccess, PackType
from dpp.packs.process import PackProcess, ProcessLimits
from tests.packs.misbehaving import SECRET

EXECUTOR = "tests.packs.misbehaving"
TIMEBOX_SEC = 1
OVER_BY_SEC = TIMEBOX_SEC + 45

DOOMED_WORKER = f"""
import os, sys, threading
from dpp.packs.contract import PackRequest
from dpp.packs.process import PackProcess
inputs = {{"act": "note_pid_and_loop_in_c", "pids": sys.argv[1]}}
job = PackRequest(run_id="run", pack_type="url", inputs=inputs, timebox_sec=60, max_cost_usd_micros=0)
PackProcess(os.environ, executor_module="{EXECUTOR}").run(job, cancelled=threading.Event())
"""

SECRETS = {
    "DATABASE_URL": "postgresql://worker:hunter2@db/dpp",
    "REDIS_URL": "redis://cache",
    "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "aws-secret",
    "AWS_SESSION_TOKEN": "aws-token",
    "AWS_REGION": "ap-northeast-2",
    "DPP_DECISION_OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
    "DPP_DECISION_OPENAI_API_KEY": "provider-secret",
}


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackProcess]:
    # Scratch directories of this test alone, so that what is left of them can be seen.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    limits = ProcessLimits(memory_bytes=400 * 1024 * 1024)
    with PackProcess({**os.environ, **SECRETS}, limits=limits, executor_module=EXECUTOR) as process:
        yield process
    assert list(tmp_path.glob("dpp-pack-*")) == []


def request(act: str, pack_type: PackType = PackType.URL, **inputs: JsonValue) -> PackRequest:
    return PackRequest(
        run_id="run",
        pack_type=pack_type,
        inputs={"act": act, **inputs},
        timebox_sec=TIMEBOX_SEC,
        max_cost_usd_micros=250_000,
    )


def run(process: PackProcess, job: PackRequest) -> PackResult:
    return process.run(job, cancelled=threading.Event())


def data_of(result: PackResult) -> dict[str, Any]:
    assert isinstance(result, PackSuccess), result
    return result.data


@pytest.mark.parametrize(
    ("act", "reason", "detail"),
    [
        ("ignore_sigterm", PackReason.PACK_TIMEBOX_EXCEEDED, "not done within 1 s"),
        ("loop_in_c", PackReason.PACK_TIMEBOX_EXCEEDED, "not done within 1 s"),
        ("stop_itself", PackReason.PACK_TIMEBOX_EXCEEDED, "not done within 1 s"),
        ("close_the_pipe", PackReason.PACK_TIMEBOX_EXCEEDED, "not done within 1 s"),
        ("eat_memory", PackReason.PACK_MEMORY_EXCEEDED, "MemoryError"),
        ("write_a_big_file", PackReason.PACK_DISK_EXCEEDED, "EFBIG"),
        ("fill_the_disk", PackReason.PACK_DISK_EXCEEDED, "ENOSPC"),
        ("answer_a_lot", PackReason.PACK_OUTPUT_TOO_LARGE, "bytes, at most 8000000"),
        ("print_secrets", PackReason.PACK_FAILED, "RuntimeError"),
        ("exit_silently", PackReason.PACK_CRASHED, "ended with status 0 without an answer"),
        ("raise_system_exit", PackReason.PACK_FAILED, "SystemExit"),
        ("segfault", PackReason.PACK_CRASHED, "ended by SIGSEGV"),
        ("kill_the_guardian", PackReason.PACK_CRASHED, "was killed"),
        ("answer_garbage", PackReason.PACK_CRASHED, "answered a frame of"),
        ("answer_framed_garbage", PackReason.PACK_CRASHED, "answered more than once"),
        ("answer_half", PackReason.PACK_CRASHED, "ended with status 0 without an answer"),
        ("answer_twice", PackReason.PACK_CRASHED, "answered more than once"),
        ("answer_no_result", PackReason.PACK_CRASHED, "answered no pack result"),
        ("answer_surrogates", PackReason.PACK_FAILED, "PydanticSerializationError"),
    ],
)
def test_a_misbehaving_pack_is_over_in_time_and_the_next_run_succeeds(
    *,
    process: PackProcess,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    act: str,
    reason: PackReason,
    detail: str,
) -> None:
    """RUN-17, RUN-31, D6."""
    result = run(process, request(act, started=str(tmp_path / "started")))
    over_after = time.monotonic() - float((tmp_path / "started").read_text())

    assert isinstance(result, PackFailure), result
    assert result.reason_code is reason
    assert detail in result.detail
    assert SECRET not in result.detail
    assert over_after < OVER_BY_SEC
    assert data_of(run(process, request("echo")))["inputs"] == {"act": "echo"}
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("then", "clean"), [("echo", False), ("ignore_sigterm", True), ("exit_silently", True), ("segfault", False)]
)
def test_a_grandchild_in_another_session_ends_with_its_job(
    process: PackProcess, tmp_path: Path, then: str, clean: bool
) -> None:
    """D6: even when its parent is gone, its environment wiped, and the pack itself crashed."""
    pids = tmp_path / "pids"
    job = request("leave_session", pids=str(pids), then=then, clean=clean)
    run(process, job.model_copy(update={"timebox_sec": 2}))
    assert [pid for pid in map(int, pids.read_text().split()) if alive(pid)] == []


def test_no_two_jobs_share_a_process(process: PackProcess) -> None:
    """D6: what one tenant's run left in memory, the next one never meets."""
    first = data_of(run(process, request("echo")))
    process.prestart()
    assert data_of(run(process, request("echo")))["pid"] != first["pid"]


def test_a_fork_that_holds_the_pipe_open_delays_nothing(process: PackProcess, tmp_path: Path) -> None:
    """D6."""
    pids = tmp_path / "pids"
    started = time.monotonic()
    assert data_of(run(process, request("fork_holding_the_pipe", pids=str(pids)))) == {"left": True}
    assert time.monotonic() - started < OVER_BY_SEC
    assert not alive(int(pids.read_text()))


def test_a_lost_lease_kills_the_child_at_once(process: PackProcess) -> None:
    """RUN-16, D6: no waiting for the timebox, and no grace."""
    process.prestart()
    cancelled = threading.Event()
    threading.Timer(0.1, cancelled.set).start()
    job = request("ignore_sigterm").model_copy(update={"timebox_sec": 60})
    started = time.monotonic()
    result = process.run(job, cancelled=cancelled)
    assert result == PackFailure(reason_code=PackReason.PACK_CANCELLED)
    assert time.monotonic() - started < OVER_BY_SEC
    data_of(run(process, request("echo")))


def test_a_run_cancelled_beforehand_never_reaches_the_pack(process: PackProcess, tmp_path: Path) -> None:
    """RUN-16, D6."""
    cancelled = threading.Event()
    cancelled.set()
    pids = tmp_path / "pids"
    result = process.run(request("leave_session", pids=str(pids), then="echo"), cancelled=cancelled)
    assert result == PackFailure(reason_code=PackReason.PACK_CANCELLED)
    assert not pids.exists()


def test_a_warm_child_that_died_idle_costs_no_run(process: PackProcess) -> None:
    """D6."""
    process.prestart()
    warm = process._warm
    assert warm is not None
    os.kill(warm._process.pid, signal.SIGKILL)
    data_of(run(process, request("echo")))


def test_a_machine_without_room_for_a_process_is_a_failure_and_no_exception(
    process: PackProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D6: the worker must not lose the result in its hands because the next child can't be started."""

    def refuse(*_arguments: object, **_options: object) -> None:
        raise BlockingIOError

    with monkeypatch.context() as machine:
        machine.setattr("dpp.packs.child.subprocess.Popen", refuse)
        process.prestart()
        assert run(process, request("echo")) == PackFailure(
            reason_code=PackReason.PACK_CRASHED, detail="did not start: BlockingIOError"
        )
    data_of(run(process, request("echo")))


def test_prestart_twice_keeps_one_child_and_close_ends_it(process: PackProcess) -> None:
    """D6."""
    process.prestart()
    warm = process._warm
    process.prestart()
    assert process._warm is warm
    assert warm is not None
    process.close()
    process.close()
    assert not alive(warm._process.pid)


def test_an_executor_that_does_not_import_is_a_crash_without_words() -> None:
    """D6, RUN-31."""
    with PackProcess(os.environ, executor_module="tests.packs.there_is_no_such_module") as process:
        result = run(process, request("echo"))
    assert isinstance(result, PackFailure)
    assert result.reason_code is PackReason.PACK_CRASHED
    assert result.detail == "did not start: was killed without an answer"


def test_a_pack_sees_no_secret_of_the_worker(process: PackProcess, tmp_path: Path) -> None:
    """D8: no database, no cache, no credentials; a url pack gets nothing at all."""
    data = data_of(run(process, request("environment")))
    assert data["job"] == {}
    assert SECRETS.keys().isdisjoint(data["process"])
    assert not {"hunter2", "aws-secret", "provider-secret"} & set(data["process"].values())
    assert Path(data["cwd"]).parent == tmp_path


def test_a_decision_gets_its_provider_key_but_no_aws_credentials_without_bedrock(process: PackProcess) -> None:
    """RUN-25, D8."""
    data = data_of(run(process, request("environment", PackType.DECISION)))
    assert data["job"] == {name: SECRETS[name] for name in SECRETS if name.startswith("DPP_DECISION_")}


def test_a_decision_with_bedrock_gets_the_role_and_still_no_database() -> None:
    """RUN-25, D8."""
    environ = {**os.environ, **SECRETS, "DPP_DECISION_BEDROCK_MODEL_ID": "model"}
    with PackProcess(environ, executor_module=EXECUTOR) as process:
        seen = data_of(run(process, request("environment", PackType.DECISION)))["process"]
        unseen = data_of(run(process, request("environment")))["process"]
    assert seen["AWS_SECRET_ACCESS_KEY"] == "aws-secret"
    assert seen.keys().isdisjoint({"DATABASE_URL", "REDIS_URL"})
    assert unseen.keys().isdisjoint(SECRETS)


def test_a_scratch_directory_goes_even_when_the_pack_locked_it(process: PackProcess) -> None:
    """D6, D8; the fixture sees that nothing is left."""
    cwd = data_of(run(process, request("make_scratch_stubborn")))["cwd"]
    assert not Path(cwd).exists()


def test_a_job_of_the_largest_inputs_passes_the_pipe_unchanged(process: PackProcess) -> None:
    """RUN-25: 200,000 characters of context, in bytes the longest there are."""
    text = "\N{SPEAK-NO-EVIL MONKEY}" * 200_000
    assert data_of(run(process, request("echo", context=text)))["inputs"]["context"] == text


def test_when_the_worker_dies_its_pack_dies_too(tmp_path: Path) -> None:
    """D6: even one stuck in C, which no signal handler and no thread of its own would get through to."""
    pids = tmp_path / "pids"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    worker = subprocess.Popen([sys.executable, "-c", DOOMED_WORKER, str(pids)], env=environ)
    try:
        wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"))
    finally:
        worker.kill()
        worker.wait()
    wait_until(lambda: not alive(int(pids.read_text())))


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_until(condition: Any, seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.02)
