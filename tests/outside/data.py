"""Fetches the public suites' data at fixed commits, if no folder with it is given.

The folder holds `html5lib-encoding/`, `html5lib-tree/`, `presidio-cases.json`, `urltestdata.json`, `toascii.json` and
`IdnaTestV2.json`. What comes from a package index is unpacked into `.dpp/outside`.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

W3LIB = "w3lib==2.5.0"
STDNUM = "python-stdnum==2.2"
_UNPACKED = Path(".dpp/outside")


class Source(NamedTuple):
    """A file or folder `path` of a GitHub `repository` at `commit`, kept as `name`."""

    name: str
    repository: str
    commit: str
    path: str


SOURCES = (
    Source("html5lib-encoding", "html5lib/html5lib-tests", "224991ec", "encoding"),
    Source("html5lib-tree", "flavorjones/html5lib-tests", "9f14a9a1", "tree-construction"),
    Source("urltestdata.json", "web-platform-tests/wpt", "308110b2", "url/resources/urltestdata.json"),
    Source("toascii.json", "web-platform-tests/wpt", "308110b2", "url/resources/toascii.json"),
    Source("IdnaTestV2.json", "web-platform-tests/wpt", "308110b2", "url/resources/IdnaTestV2.json"),
)


def fetch_missing(data: Path) -> None:
    """Fetch into `data` what is not there yet. Raises `subprocess.CalledProcessError` if a fetch fails."""
    data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        clones: dict[str, Path] = {}
        for source in SOURCES:
            if not (data / source.name).exists():
                clone = clones.setdefault(source.repository, _clone(source, Path(scratch)))
                _copy(clone / source.path, data / source.name)


def w3lib_tests() -> Path:
    """Return w3lib's tests/test_encoding.py, from its source distribution on the package index."""
    return _source("w3lib", W3LIB) / "tests" / "test_encoding.py"


def stdnum_tests() -> Path:
    """Return python-stdnum's folder of doctests, from its source distribution on the package index."""
    return _source("python_stdnum", STDNUM) / "tests"


def _source(name: str, requirement: str) -> Path:
    target = _UNPACKED / name
    if not target.exists():
        with tempfile.TemporaryDirectory() as scratch:
            _run(
                [
                    "python3",
                    "-m",
                    "pip",
                    "download",
                    "-q",
                    "--no-deps",
                    "--no-binary",
                    ":all:",
                    "-d",
                    scratch,
                    requirement,
                ]
            )
            archive = next(Path(scratch).glob(f"{name}-*.tar.gz"))
            shutil.unpack_archive(archive, scratch, filter="data")
            shutil.copytree(next(p for p in Path(scratch).glob(f"{name}-*") if p.is_dir()), target)
    return target


def _clone(source: Source, scratch: Path) -> Path:
    target = scratch / source.repository.replace("/", "+")
    if not target.exists():
        url = f"https://github.com/{source.repository}.git"
        _run(["git", "clone", "-q", "--filter=tree:0", "--no-checkout", url, str(target)])
        _run(["git", "-C", str(target), "sparse-checkout", "set", "--no-cone", source.path])
        _run(["git", "-C", str(target), "checkout", "-q", source.commit])
    return target


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True)
