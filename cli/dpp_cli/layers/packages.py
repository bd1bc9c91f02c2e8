"""Builds two layers under `.dpp/build/layers/`: `deps/<architecture>` (third-party packages, from `uv.lock`) and
`dpp` (the domain, from `layers/dpp`), both with byte code. Modules beside this one build layers of single functions.

The same inputs give the same files: versions and hashes come from the lock, byte code is compiled with
unchecked hashes (no time stamp inside), and what differs between two installs is removed. boto3 and botocore
are ours, not those of the Lambda runtime: the runtime's change without notice, and all together are 65 MB of
the 250 that Lambda takes.
"""

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dpp_cli.deploy.toolchain import ToolError, fresh, run, stamp
from dpp_cli.paths import DEPS_LAYER, DOMAIN_BUILD, DOMAIN_LAYER, UV

ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
MAX_UNZIPPED_BYTES = 250 * 1024 * 1024
"""Lambda's limit for a function and its layers together, unpacked."""

_RECIPE = "1"  # raise it when the steps below change, so that a built layer is built again

# Test suites, stubs, C sources and installer metadata are not read at run time. Licences and
# METADATA stay: licences require it, and importlib.metadata reads versions from METADATA.
_PRUNED_FOLDERS = frozenset({"tests", "test", "__pycache__"})
_PRUNED_SUFFIXES = frozenset({".pyi", ".pyx", ".pxd", ".c", ".h", ".lock"})
_PRUNED_NAMES = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "py.typed", "uv_cache.json"})


def machine_architecture() -> str:
    """The architecture of this machine, as Lambda and the wheels name it."""
    try:
        return ARCHITECTURES[platform.machine().lower()]
    except KeyError:
        raise ToolError(f"Lambda has no architecture {platform.machine()}") from None


def build_deps_layer(architecture: str | None = None) -> Path:
    """Build the layer unless it is up to date; return its root (the folder that holds `python/`).

    `architecture`: x86_64 or aarch64; this machine's by default, which is what the local stack needs.
    Raises ToolError.
    """
    return build_packages_layer(DEPS_LAYER, ["--no-default-groups"], architecture)


def build_packages_layer(
    root: Path,
    groups: Sequence[str],
    architecture: str | None = None,
    *,
    extend: Callable[[Path], None] | None = None,
    made_from: Sequence[Path] = (),
) -> Path:
    """Build `root/<architecture>` from what `uv export` with the options `groups` locks, unless it is up to date.

    `extend` adds to the layer's `python/` what no package has; `made_from` are the files which decide that.
    Raises ToolError.
    """
    chosen = architecture or machine_architecture()
    target = root / chosen
    root.mkdir(parents=True, exist_ok=True)
    requirements = root / "requirements.txt"
    # Not the lock itself: a new version of a test tool is no reason to build the layer again.
    options = ["--frozen", *groups, "--no-emit-project", "--no-header"]
    run([UV, "export", "--quiet", *options, "--output-file", requirements])
    inputs = [requirements, *made_from]
    salt = f"{_RECIPE}-{sys.version_info.major}.{sys.version_info.minor}"
    stamped = target.with_suffix(".stamp")
    if target.exists() and fresh(stamped, inputs, salt):
        return target
    with tempfile.TemporaryDirectory(dir=root) as scratch:
        built = Path(scratch) / "layer"
        _install(built / "python", requirements, chosen)
        _prune(built / "python")
        if extend is not None:
            extend(built / "python")
        _compile(built / "python")
        size = size_bytes(built)
        if size > MAX_UNZIPPED_BYTES:
            raise ToolError(f"the layer has {size / 2**20:.0f} MB unpacked; Lambda takes 250 MB")
        shutil.rmtree(target, ignore_errors=True)
        built.rename(target)
    stamped.mkdir(exist_ok=True)
    stamp(stamped, inputs, salt)
    return target


def build_domain_layer() -> Path:
    """Copy and compile the domain unless it is up to date; return the layer's root. Raises ToolError."""
    target = DOMAIN_BUILD
    sources = sorted(
        path for path in (DOMAIN_LAYER / "python").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    stamped = target.with_suffix(".stamp")
    salt = "\n".join([_RECIPE, *(str(path.relative_to(DOMAIN_LAYER)) for path in sources)])
    if target.exists() and fresh(stamped, sources, salt):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        built = Path(scratch) / "layer"
        shutil.copytree(DOMAIN_LAYER, built, ignore=shutil.ignore_patterns("__pycache__"))
        _compile(built / "python")
        shutil.rmtree(target, ignore_errors=True)
        built.rename(target)
    stamped.mkdir(exist_ok=True)
    stamp(stamped, sources, salt)
    return target


def size_bytes(folder: Path) -> int:
    """Bytes of all files below `folder`."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _install(target: Path, requirements: Path, architecture: str) -> None:
    checked = ["--require-hashes", "--no-deps", "--only-binary", ":all:"]
    # manylinux_2_28 is what Amazon Linux 2023, under Lambda's Python 3.13, can load.
    built_for = ["--python-platform", f"{architecture}-manylinux_2_28", "--python-version", "3.13"]
    where: list[str | Path] = ["--requirements", requirements, "--target", target, "--link-mode", "copy"]
    run(
        [UV, "pip", "install", "--quiet", *checked, *built_for, *where],
        environment={**os.environ, "UV_PYTHON": sys.executable},
    )


def _prune(python: Path) -> None:
    shutil.rmtree(python / "bin", ignore_errors=True)  # console scripts
    for path in _pruned(python):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _pruned(python: Path) -> Iterator[Path]:
    for path in sorted(python.rglob("*")):
        if not path.exists():  # its folder went before it
            continue
        if path.is_dir():
            if path.name in _PRUNED_FOLDERS:
                yield path
        elif path.suffix in _PRUNED_SUFFIXES or path.name in _PRUNED_NAMES:
            yield path


def _compile(python: Path) -> None:
    """Ship byte code: importing without it costs a cold start two to three times.

    Unchecked hashes: zip archives round file times, and a stamped `.pyc` would then be thrown away on load.
    """
    options = ["-q", "-f", "-j", "0", "--invalidation-mode", "unchecked-hash"]
    folders = ["-s", str(python), "-p", "/opt/python", str(python)]
    run([sys.executable, "-m", "compileall", *options, *folders])
