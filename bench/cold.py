"""The cost of a cold start: `python -m bench.cold [rounds [function …]]` (or `make bench-cold`).

Each round starts a process for each function with nothing but Python, the layers as deployed (rebuilt if need be, byte
code included) and the function's own folder without byte code, as its archive has it. It times the import of the
handler, which Lambda calls the init. In the same round a process imports only the third-party modules that the function
had loaded, in the same order: the floor, below which only giving up a package helps. Compared with them is a handler of
the same size in the style of the aws-lambda-handler-cookbook (bench/cookbook_style).

`later` is what is deferred until the first request needs it: AWS clients, created after the first import of boto3. The
cookbook's handler pays for them at import, ours does not. The sum is what the first caller of a container waits for.

Ratios are of processor time (`cpu`), which a busy machine disturbs less than the clock; on an idle one both are alike.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.support.output import print_machine, print_table
from bench.support.servers import peer_packages
from dpp_cli.layers.packages import build_deps_layer, build_domain_layer, machine_architecture
from dpp_cli.paths import FUNCTIONS, ROOT

COOKBOOK = "cookbook_style"
API_FUNCTIONS = (
    "runs_submit", "runs_read", "runs_mcp", "health", "api_docs", "tickets_api", "auth_errors_api", "workspaces_api",
    "lifecycle_webhook",
)  # fmt: skip
OTHERS = (
    "run_worker", "run_reaper", "run_sweeper", "run_reconcile", "run_retention", "ops_cycle", "lifecycle_chamberlain",
    "auth_errors_publish", "auth_errors_consume", "workspaces_control", "workspaces_storage", "pack_outside",
)  # fmt: skip
# The AWS clients that a function's first request creates, as its wiring does.
CLIENTS: Mapping[str, str] = {
    **dict.fromkeys(("runs_submit", "runs_mcp", "auth_errors_api", "workspaces_api"), "sqs_client()"),
    **dict.fromkeys(("auth_errors_publish", "auth_errors_consume"), "sqs_client()"),
    **dict.fromkeys(("runs_read", "tickets_api"), "s3_client()"),
    **dict.fromkeys(("health", "run_worker", "ops_cycle", "run_reconcile"), "s3_client(), sqs_client()"),
    **dict.fromkeys(
        ("workspaces_control", "workspaces_storage"), "ecs_client(), efs_client(), s3_client(), sqs_client()"
    ),
    "lifecycle_webhook": "lambda_client(3), secrets_client()",
}
_AIM_MS = 300
_AIM_RATIO = 0.5
_ENVIRONMENT = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "POWERTOOLS_SERVICE_NAME": "bench",
    "LOG_LEVEL": "INFO",
    "TABLE_NAME": "runs",
    "QUEUE_URL": "https://queue.example/runs",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_IMPORT = """
import sys, time
before = set(sys.modules)
started, clock = time.process_time(), time.perf_counter()
import {module}
init, clock = time.process_time() - started, time.perf_counter() - clock
loaded = [name for name in sys.modules if name not in before]
started = time.process_time()
{later}
later = time.process_time() - started
import json, resource
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([clock, init, later, memory, loaded]))
"""
_FLOOR = """
import sys, time
from importlib import import_module
names = sys.argv[1:]
started = time.process_time()
for name in names:
    import_module(name)
print(time.process_time() - started)
"""


@dataclass(slots=True)
class Function:
    """A function and its rounds: `clock` in seconds, `memory` in KiB, the others in seconds of processor time."""

    name: str
    environment: Mapping[str, str]
    third_party: Sequence[str] = ()
    clock: list[float] = field(default_factory=list)
    init: list[float] = field(default_factory=list)
    later: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)

    def start(self) -> tuple[float, float, float, int, list[str]]:
        calls = CLIENTS.get(self.name)
        later = f"from dpp.platform.aws.clients import *; {calls}" if calls else ""
        program = _IMPORT.format(module=f"{self.name}.handler", later=later)
        clock, init, taken_later, memory, loaded = json.loads(self._python(program))
        return clock, init, taken_later, memory, loaded

    def measure(self) -> None:
        clock, init, later, memory, _ = self.start()
        self.clock.append(clock)
        self.init.append(init)
        self.later.append(later)
        self.memory.append(memory)
        self.floor.append(float(self._python(_FLOOR, *self.third_party)))

    def _python(self, program: str, *arguments: str) -> str:
        # The interpreter behind the virtual environment, without its packages: only the layers are there.
        command = [os.path.realpath(sys.executable), "-S", "-c", program, *arguments]
        run = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True)
        return run.stdout


def main(rounds: int, chosen: Sequence[str]) -> None:
    """Measure and print; all functions if none is chosen."""
    print_machine(packages=("aws-lambda-powertools", "boto3", "psycopg", "pydantic", "redis"))
    domain, packages = build_domain_layer() / "python", build_deps_layer(machine_architecture()) / "python"
    tracing = peer_packages()  # with the X-Ray SDK, which only the cookbook's handler needs
    names = (*(chosen or (*API_FUNCTIONS, *OTHERS)), COOKBOOK)
    with tempfile.TemporaryDirectory() as folder:
        functions = []
        for name in names:
            source = ROOT / "bench" / name if name == COOKBOOK else FUNCTIONS / name
            shutil.copytree(source, Path(folder) / name, ignore=shutil.ignore_patterns("__pycache__"))
            layers = [packages, tracing] if name == COOKBOOK else [domain, packages]
            path = os.pathsep.join(map(str, [folder, *layers]))
            functions.append(Function(name, {**_ENVIRONMENT, "PYTHONPATH": path}))
        for function in functions:  # fills the disk's cache, and shows what is loaded
            function.third_party = _third_party(function.start()[4], packages, tracing)
        for _ in range(rounds):
            for function in functions:
                function.measure()
    _print(functions, rounds)


def _third_party(loaded: Sequence[str], *layers: Path) -> list[str]:
    """The loaded modules that come from a layer of packages, in their order."""
    tops = {path.stem if path.suffix == ".py" else path.name for layer in layers for path in layer.iterdir()}
    return [name for name in loaded if name.partition(".")[0] in tops and not _is_synthetic(name)]


def _is_synthetic(name: str) -> bool:
    """True if its package creates it at run time, so that no module of that name can be imported."""
    return ".moves" in name or name.startswith("botocore.vendored.six")


def _print(functions: Sequence[Function], rounds: int) -> None:
    print(f"{rounds} rounds, medians in ms; memory in MB\n")
    peer = 1_000 * statistics.median(functions[-1].init)
    rows = []
    for one in functions:
        times = (one.clock, one.init, one.floor, one.later)
        clock, init, floor, later = (1_000 * statistics.median(values) for values in times)
        ratios = f"{init / floor:.2f}", f"{init / peer:.2f}"
        whole = (f"{value:.0f}" for value in (later, init + later, statistics.median(one.memory) / 1_024))
        rows.append((one.name, f"{clock:.0f}", f"{init:.0f}", f"{floor:.0f}", *ratios, *whole))
    print_table(("function", "init", "cpu", "floor", "× floor", "× cookbook", "later", "sum", "memory"), rows)
    measured = [one for one in functions if one.name in API_FUNCTIONS]
    if measured:
        slowest = 1_000 * max(statistics.median(one.clock) for one in measured)
        ratio = 1_000 * max(statistics.median(one.init) for one in measured) / peer
        print(f"\nAPI functions: {slowest:.0f} ms at most (aim {_AIM_MS}), ", end="")
        print(f"{ratio:.2f} of the cookbook's handler at most (aim {_AIM_RATIO})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2:])
