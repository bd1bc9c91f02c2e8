"""The state machines and their diagrams in docs/.

RUN-19, RUN-24, TIX-2, AUTH-3, AUTH-4, AUTH-5, WS-6, WS-8, LIFE-1, LIFE-2, LIFE-5.
"""

from typing import Any

import pytest

from dpp.auth_errors.machine import (
    ERROR_MACHINE,
    OUTBOX_MACHINE,
    PROCESSED_MACHINE,
    AuthErrorStatus,
    OutboxStatus,
    ProcessedStatus,
)
from dpp.auth_errors.outbox.tables import QUERIES as OUTBOX_QUERIES
from dpp.auth_errors.store import QUERIES as ERROR_QUERIES
from dpp.lifecycle.flow.intake.event_rows import QUERIES as EVENT_QUERIES
from dpp.lifecycle.flow.machine import (
    EVENT_MACHINE,
    MESSAGE_MACHINE,
    TASK_MACHINE,
    EventStatus,
    MessageStatus,
    TaskStatus,
)
from dpp.lifecycle.flow.store import QUERIES as FLOW_QUERIES
from dpp.platform.state_machine import StateMachine
from dpp.runs.finalize import STUCK_AFTER_SECONDS
from dpp.runs.machine import MACHINE as RUN_MACHINE
from dpp.tickets.machine import MACHINE as TICKET_MACHINE
from dpp.tickets.machine import TicketStatus
from dpp.tickets.store import QUERIES as TICKET_QUERIES
from dpp.workspaces.machine import DELETABLE, OPERATIONS
from dpp.workspaces.machine import MACHINE as WORKSPACE_MACHINE
from dpp.workspaces.model import LEVELS, Operation, Phase
from dpp_cli.docs import diagrams, finalize_diagram
from dpp_cli.docs.marked import rewritten
from dpp_cli.paths import ROOT

MACHINES: dict[str, StateMachine[Any]] = {
    "run": RUN_MACHINE,
    "ticket": TICKET_MACHINE,
    "error": ERROR_MACHINE,
    "outbox": OUTBOX_MACHINE,
    "processed": PROCESSED_MACHINE,
    "event": EVENT_MACHINE,
    "task": TASK_MACHINE,
    "message": MESSAGE_MACHINE,
    "operations": WORKSPACE_MACHINE,
}
STATUSES: dict[str, Any] = {
    "ticket": TicketStatus,
    "error": AuthErrorStatus,
    "outbox": OutboxStatus,
    "processed": ProcessedStatus,
    "event": EventStatus,
    "task": TaskStatus,
    "message": MessageStatus,
}
QUERIES = {
    "ticket": TICKET_QUERIES.names(),
    "error": ERROR_QUERIES.names(),
    "outbox": (*OUTBOX_QUERIES.names(), "finish"),
    "processed": OUTBOX_QUERIES.names(),
    "event": (*EVENT_QUERIES.names(), *FLOW_QUERIES.names()),
    "task": FLOW_QUERIES.names(),
    "message": FLOW_QUERIES.names(),
}
BY_NAME = {section.name: section for section in diagrams.SECTIONS}


@pytest.mark.parametrize("page", sorted({section.page for section in diagrams.SECTIONS}))
def test_generated_sections_of_a_page_are_current(page: str) -> None:
    """Generate them again with `python -m dpp_cli.docs.diagrams`."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert text == diagrams.pages()[page]


@pytest.mark.parametrize("section", diagrams.SECTIONS, ids=lambda section: section.name)
def test_only_the_text_between_the_marks_is_replaced(section: diagrams.Section) -> None:
    path = ROOT / "docs" / section.page
    page = f"before\n{section.begin}\nold\n{diagrams.END}\nafter\n"
    written = rewritten(page, section.begin, section.render(), diagrams.END, path)
    assert written == f"before\n{section.begin}\n\n{section.render()}\n\n{diagrams.END}\nafter\n"
    for broken in ("", section.begin, diagrams.END):
        with pytest.raises(ValueError, match="lacks the marks"):
            rewritten(broken, section.begin, section.render(), diagrams.END, path)


@pytest.mark.parametrize(("name", "machine"), MACHINES.items())
def test_every_transition_is_drawn_once_and_nothing_else(name: str, machine: StateMachine[Any]) -> None:
    diagram, _, table = BY_NAME[name].render().partition("```\n")
    lines = [line.strip() for line in diagram.splitlines()]
    title = dict(line.removeprefix("state ").rsplit(" as ", 1)[::-1] for line in lines if " as " in line)
    title = {key: value.strip('"') for key, value in title.items()}
    drawn = {}
    for line in lines:
        if "-->" in line:
            arrow, _, actions = line.partition(": ")
            source, _, target = arrow.partition(" --> ")
            ends = title.get(source, source), title.get(target, target)
            assert ends not in drawn
            drawn[ends] = set(actions.split(", "))
    expected: dict[tuple[str, str], set[str]] = {}
    for one in machine.transitions:
        expected.setdefault((str(one.source or "[*]"), str(one.target)), set()).add(str(one.action))
    assert drawn == expected | {(str(state), "[*]"): {""} for state in machine.terminal}
    if name != "operations":
        rows = [line for line in table.splitlines() if line.startswith("|")][2:]
        begun = [f"| {one.source or '—'} | {one.target} | `{one.action}` | {one.by} |" for one in machine.transitions]
        assert all(row.startswith(begin) for row, begin in zip(rows, begun, strict=True))
        assert all(one.when in row for row, one in zip(rows, machine.transitions, strict=True))


@pytest.mark.parametrize(("name", "statuses"), STATUSES.items())
def test_every_status_is_reachable_and_a_terminal_one_is_never_left(name: str, statuses: Any) -> None:
    machine = MACHINES[name]
    assert machine.states == set(statuses)
    assert not [one for one in machine.transitions if one.source in machine.terminal]
    left = {one.source for one in machine.transitions}
    assert machine.terminal == {status for status in statuses if status not in left}


@pytest.mark.parametrize(("name", "names"), QUERIES.items())
def test_every_action_is_a_named_query(name: str, names: tuple[str, ...]) -> None:
    """Those of runs: tests/schema/test_transitions.py."""
    assert {one.action for one in MACHINES[name].transitions} <= set(names)


def test_every_operation_of_a_workspace_is_drawn() -> None:
    diagram, _, table = BY_NAME["operations"].render().partition("```\n")
    arrows = {line.strip() for line in diagram.splitlines() if "-->" in line}
    operations = {f"{rule.source} --> {rule.target}: {rule.operation}" for rule in OPERATIONS if rule.source}
    deletions = {f"{phase} --> DELETED: delete" for phase in DELETABLE}
    ends = {"[*] --> PENDING: create", "DELETED --> DELETED: DELETING", "DELETED --> [*]"}
    assert arrows == operations | deletions | ends
    for operation in Operation:
        assert (f"\n| {operation} |" in table) == (operation is not Operation.NONE)


def test_an_operation_leads_to_a_neighbouring_phase() -> None:
    """WS-8: there is no arrow from RUNNING to PENDING."""
    order = sorted((level, phase) for phase, level in LEVELS.items() if phase != Phase.DELETED)
    phases = [phase for _, phase in order]
    for rule in OPERATIONS:
        if rule.source is not None:
            assert abs(phases.index(rule.source) - phases.index(rule.target)) == 1


def test_finalize_records_the_intent_before_it_moves_money_and_then_commits() -> None:
    """RUN-19, D3: the order of the calls, and no other call to a server."""
    assert finalize_diagram.calls() == ["store.claim", "_upload", "_move_money", "_dispute", "store.commit"]
    assert set(finalize_diagram.calls()) == set(finalize_diagram.STEPS)


def test_an_unknown_step_of_finalize_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: step for name, step in finalize_diagram.STEPS.items() if name != "store.commit"}
    monkeypatch.setattr(finalize_diagram, "STEPS", known)
    with pytest.raises(ValueError, match=r"store\.commit"):
        finalize_diagram.calls()


def test_the_times_on_the_money_page_are_those_in_the_code() -> None:
    assert f"after {STUCK_AFTER_SECONDS // 60} min" in finalize_diagram.STEPS["store.claim"].finisher
