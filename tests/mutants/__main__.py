"""Put each fault into a copy of the sources, run the test that must notice, and report: `python -m tests.mutants`.

Words given on the command line choose the faults whose names hold one of them. Exit code 1 where one survives.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.fault import Fault
from tests.mutants.faults import FAULTS

_ROOT = Path(__file__).parents[2]
_COPIED = (
    "layers",
    "functions",
    "cli",
    "cdk",
    "migrations",
    "tests",
    "docs",
    "bench",
    "pyproject.toml",
    "cdk.json",
)
_TESTS_FAILED = 1  # pytest's exit code; any other says that the fault was not even met
_AT_ONCE = max(1, min(4, os.process_cpu_count() or 1))


@dataclass(frozen=True)
class Verdict:
    """What became of one fault."""

    fault: Fault
    exit_code: int
    seconds: float
    output: str

    @property
    def caught(self) -> bool:
        """Whether its test failed, as it must."""
        return self.exit_code == _TESTS_FAILED


def main() -> int:
    """Try the chosen faults; 1 where a test doesn't notice one, or fails without any."""
    words = sys.argv[1:]
    chosen = [fault for fault in FAULTS if not words or any(word in fault.name for word in words)]
    if not chosen:
        _say(f"no fault is named so; there are: {', '.join(fault.name for fault in FAULTS)}")
        return 1
    started = time.monotonic()
    control = _run(sorted({fault.caught_by for fault in chosen}))
    if control.returncode:
        _say(f"the tests fail without any fault:\n{control.stdout[-5000:]}")
        return 1
    survivors: list[Verdict] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for verdict in pool.map(_try, chosen):
            _say(
                f"{'caught' if verdict.caught else 'SURVIVED':9} {verdict.seconds:5.1f} s  {verdict.fault.name}"
            )
            if not verdict.caught:
                survivors.append(verdict)
    for verdict in survivors:
        fault = verdict.fault
        _say(f"\n{fault.name} (pytest: {verdict.exit_code}): {fault.cost}\n{verdict.output[-3000:]}")
    _say(f"{len(chosen) - len(survivors)} of {len(chosen)} caught, {time.monotonic() - started:.0f} s")
    return 1 if survivors else 0


def _try(fault: Fault) -> Verdict:
    started = time.monotonic()
    done = _run([fault.caught_by], fault)
    return Verdict(fault, done.returncode, time.monotonic() - started, done.stdout + done.stderr)


def _run(tests: list[str], fault: Fault | None = None) -> subprocess.CompletedProcess[str]:
    """The tests on a copy of the sources, with the fault in it."""
    with tempfile.TemporaryDirectory(prefix="dpp-mutant-") as scratch:
        copy = Path(scratch)
        _copy(copy)
        if fault is not None:
            spoil(copy, fault)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        sources = ("layers/dpp/python", "functions", "cli", "cdk", ".")
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(copy / source) for source in sources)}
        return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _copy(target: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", ".*", "node_modules")
    for name in _COPIED:
        source = _ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=ignored)
        else:
            shutil.copy(source, target / name)


def spoil(root: Path, fault: Fault) -> None:
    """Put a fault into the sources below `root`. Raises ValueError where its place is not found exactly once."""
    path = root / "layers/dpp/python/dpp" / fault.file
    text = path.read_text(encoding="utf-8")
    if text.count(fault.before) != 1:
        raise ValueError(f"{fault.name}: its place stands {text.count(fault.before)} times in {fault.file}")
    path.write_text(text.replace(fault.before, fault.after), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
