"""Rules that no reviewer should have to check by eye."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOMAIN = ROOT / "layers" / "dpp" / "python" / "dpp"
SOURCES = sorted(
    path
    for folder in (
        *(DOMAIN, ROOT / "functions", ROOT / "cli" / "dpp_cli", ROOT / "client"),
        *(ROOT / "cdk", ROOT / "migrations"),
    )
    for path in folder.rglob("*.py")
    if not {"cdk.out", "node_modules"} & set(path.parts)
)
ENDING_QUERIES = {"claim", "reclaim", "commit", "dispute"}
PROMISED = [
    *(f"RUN-{number}" for number in (*range(1, 27), *range(29, 35))),
    *(f"TIX-{number}" for number in range(1, 8)),
    *(f"AUTH-{number}" for number in range(1, 12)),
    *(f"WS-{number}" for number in range(1, 15)),
    *(f"LIFE-{number}" for number in range(1, 14)),
]


def _functions(path: Path) -> Iterator[ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_only_the_finalize_module_ends_a_run() -> None:
    """D3: `runs/finalize.py` alone calls the queries that claim, take over, commit or dispute."""
    callers = {
        path.relative_to(DOMAIN).as_posix()
        for path in DOMAIN.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in ENDING_QUERIES
        and isinstance(node.value, ast.Name)
        and node.value.id == "store"
    }
    assert callers == {"runs/finalize.py"}


@pytest.mark.parametrize("number", PROMISED)
def test_every_requirement_that_is_met_is_cited_by_a_test(number: str) -> None:
    """A reader finds the test of a number by searching for it."""
    cited = re.compile(rf"{number}(?![0-9])|{number.lower().replace('-', '_')}(?![0-9])")
    tests = (path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__))
    assert any(cited.search(path.read_text(encoding="utf-8")) for path in tests)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_and_functions_stay_readable(path: Path) -> None:
    """Conventions: files to about 400 lines, functions to about 40 (docstring aside)."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 420
    for function in _functions(path):
        first = function.body[1] if ast.get_docstring(function) and len(function.body) > 1 else function.body[0]
        assert (function.end_lineno or 0) - first.lineno + 1 <= 45, f"{function.name} in {path.name}"


def test_nothing_reads_the_environment_at_import() -> None:
    """Conventions: `os.environ` is read in a wiring, by a function, and nowhere at module level."""
    for path in (*DOMAIN.rglob("*.py"), *(ROOT / "functions").rglob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        for statement in module.body:
            if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
                continue
            attributes = {node.attr for node in ast.walk(statement) if isinstance(node, ast.Attribute)}
            assert not attributes & {"environ", "getenv"}, f"{path}: {ast.unparse(statement)[:60]}"


def test_the_client_imports_what_its_package_asks_for_and_nothing_else() -> None:
    """`pip install ./client` is all that a program needs: httpx, pydantic, the standard library."""
    asked = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split("[<>=]", one)[0] for one in asked["dependencies"]}
    imported = {
        name.partition(".")[0]
        for path in (ROOT / "client").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
    }
    assert imported - sys.stdlib_module_names - {"dpp_client"} == names == {"httpx", "pydantic"}
