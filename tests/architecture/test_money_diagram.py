"""docs/money.md draws finalize as it stands in the code (RUN-19, D3)."""

import pytest

from dpp.runs.finalize import STUCK_AFTER_SECONDS
from dpp_cli.docs import money_diagram


def test_the_drawn_steps_are_those_in_the_code() -> None:
    """Write them anew with `python -m dpp_cli.docs.money_diagram`."""
    page = money_diagram.PATH.read_text(encoding="utf-8")
    assert page == money_diagram.drawn(page)


def test_the_steps_come_in_the_order_that_the_rules_want() -> None:
    """The intent before the money, the money before the end; and no other call to a server."""
    assert money_diagram.calls() == ["store.claim", "_upload", "_move_money", "_dispute", "store.commit"]
    assert set(money_diagram.calls()) == set(money_diagram.STEPS)


def test_a_step_that_is_not_drawn_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: step for name, step in money_diagram.STEPS.items() if name != "store.commit"}
    monkeypatch.setattr(money_diagram, "STEPS", known)
    with pytest.raises(ValueError, match=r"store\.commit"):
        money_diagram.calls()


def test_the_times_that_the_page_names_are_those_of_the_code() -> None:
    assert f"after {STUCK_AFTER_SECONDS // 60} min" in money_diagram.STEPS["store.claim"].who


def test_a_page_without_a_place_for_it_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks a mark"):
        money_diagram.drawn("# Money\n")
