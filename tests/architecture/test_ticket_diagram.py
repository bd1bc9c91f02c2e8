"""docs/tickets.md shows the states of a ticket as the code has them (TIX-2)."""

import pytest

from dpp_cli.docs import ticket_diagram


def test_the_drawn_states_are_those_in_the_code() -> None:
    """Write them anew with `python -m dpp_cli.docs.ticket_diagram`."""
    page = ticket_diagram.PATH.read_text(encoding="utf-8")
    assert page == ticket_diagram.drawn(page)
    assert ticket_diagram.section() in page


def test_only_what_stands_between_the_marks_is_written() -> None:
    page = f"before\n{ticket_diagram.BEGIN}\nold\n{ticket_diagram.END}\nafter\n"
    drawn = ticket_diagram.drawn(page)
    assert drawn.startswith("before\n")
    assert drawn.endswith("\nafter\n")
    assert "old" not in drawn
    for broken in ("", ticket_diagram.BEGIN, ticket_diagram.END):
        with pytest.raises(ValueError, match="lacks a mark"):
            ticket_diagram.drawn(broken)
