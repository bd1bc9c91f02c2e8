"""docs/auth-errors.md shows the states of errors, outbox and ledger as the code has them (AUTH-3, AUTH-4, AUTH-5)."""

import pytest

from dpp.auth_errors.machine import OUTBOX_TRANSITIONS, PROCESSED_TRANSITIONS, TRANSITIONS
from dpp_cli.docs import auth_error_diagram


def test_the_drawn_states_are_those_in_the_code() -> None:
    """Write them anew with `python -m dpp_cli.docs.auth_error_diagram`."""
    page = auth_error_diagram.PATH.read_text(encoding="utf-8")
    assert page == auth_error_diagram.drawn(page)
    assert all(section in page for section in auth_error_diagram.sections().values())


def test_every_way_is_drawn_and_none_besides() -> None:
    ways = zip(
        auth_error_diagram.MACHINES, (TRANSITIONS, OUTBOX_TRANSITIONS, PROCESSED_TRANSITIONS), strict=True
    )
    for machine, transitions in ways:
        diagram, _, _ = auth_error_diagram.sections()[machine].partition("```\n")
        arrows = [line.strip().partition(":")[0] for line in diagram.splitlines() if "-->" in line]
        wanted = {f"{way.source or '[*]'} --> {way.target}" for way in transitions}
        assert {arrow for arrow in arrows if not arrow.endswith("> [*]")} == wanted
        assert len(arrows) == len(set(arrows))


def test_only_what_stands_between_the_marks_is_written() -> None:
    marks = [
        f"{auth_error_diagram.begin(name)}\nold\n{auth_error_diagram.END}"
        for name in auth_error_diagram.MACHINES
    ]
    drawn = auth_error_diagram.drawn("before\n" + "\nbetween\n".join(marks) + "\nafter\n")
    assert drawn.startswith("before\n")
    assert drawn.endswith("\nafter\n")
    assert drawn.count("\nbetween\n") == 2
    assert "\nold\n" not in drawn
    for broken in ("", marks[0], "\n".join(marks[:2])):
        with pytest.raises(ValueError, match="lacks a mark"):
            auth_error_diagram.drawn(broken)
