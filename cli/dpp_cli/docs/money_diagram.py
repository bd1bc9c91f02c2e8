"""The steps of finalize in docs/money.md, read from dpp/runs/finalize.py: `python -m dpp_cli.docs.money_diagram`.

Only what stands between the marks is written. The order is that of the calls in the code; a call that touches a server
and is not known here ends with an error, so that no step is left out of the diagram.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dpp.runs import finalize
from dpp_cli.docs.marked import rewritten
from dpp_cli.paths import ROOT

PATH = ROOT / "docs" / "money.md"
BEGIN, END = "<!-- drawn by python -m dpp_cli.docs.money_diagram -->", "<!-- drawn up to here -->"


@dataclass(frozen=True, slots=True)
class Step:
    """One step: on which server, in words, and what a crash after it leaves to whom."""

    server: str
    told: str
    left: str
    who: str


STEPS: Mapping[str, Step] = {
    "store.claim": Step(
        "Postgres",
        "claim, if status, version and lease are as expected: outcome, charge and pointer",
        "a CLAIMED run, its object missing where there was to be one",
        "reconcile after 5 min: as recorded; where a result was to be, FAILED with the minimum fee (RESULT_MISSING)",
    ),
    "_upload": Step(
        "S3",
        "upload the envelope, where there is one",
        "a CLAIMED run with its object, its money still reserved",
        "reconcile after 5 min: settles as recorded, and commits",
    ),
    "_move_money": Step(
        "Redis",
        "settle or refund, and leave a receipt",
        "a CLAIMED run whose money has moved, and the receipt",
        "reconcile after 5 min: asks again, gets the receipt, and commits",
    ),
    "_dispute": Step(
        "Postgres",
        "dispute, and stop",
        "a DISPUTED run, which no job touches",
        "an operator: `dpp dispute settle`",
    ),
    "store.commit": Step(
        "Postgres",
        "commit, if version and finalize token are as expected",
        "nothing",
        "nobody has to",
    ),
}
"""By the call in the code."""
_INSIDE = {"store.dispute", "storage.put_json", "ledger.refund_full", "ledger.settle"}
"""What those with a name of their own call."""
_BEFORE = {
    "_dispute": ("  alt the receipt is not what the claim recorded",),
    "store.commit": ("  else it is",),
}
_AFTER = {
    "store.claim": ("  Note over W,Postgres: who gets no row has lost, stops, and has touched nothing",),
    "store.commit": ("  end",),
}
_SERVERS = ("Postgres", "S3", "Redis")
_PATHS = ("finish", "roll_forward")


def calls() -> list[str]:
    """What `finish` and then `roll_forward` do to servers, in their order. Raises ValueError for what is unknown."""
    tree = ast.parse((ROOT / "layers/dpp/python/dpp/runs/finalize.py").read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found = [call for name in _PATHS for call in _touching(functions[name])]
    everywhere = {call for node in functions.values() for call in _touching(node)}
    others = {
        "store.reclaim",
        "store.resolve",
        "ledger.reopen",
    }  # of take_over and resolve, which roll forward then
    if unknown := everywhere - set(STEPS) - _INSIDE - others:
        raise ValueError(f"{finalize.__name__} has steps that {PATH.name} doesn't draw: {sorted(unknown)}")
    return found


def _touching(function: ast.FunctionDef) -> Iterator[str]:
    """The calls of a function that touch a server, in the order in which they are written."""
    nodes = sorted(
        (node for node in ast.walk(function) if isinstance(node, ast.Call)),
        key=lambda node: (node.lineno, node.col_offset),
    )
    for node in nodes:
        match node.func:
            case ast.Name(id=name) if name in STEPS:
                yield name
            case ast.Attribute(value=ast.Name(id=("store" | "ledger" | "storage") as owner), attr=name):
                yield f"{owner}.{name}"
            case ast.Attribute(value=ast.Attribute(attr=("ledger" | "storage") as owner), attr=name):
                yield f"{owner}.{name}"


def section() -> str:
    """The diagram, and what a crash after each step leaves."""
    lines = ["```mermaid", "sequenceDiagram", "  participant W as whoever ends the run"]
    lines += [f"  participant {server}" for server in _SERVERS]
    rows = ["| a crash after | leaves | who finishes, when |", "|---|---|---|"]
    for number, call in _numbered(calls()):
        step = STEPS[call]
        lines += _BEFORE.get(call, ())
        lines.append(f"  W->>{step.server}: {number}. {step.told}")
        lines += _AFTER.get(call, ())
        rows.append(f"| {number}. {step.told.partition(',')[0]} | {step.left} | {step.who} |")
    return "\n".join([*lines, "```", "", *rows])


def _numbered(done: list[str]) -> Iterator[tuple[int, str]]:
    """The calls with their numbers; a dispute and a commit are two ways to do the last."""
    number = 0
    for call in done:
        number += call != "store.commit" or "_dispute" not in done
        yield number, call


def drawn(page: str) -> str:
    """The page with its section as the code has it. Raises ValueError where a mark is missing."""
    return rewritten(page, BEGIN, section(), END, PATH)


if __name__ == "__main__":
    PATH.write_text(drawn(PATH.read_text(encoding="utf-8")), encoding="utf-8")
