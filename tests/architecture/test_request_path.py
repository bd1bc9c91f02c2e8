"""A newcomer follows a submit from the route to the last SQL in 8 files and 500 lines at most (conventions)."""

import ast
from pathlib import Path

from dpp.runs.store import QUERIES

ROOT = Path(__file__).parents[2]
DPP = "layers/dpp/python/dpp"
# In the order in which a submit passes through them. A file without names is read whole.
PATH: dict[str, tuple[str, ...]] = {
    "functions/runs_submit/handler.py": (),
    f"{DPP}/platform/http/auth.py": (),
    f"{DPP}/runs/api/http.py": ("read_request", "request_of", "receipt"),
    f"{DPP}/runs/submit.py": ("submit", "_admit", "_accept", "_enqueue", "_submitted"),
    f"{DPP}/runs/admission.py": ("admit", "_outcome", "remember"),
    f"{DPP}/runs/lua/admit.lua": (),
    f"{DPP}/runs/store.py": ("insert", "mark_enqueued"),
    f"{DPP}/runs/queries.sql": ("insert_run", "mark_enqueued"),
}


def _lines(path: Path, names: tuple[str, ...]) -> int:
    text = path.read_text(encoding="utf-8")
    if not names:
        return len(text.splitlines())
    if path.suffix == ".sql":
        return sum(len(QUERIES[name].splitlines()) + 1 for name in names)
    functions = {node.name: node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
    return sum((functions[name].end_lineno or 0) - functions[name].lineno + 1 for name in names)


def test_a_submit_reads_in_eight_files_and_five_hundred_lines() -> None:
    """README names the same files; a name that no longer exists fails here."""
    assert len(PATH) <= 8
    assert sum(_lines(ROOT / file, names) for file, names in PATH.items()) <= 500
