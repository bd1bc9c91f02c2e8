"""The steps of finalize for docs/money.md, in the order of the calls in dpp/runs/finalize.py.

A call to a server that this module doesn't know is an error, so that the diagram leaves no step out.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dpp_cli.paths import ROOT


@dataclass(frozen=True, slots=True)
class Step:
    """One step: the server, what is done there, what a crash after it leaves, and who finishes then."""

    server: str
    action: str
    left: str
    finisher: str


STEPS: Mapping[str, Step] = {
    "store.claim": Step(
        "Postgres",
        "claim, if status, version and lease are as expected: outcome, charge and pointer",
        "a CLAIMED run, without its object if it has a result",
        "reconcile after 5 min: as recorded, or FAILED with the minimum fee (RESULT_MISSING) if a result was expected",
    ),
    "_upload": Step(
        "S3",
        "upload the envelope, if there is one",
        "a CLAIMED run with its object; its money is still reserved",
        "reconcile after 5 min: settles as recorded and commits",
    ),
    "_move_money": Step(
        "Redis",
        "settle or refund, and store a ledger receipt",
        "a CLAIMED run whose money has moved, and the ledger receipt",
        "reconcile after 5 min: repeats the call, gets the receipt and commits",
    ),
    "_dispute": Step(
        "Postgres", "dispute, and stop", "a DISPUTED run, which no job changes", "an operator: `dpp dispute settle`"
    ),
    "store.commit": Step(
        "Postgres", "commit, if version and finalize token are as expected", "nothing", "nothing to do"
    ),
}
"""By the call in the code."""
_INSIDE = {"store.dispute", "storage.put_json", "ledger.refund_full", "ledger.settle"}
"""Calls that `_upload`, `_move_money` and `_dispute` make."""
_BEFORE_ROLL_FORWARD = {"store.reclaim", "store.resolve", "ledger.reopen"}
"""Calls of `take_over` and `resolve`, which then roll forward."""
_BEFORE = {
    "_dispute": ("  alt the receipt differs from what the claim recorded",),
    "store.commit": ("  else it is the same",),
}
_AFTER = {
    "store.claim": ("  Note over W,Postgres: a caller that gets no row has lost; it stops and has changed nothing",),
    "store.commit": ("  end",),
}
_SERVERS = ("Postgres", "S3", "Redis")
_PATHS = ("finish", "roll_forward")


def calls() -> list[str]:
    """The calls to servers of `finish` and then `roll_forward`, in order. Raises ValueError for an unknown call."""
    tree = ast.parse((ROOT / "layers/dpp/python/dpp/runs/finalize.py").read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found = [call for name in _PATHS for call in _touching(functions[name])]
    everywhere = {call for node in functions.values() for call in _touching(node)}
    if unknown := everywhere - set(STEPS) - _INSIDE - _BEFORE_ROLL_FORWARD:
        raise ValueError(
            f"dpp/runs/finalize.py has calls that docs/money.md doesn't draw: {', '.join(sorted(unknown))}; "
            "add them to STEPS in dpp_cli/docs/finalize_diagram.py"
        )
    return found


def _touching(function: ast.FunctionDef) -> Iterator[str]:
    """The calls to servers of a function, in the order of its source."""
    nodes = sorted(
        (node for node in ast.walk(function) if isinstance(node, ast.Call)),
        key=lambda node: (node.lineno, node.col_offset),
    )
    for node in nodes:
        match node.func:
            case ast.Attribute(attr="using"):  # Database.using calls its first argument
                called = node.args[0]
            case called:
                pass
        match called:
            case ast.Name(id=name) if name in STEPS:
                yield name
            case ast.Attribute(value=ast.Name(id=("store" | "ledger" | "storage") as owner), attr=name):
                yield f"{owner}.{name}"
            case ast.Attribute(value=ast.Attribute(attr=("ledger" | "storage") as owner), attr=name):
                yield f"{owner}.{name}"


def section() -> str:
    """The diagram, and a table of what a crash after each step leaves."""
    lines = ["```mermaid", "sequenceDiagram", "  participant W as the caller of finalize"]
    lines += [f"  participant {server}" for server in _SERVERS]
    rows = ["| a crash after | leaves | who finishes, when |", "|---|---|---|"]
    for number, call in _numbered(calls()):
        step = STEPS[call]
        lines += _BEFORE.get(call, ())
        lines.append(f"  W->>{step.server}: {number}. {step.action}")
        lines += _AFTER.get(call, ())
        rows.append(f"| {number}. {step.action.partition(',')[0]} | {step.left} | {step.finisher} |")
    return "\n".join([*lines, "```", "", *rows])


def _numbered(done: list[str]) -> Iterator[tuple[int, str]]:
    """The calls with their numbers; dispute and commit share the last number, because a run gets one of them."""
    number = 0
    for call in done:
        number += call != "store.commit" or "_dispute" not in done
        yield number, call
