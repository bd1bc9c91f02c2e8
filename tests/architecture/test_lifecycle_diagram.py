"""docs/lifecycle.md shows the states of events, tasks and messages as the code has them (LIFE-1, LIFE-2, LIFE-5)."""

import pytest

from dpp.lifecycle.flow.machine import EventStatus, MessageStatus, TaskStatus
from dpp_cli.docs import lifecycle_diagram
from dpp_cli.docs.lifecycle_diagram import END, MACHINES, begin, section


def test_the_drawn_states_are_those_in_the_code() -> None:
    """Write them anew with `python -m dpp_cli.docs.lifecycle_diagram`."""
    page = lifecycle_diagram.PATH.read_text(encoding="utf-8")
    assert page == lifecycle_diagram.drawn(page)
    assert all(section(ways) in page for ways in MACHINES.values())


def test_every_way_is_drawn_and_what_has_none_is_an_end() -> None:
    ends = {"event": {"COMPLETED", "FAILED"}, "task": {"COMPLETED"}, "message": {"SENT"}}
    for machine, statuses in {"event": EventStatus, "task": TaskStatus, "message": MessageStatus}.items():
        diagram, _, table = section(MACHINES[machine]).partition("```\n")
        arrows = [line.strip().partition(":")[0] for line in diagram.splitlines() if "-->" in line]
        wanted = [f"{way.source or '[*]'} --> {way.target}" for way in MACHINES[machine]]
        assert arrows == [*wanted, *(f"{status} --> [*]" for status in statuses if status in ends[machine])]
        assert all(f"| {way.target} | {way.by} | {way.why} |" in table for way in MACHINES[machine])


def test_only_what_stands_between_the_marks_is_written() -> None:
    marks = [f"{begin(machine)}\nold\n{END}" for machine in MACHINES]
    drawn = lifecycle_diagram.drawn("before\n" + "\nbetween\n".join(marks) + "\nafter\n")
    assert drawn.startswith("before\n")
    assert drawn.endswith("\nafter\n")
    assert drawn.count("\nbetween\n") == 2
    assert "\nold\n" not in drawn
    for broken in ("", marks[0], "\n".join(marks[:2])):
        with pytest.raises(ValueError, match="lacks a mark"):
            lifecycle_diagram.drawn(broken)
