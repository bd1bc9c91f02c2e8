"""One Lambda execution environment as one local process under `awslambdaric`.

What holds as on AWS: the handler sees its code, its layers and the runtime, nothing of this checkout; a
timeout, a crash or a failed init end the process, and the next invocation starts a fresh one; the whole
process group goes with it; memory is bounded. What does not: there is no `/var/task` or `/opt`, the
process is not frozen between invocations, and files are those of the machine.

Memory: RLIMIT_DATA, not RLIMIT_AS. Address space counts what is only reserved (malloc reserves 64 MB a
thread), so a limit near the function's size would fail functions that AWS runs. A process over the limit
gets a MemoryError, where AWS would kill it.
"""

import json
import os
import queue
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dpp_localstack.runtime_api import Answered, Exited, InitFailed, Invocation, Ready, RuntimeApi

MARK = "DPP_LOCAL_STATE"  # the variable by which `dpp local down` finds what a killed LocalStack left behind
MAX_RESPONSE_BYTES = 6_291_556  # Lambda's limit for a synchronous answer
_MIB = 1024 * 1024
_HEADROOM_MIB = 128  # stacks of threads count whole, though touched in part
_LOG_BYTES = _MIB


class InitError(Exception):
    """The environment did not come up; `body` is the error document that Lambda would answer."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body.decode("utf-8", "replace"))
        self.body = body


@dataclass(frozen=True)
class FunctionSpec:
    """The part of a function's configuration that its process needs."""

    name: str
    code: Path
    layers: tuple[Path, ...]  # in the order of the configuration: a later one covers an earlier one
    handler: str
    timeout_seconds: float
    memory_mib: int
    environment: Mapping[str, str]
    python_version: str = "3.13"


@dataclass(frozen=True)
class Outcome:
    """The result of an invocation."""

    body: bytes
    failed: bool
    output: str
    duration_ms: float
    peak_memory_mib: int


class Sandbox:
    """Starts, invokes and kills the process of one environment. One invocation at a time, as on Lambda."""

    def __init__(self, spec: FunctionSpec, *, python: Path, home: Path, init_seconds: float) -> None:
        self._spec = spec
        self._python = python
        self._home = home
        self._init_seconds = init_seconds
        self._output_path = home / "output.log"
        self._lock = threading.Lock()  # guards the two below against a stop from another thread
        self._running: _Running | None = None
        self._stopped = False

    def start(self) -> None:
        """Start the process and wait until the handler is loaded. Raises InitError."""
        self._home.mkdir(parents=True, exist_ok=True)
        with self._lock:
            if self._stopped:
                raise InitError(_error("Sandbox.Stopped", "the environment was stopped"))
            running = self._running = _Running(self._spec, self._python, self._home, self._output_path)
        body = running.wait_for_init(self._init_seconds)
        if body is not None:
            self._end_process()
            raise InitError(body)

    def invoke(self, invocation: Invocation) -> Outcome:
        """Run the handler once, in a fresh process if the last is gone; its faults are values, not raised."""
        begun = time.monotonic()
        if self._running is None or self._running.gone():
            self._end_process()
            try:
                self.start()
            except InitError as error:
                return self._outcome(error.body, True, begun, 0)
        running = self._running
        if running is None:
            return self._outcome(_error("Sandbox.Stopped", "the environment was stopped"), True, begun, 0)
        begun = time.monotonic()
        answer = running.ask(invocation, self._spec.timeout_seconds)
        peak = running.peak_memory_mib()
        if not isinstance(answer, Answered):
            self._end_process()
            return self._outcome(answer, True, begun, peak)
        if len(answer.body) > MAX_RESPONSE_BYTES:
            message = f"Response payload size exceeded maximum allowed payload size ({MAX_RESPONSE_BYTES} bytes)."
            return self._outcome(_error("Function.ResponseSizeTooLarge", message), True, begun, peak)
        return self._outcome(answer.body, answer.failed, begun, peak)

    def stop(self) -> None:
        """End the process for good, and remove what it wrote. An invocation under way ends as a crash."""
        with self._lock:
            self._stopped = True
        self._end_process()
        shutil.rmtree(self._home, ignore_errors=True)

    def take_output(self) -> str:
        """Return the process's output since the last call: at most the last megabyte."""
        try:
            with self._output_path.open("rb+") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _LOG_BYTES))
                text = file.read().decode("utf-8", "replace")
                file.truncate(0)  # the process appends, so it goes on from the start
        except FileNotFoundError:
            return ""
        return text if not text or text.endswith("\n") else f"{text}\n"

    def _end_process(self) -> None:
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            running.kill()

    def _outcome(self, body: bytes, failed: bool, begun: float, peak_memory_mib: int) -> Outcome:
        duration_ms = (time.monotonic() - begun) * 1000
        return Outcome(body, failed, self.take_output(), duration_ms, peak_memory_mib)


class _Running:
    """A process and its Runtime API."""

    def __init__(self, spec: FunctionSpec, python: Path, home: Path, output_path: Path) -> None:
        self._api = RuntimeApi(spec.timeout_seconds)
        try:
            with output_path.open("ab") as output:
                self._process = subprocess.Popen(
                    # -P and -s: neither the working folder nor the user's packages are importable.
                    [str(python), "-P", "-s", "-m", "awslambdaric", spec.handler],
                    cwd=spec.code,
                    env=_environment(spec, home, self._api.address),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    process_group=0,
                )
        except OSError:
            self._api.close()
            raise
        _limit_memory(self._process.pid, spec.memory_mib)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        self._api.events.put(Exited(self._process.wait()))

    def gone(self) -> bool:
        """True once the process has ended by itself.

        `/proc` is asked: `poll` says nothing while `_watch` waits in another thread, and no wait reports a killed
        process before its last thread is gone.
        """
        try:
            state = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        return state in {"Z", "X"}

    def wait_for_init(self, seconds: float) -> bytes | None:
        """Wait for the first poll; the error document if it doesn't come."""
        try:
            event = self._api.events.get(timeout=seconds)
        except queue.Empty:
            return _error("Sandbox.InitTimedout", f"Init did not end within {seconds:.0f} seconds")
        match event:
            case Ready():
                return None
            case InitFailed(body):
                return body
            case Exited(status):
                return _error("Runtime.ExitError", f"Runtime exited with error: {_ending(status)}")
            case Answered():
                return _error("Runtime.Unknown", "the runtime answered before it was asked")

    def ask(self, invocation: Invocation, timeout_seconds: float) -> Answered | bytes:
        """The handler's answer, or the error document of a timeout or a crash."""
        deadline = time.monotonic() + timeout_seconds
        self._api.hand_out(invocation)
        prefix = f"RequestId: {invocation.request_id} Error:"
        while True:
            try:
                event = self._api.events.get(timeout=max(deadline - time.monotonic(), 0.001))
            except queue.Empty:
                message = f"{prefix} Task timed out after {timeout_seconds:.2f} seconds"
                return _error("Sandbox.Timedout", message)
            match event:
                case Answered(request_id) if request_id == invocation.request_id:
                    return event
                case Exited(status):
                    message = f"{prefix} Runtime exited with error: {_ending(status)}"
                    return _error("Runtime.ExitError", message)
                case _:
                    continue

    def peak_memory_mib(self) -> int:
        """The process's largest resident size so far; 0 when it is gone."""
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        except OSError:
            return 0
        kib = next((line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")), "0")
        return int(kib) // 1024

    def kill(self) -> None:
        """End the process, its group, and whatever it started in a group or session of its own."""
        address = self._api.address
        self._api.close()
        for pid in (-self._process.pid, *_offspring(address)):
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        self._process.wait(5)


def _environment(spec: FunctionSpec, home: Path, runtime_api: str) -> dict[str, str]:
    """Return the process's whole environment; from ours it inherits only the mark."""
    version = f"lib/python{spec.python_version}/site-packages"
    paths = [spec.code]
    for layer in reversed(spec.layers):
        paths += [layer / "python" / version, layer / "python"]
    extra = spec.environment.get("PYTHONPATH", "")
    return {
        "LANG": "en_US.UTF-8",
        "HOME": str(home),
        "TMPDIR": str(home),
        "PYTHONUNBUFFERED": "1",
        **spec.environment,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join([*map(str, paths), *([extra] if extra else [])]),
        "LAMBDA_TASK_ROOT": str(spec.code),
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python{spec.python_version}",
        "AWS_LAMBDA_RUNTIME_API": runtime_api,
        **({MARK: os.environ[MARK]} if MARK in os.environ else {}),
    }


def _limit_memory(pid: int, memory_mib: int) -> None:
    limit = (memory_mib + _HEADROOM_MIB) * _MIB
    try:
        resource.prlimit(pid, resource.RLIMIT_DATA, (limit, limit))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
    except ProcessLookupError:  # ended at once; its exit is reported in its own way
        return


def _offspring(runtime_api: str) -> list[int]:
    """Pids of every process that inherited this Runtime API's address."""
    wanted = f"AWS_LAMBDA_RUNTIME_API={runtime_api}".encode()
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in variables:
            found.append(int(folder.name))
    return found


def _ending(status: int) -> str:
    return f"signal: {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def _error(kind: str, message: str) -> bytes:
    return json.dumps({"errorType": kind, "errorMessage": message}).encode()
