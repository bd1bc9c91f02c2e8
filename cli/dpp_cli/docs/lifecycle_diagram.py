"""Draws the states in docs/lifecycle.md from dpp/lifecycle/flow/machine.py: `python -m dpp_cli.docs.lifecycle_diagram`.

Only what stands between the marks is written, once for each of the three machines.
"""

from collections.abc import Mapping, Sequence

from dpp.lifecycle.flow.machine import EVENT_WAYS, MESSAGE_WAYS, TASK_WAYS, Way
from dpp_cli.docs.marked import rewritten
from dpp_cli.paths import ROOT

PATH = ROOT / "docs" / "lifecycle.md"
MACHINES: Mapping[str, Sequence[Way]] = {"event": EVENT_WAYS, "task": TASK_WAYS, "message": MESSAGE_WAYS}
END = "<!-- drawn up to here -->"


def begin(machine: str) -> str:
    """The mark before this machine."""
    return f"<!-- {machine}: drawn by python -m dpp_cli.docs.lifecycle_diagram -->"


def section(ways: Sequence[Way]) -> str:
    """The diagram and the table of ways."""
    sources = {way.source for way in ways}
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"  {way.source or '[*]'} --> {way.target}: {way.by}, {way.why}" for way in ways]
    lines += [
        f"  {target} --> [*]" for target in dict.fromkeys(way.target for way in ways) if target not in sources
    ]
    lines += ["```", "", "| from | to | by | why |", "|---|---|---|---|"]
    lines += [f"| {way.source or '—'} | {way.target} | {way.by} | {way.why} |" for way in ways]
    return "\n".join(lines)


def drawn(page: str) -> str:
    """The page with its sections as the code has them. Raises ValueError where a mark is missing."""
    for machine, ways in MACHINES.items():
        page = rewritten(page, begin(machine), section(ways), END, PATH)
    return page


if __name__ == "__main__":
    PATH.write_text(drawn(PATH.read_text(encoding="utf-8")), encoding="utf-8")
