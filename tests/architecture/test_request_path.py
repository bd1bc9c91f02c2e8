"""A newcomer follows a submit in at most 12 files and 1,200 lines, each counted whole, from the route to the last SQL.

The path is computed: the modules that the handler imports, directly or not, and the Lua and SQL files that they run.
Each file that is reached is counted or left out here with a reason, so a new one on the way fails the test until then.
"""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from dpp.platform.db.redis import Script

ROOT = Path(__file__).parents[2]
LAYER = ROOT / "layers/dpp/python"
HANDLER = ROOT / "functions/runs_submit/handler.py"
MAX_FILES, MAX_LINES = 12, 1_200

VALUES = "values, tables and error classes; no step of the path"
ENDS = "a run's end is a path of its own (RUN-19, docs/money.md), which give_up enters by one call"
LEFT_OUT = {
    "dpp/packs/": "the models of each pack's inputs",
    "dpp/platform/": "drivers, settings, key look-up and the HTTP edge: the same for every API function",
    "dpp/money/": "the Python side of ledger.lua: arguments, replies, and the check for a lost ledger",
    "dpp/runs/api/contract.py": VALUES,
    "dpp/runs/api/problems.py": VALUES,
    "dpp/runs/endings.py": VALUES,
    "dpp/runs/errors.py": VALUES,
    "dpp/runs/machine.py": VALUES,
    "dpp/runs/message.py": VALUES,
    "dpp/runs/model.py": "the request and the run's row; no step but the payload hash",
    "dpp/runs/finalize.py": ENDS,
    "dpp/runs/store.py": ENDS,
    "dpp/runs/read.py": "imported by api/http.py, for the response of a read",
    "dpp/runs/lua/observe.lua": "run by a read",
    "dpp/runs/lua/forget.lua": "two statements, the inverse of remember.lua",
}
COUNTED_ALL_THE_SAME = ("dpp/platform/http/auth.py", "dpp/platform/db/lua/rate_limit.lua", "dpp/money/lua/ledger.lua")


def _name(file: Path) -> str:
    return str(file.relative_to(LAYER if file.is_relative_to(LAYER) else ROOT))


def _reason(file: Path) -> str | None:
    """The key of LEFT_OUT for this file, None if it is counted."""
    name = _name(file)
    if name in COUNTED_ALL_THE_SAME:
        return None
    return next((left_out for left_out in LEFT_OUT if name.startswith(left_out)), None)


def _imports(file: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
            for root in (LAYER, ROOT / "functions"):
                found = root.joinpath(*name.split(".")).with_suffix(".py")
                if found.exists():
                    yield found


def _scripts_and_queries(file: Path) -> Iterator[Path]:
    """The Lua files whose text is part of a script of this module, and the SQL files that it names."""
    module = import_module(_name(file).removeprefix("functions/").removesuffix(".py").replace("/", "."))
    sources = [value.source for value in vars(module).values() if isinstance(value, Script)]
    for lua in LAYER.rglob("*.lua"):
        if any(lua.read_text(encoding="utf-8") in source for source in sources):
            yield lua
    for sql in file.parent.glob("*.sql"):
        if f'"{sql.name}"' in file.read_text(encoding="utf-8"):
            yield sql


def _reached() -> set[Path]:
    reached, ahead = set[Path](), {HANDLER}
    while ahead:
        file = ahead.pop()
        reached.add(file)
        if file.suffix == ".py" and _reason(file) is None:
            ahead |= {*_imports(file), *_scripts_and_queries(file)} - reached
    return reached


def test_a_submit_is_followed_in_12_files_and_1200_lines() -> None:
    counted = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in _reached() if not _reason(file)}
    listed = "\n".join(f"{lines:5} {_name(file)}" for file, lines in sorted(counted.items()))
    assert len(counted) <= MAX_FILES, listed
    assert sum(counted.values()) <= MAX_LINES, listed


def test_every_file_that_is_left_out_is_on_the_way() -> None:
    """A reason for a file that is no longer reached would hide the next file of that name."""
    assert {_reason(file) for file in _reached()} - {None} == set(LEFT_OUT)
    assert {_name(file) for file in _reached()} >= set(COUNTED_ALL_THE_SAME)


def test_the_readme_names_the_files() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    paragraph = next(part for part in readme.split("\n\n") if part.startswith("To follow a submit"))
    assert all(file.name in paragraph for file in _reached() if not _reason(file))
