"""No float on any money path (RUN-23), checked in the source."""

import ast
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

import dpp

_ROOT = Path(str(files(dpp)))
# A reliability score is not an amount of money, and is a number in JSON.
_NOT_MONEY = {"float(run.min_reliability_score)", "float(score)"}


def _money_modules() -> list[str]:
    """All of dpp/money, the prices, and every module of runs that names an amount in micros."""
    runs = (path for path in _ROOT.glob("runs/**/*.py") if "usd_micros" in path.read_text())
    found = {*_ROOT.glob("money/**/*.py"), _ROOT / "packs/prices.py", *runs}
    return sorted(path.relative_to(_ROOT).as_posix() for path in found)


def _floats(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=float()):
                yield ast.unparse(node)
            case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
                yield ast.unparse(node)
            case ast.Call(func=ast.Name(id="float" | "round")):
                yield ast.unparse(node)
            case _:
                pass


def test_the_money_paths_are_found() -> None:
    """Without a module, the next test would always pass."""
    names = set(_money_modules())
    expected = {"money/fees.py", "money/micros.py", "money/ledger.py", "money/credits.py", "money/audit.py"}
    expected |= {
        "runs/submit.py",
        "runs/finalize.py",
        "runs/jobs/reap.py",
        "runs/jobs/reconcile.py",
        "runs/jobs/sweep.py",
    }
    assert names >= expected | {"packs/prices.py"}


@pytest.mark.parametrize("module", _money_modules())
def test_there_is_no_float_on_a_money_path(module: str) -> None:
    """RUN-23: no float literal, true division, float() or round() in a module with amounts."""
    found = set(_floats(ast.parse((_ROOT / module).read_text())))
    assert found - _NOT_MONEY == set()


@pytest.mark.parametrize("code", ["x = 0.02", "x = a / b", "x /= 2", "x = float(a)", "x = round(a)", "x = 1e3"])
def test_a_float_is_found(code: str) -> None:
    assert list(_floats(ast.parse(code)))


def test_no_lua_script_writes_a_number_with_tostring() -> None:
    """D2: `tostring(10^14)` is `1e+14`; the ledger uses INCRBY, DECRBY and an integer format."""
    scripts = sorted(_ROOT.glob("money/lua/*.lua"))
    assert len(scripts) >= 5
    for script in scripts:
        code = "\n".join(line.split("--")[0] for line in script.read_text().splitlines())
        assert "tostring" not in code, script.name
        assert "'SET'" not in code, script.name
