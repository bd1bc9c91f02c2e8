"""Draws the states in docs/auth-errors.md from dpp/auth_errors/machine.py: `python -m dpp_cli.docs.auth_error_diagram`.

Only what stands between the marks is written, once for each of the three machines.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import groupby

from dpp.auth_errors.machine import (
    DECIDED,
    OUTBOX_TRANSITIONS,
    PROCESSED_TRANSITIONS,
    TERMINAL,
    TRANSITIONS,
    DecisionType,
    Transition,
)
from dpp_cli.docs.marked import rewritten
from dpp_cli.paths import ROOT

PATH = ROOT / "docs" / "auth-errors.md"
MACHINES = ("error", "outbox", "ledger")
END = "<!-- drawn up to here -->"


def begin(machine: str) -> str:
    """The mark before this machine."""
    return f"<!-- {machine}: drawn by python -m dpp_cli.docs.auth_error_diagram -->"


def sections() -> Mapping[str, str]:
    """What stands between the marks of each machine."""
    return {
        "error": "\n\n".join((_machine(TRANSITIONS, TERMINAL), _decisions())),
        "outbox": _machine(OUTBOX_TRANSITIONS, ()),
        "ledger": _machine(PROCESSED_TRANSITIONS, ()),
    }


def drawn(page: str) -> str:
    """The page with its sections as the code has them. Raises ValueError where a mark is missing."""
    for machine, section in sections().items():
        page = rewritten(page, begin(machine), section, END, PATH)
    return page


def _machine[Status: StrEnum](
    ways: Sequence[Transition[Status]], terminal: frozenset[Status] | tuple[()]
) -> str:
    """The diagram and the table of ways; in the diagram those between two states are one arrow."""
    ordered = sorted(ways, key=lambda way: (str(way.source or ""), way.target, ways.index(way)))
    lines = ["```mermaid", "stateDiagram-v2"]
    for (source, target), same in groupby(ordered, key=lambda way: (way.source, way.target)):
        queries = dict.fromkeys(way.query for way in same)
        lines.append(f"  {source or '[*]'} --> {target}: {', '.join(queries)}")
    lines += [f"  {status} --> [*]" for status in sorted(terminal)]
    lines += ["```", "", "| from | to | query | by |", "|---|---|---|---|"]
    lines += [f"| {way.source or '—'} | {way.target} | `{way.query}` | {way.by} |" for way in ways]
    return "\n".join(lines)


def _decisions() -> str:
    """What each decision leads to, and from where."""
    lines = ["| decision | leads to | from |", "|---|---|---|"]
    for decision in DecisionType:
        target = DECIDED[decision]
        sources = dict.fromkeys(
            way.source for way in TRANSITIONS if way.query == "decide" and way.target is target
        )
        lines.append(f"| {decision} | {target} | {', '.join(str(source) for source in sources)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    PATH.write_text(drawn(PATH.read_text(encoding="utf-8")), encoding="utf-8")
