"""The switch of execution (TIX-1): of a scope's decisions the newest stands, in whatever order they come."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from dpp.packs.contract import PackType
from dpp.platform.db.postgres import Connection
from dpp.runs.operations.switch import Decision, DecisionConflict, DecisionOutcome, Switch, decide, switches

APPLIED, REPEATED, SUPERSEDED = DecisionOutcome
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    """As a container has it."""
    with psycopg.connect(database_url, autocommit=True, prepare_threshold=None) as opened:
        yield opened


def _decision(**changes: Any) -> Switch:
    """That all packs are disabled at noon, changed as a test needs it."""
    return replace(Switch(None, False, uuid4(), "ops_one", "for a test", NOON), **changes)


def _decide(connection: Connection, wanted: Switch) -> Decision:
    return decide(
        connection,
        scope=wanted.scope,
        enabled=wanted.enabled,
        decision_id=wanted.decision_id,
        actor=wanted.actor,
        reason=wanted.reason,
        decided_at=wanted.decided_at,
    )


def test_nothing_is_decided_at_first(connection: Connection) -> None:
    """No row: every pack may be executed."""
    assert switches(connection) == ()


def test_a_decision_stands_and_says_who_took_it_and_why(connection: Connection) -> None:
    """TIX-1: as the ticket has it."""
    wanted = _decision(scope=PackType.URL)
    assert _decide(connection, wanted) == Decision(APPLIED, wanted)
    assert switches(connection) == (wanted,)


def test_scopes_are_apart_and_listed_with_that_of_all_packs_first(connection: Connection) -> None:
    """One decision a scope: none of them touches another."""
    made = [_decision(scope=scope, enabled=scope is PackType.OCR) for scope in (*PackType, None)]
    for each in made:
        assert _decide(connection, each).outcome == APPLIED
    found = switches(connection)
    assert set(found) == set(made)
    assert [switch.scope for switch in found] == [None, *sorted(PackType)]


def test_the_same_decision_again_changes_nothing(connection: Connection) -> None:
    """A processor that died after it decided asks again, with the ticket's words or, after an edit, with others."""
    wanted = _decision()
    _decide(connection, wanted)
    assert _decide(connection, wanted) == Decision(REPEATED, wanted)
    assert _decide(connection, replace(wanted, actor="ops_two", reason="again")) == Decision(REPEATED, wanted)
    assert switches(connection) == (wanted,)


@pytest.mark.parametrize("change", [{"enabled": True}, {"decided_at": NOON + timedelta(hours=1)}])
def test_one_id_is_one_decision(connection: Connection, change: dict[str, Any]) -> None:
    """A caller who gives the time of asking for that of the decision would undo newer ones; it is told at once."""
    wanted = _decision()
    _decide(connection, wanted)
    with pytest.raises(DecisionConflict):
        _decide(connection, replace(wanted, **change))
    assert switches(connection) == (wanted,)


def test_an_older_decision_never_undoes_a_newer_one(connection: Connection) -> None:
    """Tickets may be worked on in any order; who comes too late learns what stands."""
    older, newer = _decision(), _decision(enabled=True, decided_at=NOON + timedelta(microseconds=1))
    assert _decide(connection, newer).outcome == APPLIED
    assert _decide(connection, older) == Decision(SUPERSEDED, newer)
    assert switches(connection) == (newer,)


def test_a_decision_that_was_superseded_stays_so_when_it_is_repeated(connection: Connection) -> None:
    """A processor that died between its decision and its ticket, while another's decision came."""
    older, newer = _decision(), _decision(enabled=True, decided_at=NOON + timedelta(seconds=1))
    assert [_decide(connection, each).outcome for each in (older, newer)] == [APPLIED, APPLIED]
    assert _decide(connection, older) == Decision(SUPERSEDED, newer)


def test_of_two_decisions_at_one_moment_the_greater_id_stands(connection: Connection) -> None:
    """Whatever the order, so that all who work on them agree."""
    lower, upper = _decision(decision_id=UUID(int=1)), _decision(decision_id=UUID(int=2), enabled=True)
    assert [_decide(connection, each).outcome for each in (lower, upper, lower)] == [
        APPLIED,
        APPLIED,
        SUPERSEDED,
    ]
    again = [replace(each, scope=PackType.OCR) for each in (upper, lower)]
    assert [_decide(connection, each).outcome for each in again] == [APPLIED, SUPERSEDED]


def test_every_order_of_decisions_ends_alike(connection: Connection) -> None:
    """24 orders of four decisions, two of them at one moment."""
    four = [
        _decision(decided_at=NOON + timedelta(hours=hours), enabled=hours % 2 == 0) for hours in (0, 1, 1, 2)
    ]
    for order in itertools.permutations(four):
        with connection.transaction(force_rollback=True):
            for each in order:
                _decide(connection, each)
            assert switches(connection) == (four[-1],)


def test_decisions_at_once_end_as_the_newest_says(connection: Connection, database_url: str) -> None:
    """Eight who decide at the same time, on a scope that has no row yet; each twice."""
    made = [_decision(decided_at=NOON + timedelta(seconds=n), enabled=n % 2 == 0) for n in range(8)]

    def one(wanted: Switch) -> set[DecisionOutcome]:
        with psycopg.connect(database_url, autocommit=True, prepare_threshold=None) as own:
            return {_decide(own, wanted).outcome for _ in range(2)}

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(one, made))
    assert switches(connection) == (made[-1],)
    assert outcomes[-1] == {APPLIED, REPEATED}
    assert all(outcome <= {APPLIED, REPEATED, SUPERSEDED} for outcome in outcomes)


def test_a_decision_inside_a_transaction_is_undone_with_it(connection: Connection) -> None:
    """A processor may decide and close its ticket together."""
    with connection.transaction(force_rollback=True):
        assert _decide(connection, _decision()).outcome == APPLIED
    assert switches(connection) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"actor": ""},
        {"actor": "x" * 65},
        {"reason": ""},
        {"reason": "x" * 501},
        {"decided_at": NOON.replace(tzinfo=None)},
    ],
    ids=repr,
)
def test_what_the_table_takes_not_is_no_decision(connection: Connection, change: dict[str, Any]) -> None:
    """Said before Postgres is asked; its own bounds are the same."""
    with pytest.raises(ValueError, match="a decision"):
        _decide(connection, _decision(**change))
    longest = _decision(actor="x" * 64, reason="x" * 500)
    assert _decide(connection, longest).switch == longest
