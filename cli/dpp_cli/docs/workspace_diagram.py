"""The machine in docs/workspaces.md, drawn from dpp/workspaces/machine.py: `python -m dpp_cli.docs.workspace_diagram`.

Only what stands between the marks is written: the operations, and who writes which column.
"""

from collections.abc import Mapping

from dpp.workspaces.machine import (
    API_COLUMNS,
    DELETABLE,
    LONG,
    MONITOR_COLUMNS,
    OPERATIONS,
    RECONCILER_COLUMNS,
    OperationRule,
)
from dpp.workspaces.model import LEVELS, Phase
from dpp_cli.docs.marked import rewritten
from dpp_cli.paths import ROOT

PATH = ROOT / "docs" / "workspaces.md"
PARTS = ("operations", "columns")
END = "<!-- drawn up to here -->"


def begin(part: str) -> str:
    """The mark before this part."""
    return f"<!-- {part}: drawn by python -m dpp_cli.docs.workspace_diagram -->"


def sections() -> Mapping[str, str]:
    """What stands between the marks of each part."""
    return {"operations": "\n".join((*_diagram(), "", *_operations())), "columns": "\n".join(_columns())}


def drawn(page: str) -> str:
    """The page with its sections as the code has them. Raises ValueError where a mark is missing."""
    for part, section in sections().items():
        page = rewritten(page, begin(part), section, END, PATH)
    return page


def _diagram() -> list[str]:
    """Each operation as an arrow; a deletion, which a request makes and no operation, as one from where it may be."""
    lines = ["```mermaid", "stateDiagram-v2", "  [*] --> PENDING: create"]
    lines += [f"  {rule.source} --> {rule.target}: {rule.operation}" for rule in OPERATIONS if rule.source]
    lines += [f"  {phase} --> {Phase.DELETED}: delete" for phase in _deletable()]
    lines += [f"  {rule.target} --> [*]: {rule.operation}" for rule in OPERATIONS if not rule.source]
    return [*lines, "```"]


def _operations() -> list[str]:
    lines = [
        "| operation | from | to | does | complete when seen | one attempt |",
        "|---|---|---|---|---|--:|",
    ]
    return lines + [_row(rule) for rule in OPERATIONS]


def _row(rule: OperationRule) -> str:
    source = rule.source or Phase.DELETED
    target = "nothing is left" if rule.source is None else rule.target
    actions = ", ".join(f"{action}{'*' if action in LONG else ''}" for action in rule.actions)
    minutes = f"{rule.deadline_seconds // 60} min"
    return f"| {rule.operation} | {source} | {target} | {actions} | {rule.complete_when} | {minutes} |"


def _deletable() -> list[Phase]:
    """By their level, ERROR last, which has none."""
    return sorted(DELETABLE, key=lambda phase: LEVELS.get(phase, 100))


def _columns() -> list[str]:
    lines = ["| who | role | columns |", "|---|---|---|"]
    for who, columns in (
        ("API", API_COLUMNS),
        ("monitor", MONITOR_COLUMNS),
        ("reconciler", RECONCILER_COLUMNS),
    ):
        names = ", ".join(f"`{column}`" for column in columns)
        lines.append(f"| {who} | `dpp_workspace_{who.lower()}` | {names} |")
    return lines


if __name__ == "__main__":
    PATH.write_text(drawn(PATH.read_text(encoding="utf-8")), encoding="utf-8")
