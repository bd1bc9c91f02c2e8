"""LocalStack's view of an execution environment, served by a `Sandbox`.

LocalStack does pooling, concurrency, keep-alive, retries and log groups; this adapter only translates.
Environment of the LocalStack process:
  DPP_LAMBDA_PYTHON        interpreter that has awslambdaric and nothing else
  DPP_LAMBDA_LOG_DIR       folder that gets one readable log a function
  DPP_LAMBDA_INIT_SECONDS  how long loading a handler may take (10, as on AWS; raise it on a slow machine)
"""

import logging
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException
from localstack.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

from dpp_localstack.runtime_api import Invocation
from dpp_localstack.sandbox import FunctionSpec, InitError, Outcome, Sandbox
from localstack import config  # type: ignore[attr-defined]  # this folder has the package's name

LOG = logging.getLogger(__name__)
_log_lock = threading.Lock()


class ProcessExecutor(RuntimeExecutor):  # type: ignore[misc]  # LocalStack ships no types
    """One environment of one function version."""

    def __init__(self, id: str, function_version: FunctionVersion) -> None:
        super().__init__(id=id, function_version=function_version)
        self._sandbox: Sandbox | None = None

    def start(self, env_vars: dict[str, Any]) -> None:
        """Load the handler. Raises StatusErrorException, whose payload LocalStack answers to the caller."""
        self._sandbox = Sandbox(
            self._spec(env_vars),
            python=Path(os.environ["DPP_LAMBDA_PYTHON"]),
            home=Path(tempfile.gettempdir()) / "environments" / self.id,
            init_seconds=float(os.environ.get("DPP_LAMBDA_INIT_SECONDS", "10")),
        )
        try:
            self._sandbox.start()
        except InitError as error:
            self._log(f"INIT FAILED\n{self._sandbox.take_output()}{error}\n")
            self._sandbox.stop()
            raise StatusErrorException("Environment startup failed", payload=error.body) from error

    def stop(self) -> None:
        """End the process and all it started."""
        if self._sandbox is not None:
            self._sandbox.stop()

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        """Run the handler once."""
        if self._sandbox is None:
            raise RuntimeError("invoked before it was started")
        invocation = Invocation(
            request_id=payload["invoke-id"],
            function_arn=payload["invoked-function-arn"],
            payload=payload["payload"].encode(),
            trace_id=payload.get("trace-id") or "",
        )
        outcome = self._sandbox.invoke(invocation)
        report = self._report(invocation.request_id, outcome)
        self._log(report)
        return InvocationResult(invocation.request_id, outcome.body, is_error=outcome.failed, logs=report)

    def _spec(self, env_vars: dict[str, Any]) -> FunctionSpec:
        function = self.function_version.config
        environment = {name: str(value) for name, value in env_vars.items() if value is not None}
        return FunctionSpec(
            name=self.function_version.id.function_name,
            code=function.code.get_unzipped_code_location(),
            layers=tuple(layer.code.get_unzipped_code_location() for layer in function.layers),
            handler=environment["_HANDLER"],
            timeout_seconds=function.timeout,
            memory_mib=function.memory_size,
            environment=environment,
            python_version=function.runtime.removeprefix("python"),
        )

    def _report(self, request_id: str, outcome: Outcome) -> str:
        """The log of one invocation, in Lambda's form."""
        error = f"{outcome.body.decode('utf-8', 'replace')}\n" if outcome.failed else ""
        return (
            f"START RequestId: {request_id} Version: {self.function_version.id.qualifier}\n"
            f"{outcome.output}{error}"
            f"END RequestId: {request_id}\n"
            f"REPORT RequestId: {request_id}\tDuration: {outcome.duration_ms:.2f} ms\t"
            f"Billed Duration: {int(outcome.duration_ms) + 1} ms\t"
            f"Memory Size: {self.function_version.config.memory_size} MB\t"
            f"Max Memory Used: {outcome.peak_memory_mib} MB\t\n"
        )

    def _log(self, text: str) -> None:
        folder = os.environ.get("DPP_LAMBDA_LOG_DIR")
        if folder is None:
            return
        path = Path(folder) / f"{self.function_version.id.function_name}.log"
        try:
            with _log_lock, path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:  # a full disk must not fail the function
            LOG.warning("can't write %s: %s", path, error)

    def get_address(self) -> str:
        """The environment's address: this machine."""
        return "127.0.0.1"

    def get_endpoint_from_executor(self) -> str:
        """LocalStack's address as seen by the function."""
        return "127.0.0.1"

    def get_runtime_endpoint(self) -> str:
        """LocalStack's callback for its Docker runtime: unused here, but part of a function's environment."""
        return f"http://127.0.0.1:{config.GATEWAY_LISTEN[0].port}/_localstack_lambda/{self.id}"

    def get_logs(self) -> str:
        """Output not yet reported with an invocation."""
        return self._sandbox.take_output() if self._sandbox is not None else ""

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        """Unpack code and layers. Raises NotImplementedError for what is no zip function in Python."""
        function = function_version.config
        if not function.code or not (function.runtime or "").startswith("python"):
            raise NotImplementedError("only Python functions from a zip archive run as local processes")
        function.code.prepare_for_execution()
        for layer in function.layers:
            layer.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        """Nothing: LocalStack removes the unpacked code itself, and layers are shared."""

    @classmethod
    def validate_environment(cls) -> bool:
        """False (LocalStack warns) when the interpreter for the functions is missing."""
        return Path(os.environ.get("DPP_LAMBDA_PYTHON", "")).is_file()
