"""docs/workspaces.md shows operations and owners of columns as the code has them (WS-6, WS-8)."""

import pytest

from dpp.workspaces.machine import DELETABLE, OPERATIONS
from dpp.workspaces.model import LEVELS, Operation, Phase
from dpp_cli.docs import workspace_diagram
from dpp_cli.docs.workspace_diagram import END, PARTS, begin


def test_the_drawn_machine_is_the_one_in_the_code() -> None:
    """Write it anew with `python -m dpp_cli.docs.workspace_diagram`."""
    page = workspace_diagram.PATH.read_text(encoding="utf-8")
    assert page == workspace_diagram.drawn(page)
    assert all(section in page for section in workspace_diagram.sections().values())


def test_every_operation_is_drawn_and_no_way_besides() -> None:
    diagram, _, table = workspace_diagram.sections()["operations"].partition("```\n")
    arrows = {line.strip() for line in diagram.splitlines() if "-->" in line}
    wanted = {f"{rule.source} --> {rule.target}: {rule.operation}" for rule in OPERATIONS if rule.source}
    deletions = {f"{phase} --> DELETED: delete" for phase in DELETABLE}
    assert arrows == {*wanted, *deletions, "[*] --> PENDING: create", "DELETED --> [*]: DELETING"}
    for operation in Operation:
        assert (f"\n| {operation} |" in table) == (operation is not Operation.NONE)


def test_what_is_drawn_leads_to_neighbours_alone() -> None:
    """WS-8, read off the page: RUNNING to PENDING is no arrow."""
    order = sorted((level, phase) for phase, level in LEVELS.items() if phase != Phase.DELETED)
    phases = [phase for _, phase in order]
    for rule in OPERATIONS:
        if rule.source is not None:
            assert abs(phases.index(rule.source) - phases.index(rule.target)) == 1


def test_only_what_stands_between_the_marks_is_written() -> None:
    marks = [f"{begin(part)}\nold\n{END}" for part in PARTS]
    drawn = workspace_diagram.drawn("before\n" + "\nbetween\n".join(marks) + "\nafter\n")
    assert drawn.startswith("before\n")
    assert drawn.endswith("\nafter\n")
    assert drawn.count("\nbetween\n") == 1
    assert "\nold\n" not in drawn
    for broken in ("", marks[0]):
        with pytest.raises(ValueError, match="lacks a mark"):
            workspace_diagram.drawn(broken)
