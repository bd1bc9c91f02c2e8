"""What a cold start costs: `python -m bench.cold [rounds [function …]]` (or `make bench-cold`).

Each round starts a process for each function with nothing but Python, the layers as they are deployed (built anew if
need be, byte code included) and the function's own folder without byte code, as its archive has it, and times the
import of its handler: what Lambda calls the init. In the same round, a process imports just the third-party modules
that the function had loaded, in the same order: the floor, of which nothing can be saved without giving up a package.
Beside them stands a handler of the same size in the style of the aws-lambda-handler-cookbook (bench/cookbook_style).

`then` is what is put off until the first request needs it (an AWS client, made after the first import of boto3): the
cookbook's handler has paid for it at import, ours has not. The sum is what the first client of a container waits for.

Ratios are of processor time (`cpu`), which a busy machine disturbs less than the clock; on an idle one both are alike.
"""

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from dpp_cli.layers.packages import (
    build_deps_layer,
    build_domain_layer,
    build_packages_layer,
    machine_architecture,
)
from dpp_cli.paths import BUILD, FUNCTIONS, ROOT

COOKBOOK = "cookbook_style"
API_FUNCTIONS = (
    "runs_submit",
    "runs_read",
    "runs_mcp",
    "health",
    "api_docs",
    "tickets_api",
    "auth_errors_api",
    "workspaces_api",
    "lifecycle_webhook",
)
OTHERS = (
    "run_worker",
    "run_reaper",
    "run_sweeper",
    "run_reconcile",
    "run_retention",
    "ops_cycle",
    "lifecycle_chamberlain",
    "auth_errors_publish",
    "auth_errors_consume",
    "workspaces_control",
    "workspaces_storage",
    "pack_outside",
)
_OF_A_PROVIDER = (
    "from dpp.platform.aws.clients import ecs_client, efs_client, s3_client, sqs_client;"
    " ecs_client(), efs_client(), s3_client(), sqs_client()"
)
# What a function's first request reaches for, as its wiring does it.
PUT_OFF: Mapping[str, str] = {
    "runs_submit": "from dpp.platform.aws.clients import sqs_client; sqs_client()",
    "runs_mcp": "from dpp.platform.aws.clients import sqs_client; sqs_client()",
    "runs_read": "from dpp.platform.aws.clients import s3_client; s3_client()",
    "health": "from dpp.platform.aws.clients import s3_client, sqs_client; s3_client(), sqs_client()",
    "run_worker": "from dpp.platform.aws.clients import s3_client, sqs_client; s3_client(), sqs_client()",
    "tickets_api": "from dpp.platform.aws.clients import s3_client; s3_client()",
    "ops_cycle": "from dpp.platform.aws.clients import s3_client, sqs_client; s3_client(), sqs_client()",
    "auth_errors_api": "from dpp.platform.aws.clients import sqs_client; sqs_client()",
    "auth_errors_publish": "from dpp.platform.aws.clients import sqs_client; sqs_client()",
    "auth_errors_consume": "from dpp.platform.aws.clients import sqs_client; sqs_client()",
    "workspaces_api": "from dpp.platform.aws.clients import sqs_client; sqs_client()",
    "lifecycle_webhook": (
        "from dpp.platform.aws.clients import lambda_client, secrets_client; lambda_client(3), secrets_client()"
    ),
    "workspaces_control": _OF_A_PROVIDER,
    "workspaces_storage": _OF_A_PROVIDER,
    "run_reconcile": "from dpp.platform.aws.clients import s3_client, sqs_client; s3_client(), sqs_client()",
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
{put_off}
then = time.process_time() - started
import json, resource
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([clock, init, then, memory, loaded]))
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


@dataclass
class Seen:
    """The rounds of one function: `clock` in seconds, `memory` in KiB, the others in seconds of processor time."""

    third_party: Sequence[str] = ()
    clock: list[float] = field(default_factory=list)
    init: list[float] = field(default_factory=list)
    then: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)


def main(rounds: int, chosen: Sequence[str]) -> None:
    """Measure and print; all functions if none is chosen."""
    layers = [build_domain_layer() / "python", build_deps_layer(machine_architecture()) / "python"]
    # The X-Ray SDK, which ours has no need of; its packages are the cookbook's alone.
    tracing = build_packages_layer(BUILD / "layers" / "bench", ["--only-group", "bench"]) / "python"
    names = (*(chosen or (*API_FUNCTIONS, *OTHERS)), COOKBOOK)
    seen = {name: Seen() for name in names}
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder)
        for name in names:
            source = ROOT / "bench" / name if name == COOKBOOK else FUNCTIONS / name
            shutil.copytree(source, task / name, ignore=shutil.ignore_patterns("__pycache__"))
        ours = {**_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(map(str, [task, *layers]))}
        peers = {**_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(map(str, [task, layers[1], tracing]))}
        for name in names:  # once for the disk's cache, and to learn what is loaded
            loaded = _start(name, peers if name == COOKBOOK else ours)[4]
            seen[name].third_party = _third_party(loaded, layers[1], tracing)
        for _ in range(rounds):
            for name in names:
                _measure(name, seen[name], peers if name == COOKBOOK else ours)
    _print(seen, rounds)


def _measure(name: str, seen: Seen, environment: Mapping[str, str]) -> None:
    clock, init, then, memory, _ = _start(name, environment)
    seen.clock.append(clock)
    seen.init.append(init)
    seen.then.append(then)
    seen.memory.append(memory)
    seen.floor.append(float(_python(_FLOOR, environment, *seen.third_party)))


def _start(name: str, environment: Mapping[str, str]) -> tuple[float, float, float, int, list[str]]:
    program = _IMPORT.format(module=f"{name}.handler", put_off=PUT_OFF.get(name, ""))
    clock, init, then, memory, loaded = json.loads(_python(program, environment))
    return clock, init, then, memory, loaded


def _python(program: str, environment: Mapping[str, str], *arguments: str) -> str:
    # The interpreter behind the virtual environment, without its packages: the layers are all there is.
    command = [os.path.realpath(sys.executable), "-S", "-c", program, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def _third_party(loaded: Sequence[str], *layers: Path) -> list[str]:
    """Of what was loaded at import, in its order, the modules that come from a layer of packages."""
    tops = {path.stem if path.suffix == ".py" else path.name for layer in layers for path in layer.iterdir()}
    return [name for name in loaded if name.partition(".")[0] in tops and not _is_odd(name)]


def _is_odd(name: str) -> bool:
    """Made at run time by its package: no module of that name can be imported."""
    return ".moves" in name or name.startswith("botocore.vendored.six")


def _print(seen: Mapping[str, Seen], rounds: int) -> None:
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    shown = ("aws-lambda-powertools", "boto3", "psycopg", "pydantic", "redis")
    print(f"{_processor()}, {os.cpu_count()} cores, load {load}; Python {platform.python_version()}")
    print(", ".join(f"{name} {version(name)}" for name in shown))
    print(f"{rounds} rounds, medians in ms; memory in MB\n")
    peer = statistics.median(seen[COOKBOOK].init)
    head = ("init", "cpu", "floor", "× floor", "× cookbook", "then", "sum", "memory")
    print(f"{'function':<16}" + "".join(f"{one:>12}" for one in head))
    for name, one in seen.items():
        clock, init, then, floor = (
            1000 * statistics.median(values) for values in (one.clock, one.init, one.then, one.floor)
        )
        ratios = f"{init / floor:>12.2f}{init / peer / 1000:>12.2f}"
        memory = statistics.median(one.memory) / 1024
        print(f"{name:<16}{clock:>12.0f}{init:>12.0f}{floor:>12.0f}{ratios}", end="")
        print(f"{then:>12.0f}{init + then:>12.0f}{memory:>12.0f}")
    measured = [seen[name] for name in API_FUNCTIONS if name in seen]
    if measured:
        slowest = max(statistics.median(one.clock) for one in measured)
        ratio = max(statistics.median(one.init) for one in measured) / peer
        print(f"\nAPI functions: {1000 * slowest:.0f} ms at the most (aim {_AIM_MS}), ", end="")
        print(f"{ratio:.2f} of the cookbook's handler (aim {_AIM_RATIO})")


def _processor() -> str:
    lines = (
        Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if Path("/proc/cpuinfo").exists()
        else []
    )
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2:])
