"""The execution switch (TIX-1): the newest decision of a scope applies, in whatever order decisions arrive."""

import itertools
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


def _decision(**changes: Any) -> Switch:
    """A decision that disables all packs at noon, with `changes`."""
    return replace(Switch(None, False, uuid4(), "ops_one", "for a test", NOON), **changes)


def _decide(connection: Connection, decision: Switch) -> Decision:
    return decide(
        connection,
        scope=decision.scope,
        enabled=decision.enabled,
        decision_id=decision.decision_id,
        actor=decision.actor,
        reason=decision.reason,
        decided_at=decision.decided_at,
    )


def test_without_a_decision_every_pack_is_enabled(connection: Connection) -> None:
    assert switches(connection) == ()


def test_a_decision_keeps_its_actor_and_reason(connection: Connection) -> None:
    """TIX-1: as the ticket has it."""
    decision = _decision(scope=PackType.URL)
    assert _decide(connection, decision) == Decision(APPLIED, decision)
    assert switches(connection) == (decision,)


def test_scopes_are_independent_and_that_of_all_packs_is_listed_first(connection: Connection) -> None:
    made = [_decision(scope=scope, enabled=scope is PackType.OCR) for scope in (*PackType, None)]
    for each in made:
        assert _decide(connection, each).outcome == APPLIED
    found = switches(connection)
    assert set(found) == set(made)
    assert [switch.scope for switch in found] == [None, *sorted(PackType)]


def test_a_repeated_decision_changes_nothing(connection: Connection) -> None:
    """A processor that died after its decision repeats it, possibly with a reason that was edited meanwhile."""
    decision = _decision()
    _decide(connection, decision)
    assert _decide(connection, decision) == Decision(REPEATED, decision)
    assert _decide(connection, replace(decision, actor="ops_two", reason="again")) == Decision(REPEATED, decision)
    assert switches(connection) == (decision,)


@pytest.mark.parametrize("change", [{"enabled": True}, {"decided_at": NOON + timedelta(hours=1)}])
def test_a_decision_id_with_another_content_is_a_conflict(connection: Connection, change: dict[str, Any]) -> None:
    """A caller that passes the time of the call as that of the decision would undo newer ones."""
    decision = _decision()
    _decide(connection, decision)
    with pytest.raises(DecisionConflict):
        _decide(connection, replace(decision, **change))
    assert switches(connection) == (decision,)


def test_an_older_decision_never_undoes_a_newer_one(connection: Connection) -> None:
    """Tickets may be processed in any order; a late one gets the decision that applies."""
    older, newer = _decision(), _decision(enabled=True, decided_at=NOON + timedelta(microseconds=1))
    assert _decide(connection, newer).outcome == APPLIED
    assert _decide(connection, older) == Decision(SUPERSEDED, newer)
    assert switches(connection) == (newer,)


def test_a_superseded_decision_stays_superseded_when_repeated(connection: Connection) -> None:
    """A processor died between its decision and the end of its ticket, and another decision was taken meanwhile."""
    older, newer = _decision(), _decision(enabled=True, decided_at=NOON + timedelta(seconds=1))
    assert [_decide(connection, each).outcome for each in (older, newer)] == [APPLIED, APPLIED]
    assert _decide(connection, older) == Decision(SUPERSEDED, newer)


def test_of_two_decisions_at_the_same_time_the_greater_id_applies(connection: Connection) -> None:
    lower, upper = _decision(decision_id=UUID(int=1)), _decision(decision_id=UUID(int=2), enabled=True)
    assert [_decide(connection, each).outcome for each in (lower, upper, lower)] == [APPLIED, APPLIED, SUPERSEDED]
    again = [replace(each, scope=PackType.OCR) for each in (upper, lower)]
    assert [_decide(connection, each).outcome for each in again] == [APPLIED, SUPERSEDED]


def test_every_order_of_decisions_has_the_same_result(connection: Connection) -> None:
    """24 orders of four decisions, two of them at the same time."""
    four = [_decision(decided_at=NOON + timedelta(hours=hours), enabled=hours % 2 == 0) for hours in (0, 1, 1, 2)]
    for order in itertools.permutations(four):
        with connection.transaction(force_rollback=True):
            for each in order:
                _decide(connection, each)
            assert switches(connection) == (four[-1],)


def test_of_concurrent_decisions_the_newest_applies(connection: Connection, database_url: str) -> None:
    """Eight concurrent decisions, each taken twice, of a scope that has no row yet."""
    made = [_decision(decided_at=NOON + timedelta(seconds=n), enabled=n % 2 == 0) for n in range(8)]

    def one(decision: Switch) -> set[DecisionOutcome]:
        with psycopg.connect(database_url, autocommit=True, prepare_threshold=None) as own:
            return {_decide(own, decision).outcome for _ in range(2)}

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(one, made))
    assert switches(connection) == (made[-1],)
    assert outcomes[-1] == {APPLIED, REPEATED}
    assert all(outcome <= {APPLIED, REPEATED, SUPERSEDED} for outcome in outcomes)


def test_a_decision_in_a_transaction_is_rolled_back_with_it(connection: Connection) -> None:
    """A processor may decide and end its ticket in one transaction."""
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
def test_values_that_the_table_rejects_are_refused(connection: Connection, change: dict[str, Any]) -> None:
    """They are checked before the statement; the table's checks have the same bounds."""
    with pytest.raises(ValueError, match="must have"):
        _decide(connection, _decision(**change))
    longest = _decision(actor="x" * 64, reason="x" * 500)
    assert _decide(connection, longest).switch == longest
