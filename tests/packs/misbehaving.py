"""Packs that do what no pack should: an executor module for the tests of the pack process, never shipped."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpp.packs import frames
from dpp.packs.contract import PackRequest, PackResult, PackSuccess

SECRET = "the-client-said-this"


def warm() -> None:
    """Nothing to import."""


def execute(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    """Do what the inputs' `act` says; note in the file `started` when that was."""
    if "started" in request.inputs:
        Path(str(request.inputs["started"])).write_text(str(time.monotonic()))
    return ACTS[str(request.inputs["act"])](request, environ)


def _success(**data: Any) -> PackSuccess:
    return PackSuccess(data=data, reliability_score=1.0, cost_usd_micros=50_000)


def _answer_fd() -> int:
    arguments: dict[str, int] = json.loads(sys.argv[1])
    return arguments["answer_fd"]


def _echo(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    return _success(inputs=request.inputs, pid=os.getpid())


def _environment(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    return _success(process=dict(os.environ), job=dict(environ), cwd=str(Path.cwd()))


def _ignore_sigterm(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(60)


def _loop_in_c(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    return _success(digits=(7 ** (3**18)) % 10)


def _stop_itself(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    os.kill(os.getpid(), signal.SIGSTOP)
    return _success()


def _close_the_pipe(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    os.close(_answer_fd())
    time.sleep(60)
    return _success()


def _kill_the_guardian(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
    return _success()


def _note_pid_and_loop_in_c(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    Path(str(request.inputs["pids"])).write_text(f"{os.getpid()}\n")
    return _loop_in_c(request, environ)


def _answer_surrogates(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    return PackSuccess.model_construct(data={"text": "\ud800"}, reliability_score=1.0, cost_usd_micros=0)


def _write_pid(request: PackRequest) -> str:
    """Shell that notes its own process id where the test will look, and stays."""
    return f"echo $$ >> {request.inputs['pids']}; exec sleep 300"


def _leave_session(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    """A grandchild in another session, its parent gone; with `then`: what the pack does afterwards."""
    script = _write_pid(request)
    clean = {"PATH": os.environ["PATH"]} if request.inputs.get("clean") else None
    subprocess.run(["sh", "-c", f"setsid sh -c '{script}' & sleep 0.05"], check=True, env=clean, start_new_session=True)
    deadline = time.monotonic() + 1.8
    while not Path(str(request.inputs["pids"])).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return ACTS[str(request.inputs["then"])](request, environ)


def _fork_holding_the_pipe(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    pid = os.fork()
    if pid == 0:
        os.setsid()
        time.sleep(300)
    Path(str(request.inputs["pids"])).write_text(f"{pid}\n")
    return _success(left=True)


def _eat_memory(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    hoard = []
    while True:
        hoard.append(bytes(16 * 1024 * 1024))  # bytes come untouched, so the limit is met in no time


def _write_a_big_file(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    with Path("big").open("wb") as file:
        while True:
            file.write(bytes(1024 * 1024))


def _fill_the_disk(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    with Path("/dev/full").open("wb") as full:
        full.write(b"more than there is room for")
    return _success()


def _answer_a_lot(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    return _success(text="a" * 8_000_001)


def _print_secrets(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    print(SECRET)  # noqa: T201
    print(SECRET, file=sys.stderr)  # noqa: T201
    os.write(1, SECRET.encode() * 100_000)
    raise RuntimeError(SECRET)


def _exit_silently(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    os._exit(0)


def _raise_system_exit(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    sys.exit(0)


def _segfault(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    ctypes.string_at(0)
    return _success()


def _answer_garbage(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    os.write(_answer_fd(), b"HTTP/1.1 200 OK\r\n\r\n" + SECRET.encode())
    time.sleep(60)
    return _success()


def _answer_framed_garbage(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    frames.write_blocking(_answer_fd(), f'{{"outcome": "{SECRET}"}}'.encode())
    return _success()


def _answer_half(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    os.write(_answer_fd(), frames.encode(b"x" * 100)[:50])
    os._exit(0)


def _answer_twice(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    frames.write_blocking(_answer_fd(), _success(forged=True).model_dump_json().encode())
    return _success()


def _answer_no_result(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    return None  # type: ignore[return-value]


def _make_scratch_stubborn(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    Path("locked/inner").mkdir(parents=True)
    Path("locked/inner/file").write_text("x")
    Path("outside").symlink_to("/")
    Path("locked/inner").chmod(0)
    Path("locked").chmod(0)
    return _success(cwd=str(Path.cwd()))


ACTS: dict[str, Callable[[PackRequest, Mapping[str, str]], PackResult]] = {
    name.removeprefix("_"): function
    for name, function in list(globals().items())
    if name.startswith("_") and getattr(function, "__module__", None) == __name__
}
