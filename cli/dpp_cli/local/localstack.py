"""Starts LocalStack in host mode: loopback only, no download, no telemetry, functions as local processes."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from dpp_cli.deploy.toolchain import lambda_python, localstack_python
from dpp_cli.local.processes import MARK, ProcessIdentity, spawn
from dpp_cli.local.servers import HOST, ServerError, log_tail

if TYPE_CHECKING:
    from boto3 import Session

REGION = "us-east-1"
ACCOUNT = "000000000000"
STOP_SECONDS = 3.0  # it stores nothing and often hangs in its shutdown, so don't wait long
_BOOT_SECONDS = 90.0
_SERVICES = "s3,sqs,lambda,apigateway,events,iam,sts,cloudformation,logs,ssm,secretsmanager,cloudwatch"


def endpoint_url(port: int) -> str:
    """Return the endpoint of this LocalStack's AWS APIs."""
    return f"http://{HOST}:{port}"


def client_environment(endpoint: str) -> dict[str, str]:
    """Return the environment that directs any AWS client to LocalStack."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ENDPOINT_URL_S3": endpoint,  # the CDK's asset upload reads this one only
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def client_session(endpoint: str) -> "Session":
    """Return a boto3 session with LocalStack's credentials."""
    import boto3  # noqa: PLC0415 - what starts LocalStack needs none

    keys = client_environment(endpoint)
    return boto3.Session(keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"], region_name=REGION)


@dataclass(frozen=True)
class LocalStackServer:
    """A running LocalStack."""

    port: int
    identity: ProcessIdentity
    # Kept so that the interpreter doesn't warn about a child it lost sight of; None when found again later.
    process: subprocess.Popen[bytes] | None = field(default=None, compare=False, repr=False)

    def stop(self) -> None:
        """End it; its functions' processes are found by their mark."""
        self.identity.end(patience_seconds=STOP_SECONDS)
        if self.process is not None:
            self.process.wait(5)

    @classmethod
    def start(cls, state_dir: Path, port: int) -> "LocalStackServer":
        """Start it on `port` and wait until it answers. Raises ServerError, ToolError."""
        home = state_dir / "localstack"
        (home / "tmp").mkdir(parents=True, exist_ok=True)
        logs = function_log_dir(state_dir)
        logs.mkdir(parents=True, exist_ok=True)
        log_path = state_dir / "localstack.log"
        process = spawn(
            [str(localstack_python()), "-m", "localstack.runtime.main"],
            log_path=log_path,
            environment=_environment(state_dir, home, logs, port),
            cwd=home,
        )
        identity = ProcessIdentity.of(process.pid)
        deadline = time.monotonic() + _BOOT_SECONDS
        while identity is not None and identity.alive():
            if healthy(endpoint_url(port)):
                return cls(port, identity, process)
            if time.monotonic() > deadline:
                identity.end(signal.SIGKILL)
            time.sleep(0.1)
            process.poll()
        raise ServerError(f"LocalStack did not start on {HOST}:{port}\n{log_tail(log_path)}")


def function_log_dir(state_dir: Path) -> Path:
    """One log a function: everything its invocations printed, with START, END and REPORT lines."""
    return state_dir / "functions"


def healthy(endpoint: str) -> bool:
    """True when LocalStack answers."""
    try:
        return httpx.get(f"{endpoint}/_localstack/health", timeout=2, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def _environment(state_dir: Path, home: Path, logs: Path, port: int) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        MARK: str(state_dir),
        "GATEWAY_LISTEN": f"{HOST}:{port}",
        "LOCALSTACK_HOST": f"{HOST}:{port}",
        "SERVICES": _SERVICES,
        "FILESYSTEM_ROOT": str(home),
        "TMPDIR": str(home / "tmp"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "LS_LOG": os.environ.get("LS_LOG", "warn"),  # at info, polling alone writes 60 MB a day
        # Nothing leaves the machine: no telemetry, no certificate download, no name server of its own.
        "DISABLE_EVENTS": "1",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "DNS_ADDRESS": "0",
        "CFN_IGNORE_UNSUPPORTED_RESOURCE_TYPES": "1",  # `cdk bootstrap` makes a repository; there is no ECR here
        "SQS_ENDPOINT_STRATEGY": "path",  # queue URLs that resolve
        "S3_SKIP_SIGNATURE_VALIDATION": "0",  # presigned URLs expire, as on AWS
        "LAMBDA_RUNTIME_EXECUTOR": "dpp-process",
        "LAMBDA_RUNTIME_ENVIRONMENT_TIMEOUT": "60",  # our executor's own limit comes first
        # An idle queue is looked at less and less often, up to 10 s apart, by default.
        "LAMBDA_EVENT_SOURCE_MAPPING_POLL_INTERVAL_SEC": "0.05",
        "LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC": "0.25",
        "LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_ERROR_SEC": "2",
        "DPP_LAMBDA_PYTHON": str(lambda_python()),
        "DPP_LAMBDA_LOG_DIR": str(logs),
        "DPP_LAMBDA_INIT_SECONDS": "30",  # 10 on AWS; a loaded laptop starts several at once
    }
