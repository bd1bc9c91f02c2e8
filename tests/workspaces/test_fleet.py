"""A fleet under any order of requests, observations, faults, crashes and outside changes loses no home, and converges.

Postgres is real, the provider is in memory, and the test sets the time. After every step all invariants are compared
with what exists (homes_model.py). At the end of each example the faults stop, time passes, and each workspace is in its
desired state, or in ERROR for a reason that the model knows.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import Phase as Of
from hypothesis.stateful import run_state_machine_as_test
from psycopg.errors import CheckViolation

from dpp.workspaces.machine import RULES, Action, OperationRule
from dpp.workspaces.model import Operation
from tests.workspaces.environment import Environment, open_environment
from tests.workspaces.fleet_machine import FleetMachine
from tests.workspaces.memory_provider import MemoryProvider, provider_of

WHOLE = os.environ.get("DPP_FLEET") == "all"
SHARES, STEPS = 4, 100
LOST = "does not hold its home|nothing excuses .*DataLost|archiving ended without its archive"
"""A violation when the volume is deleted, when the home turns out to be lost, or found by the table's trigger."""


@pytest.fixture(scope="module")
def shared_env(shared_database: str) -> Iterator[Environment]:
    """An environment for all examples; each starts with empty tables."""
    with open_environment(shared_database, provider_of(MemoryProvider())) as opened:
        yield opened


def run(env: Environment, share: int, examples: int, *, shrinks: bool = True) -> int:
    """Run the examples, and return the number of steps."""

    class Machine(FleetMachine):
        pass

    Machine.env = env
    phases = [Of.generate, Of.shrink] if shrinks else [Of.generate]
    run_state_machine_as_test(
        Machine if WHOLE else seed(share)(Machine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=phases,
            print_blob=True,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return Machine.steps


@pytest.mark.parametrize("share", range(SHARES))
def test_no_home_is_lost_in_any_order_of_steps_and_faults(shared_env: Environment, share: int) -> None:
    """WS-1 … WS-13: in shares that run in parallel; DPP_FLEET=all: seven times as many, at random."""
    examples = 170 if WHOLE else 24
    assert run(shared_env, share, examples) >= examples * STEPS * 0.75


def _delete_unproved(patch: pytest.MonkeyPatch) -> None:
    """The volume is deleted as soon as the container has ended."""
    rule = RULES[Operation.ARCHIVING]
    early = replace(rule, action=lambda row: Action.DELETE_VOLUME if row.volume_ready else rule.action(row))
    patch.setitem(cast(dict[Operation, OperationRule], RULES), Operation.ARCHIVING, early)


def _lose_nothing(patch: pytest.MonkeyPatch) -> None:
    """A vanished volume is treated as an archived one."""
    patch.setattr("dpp.workspaces.control.planner._lost", lambda *_: None)


def _trust_an_older_archive(patch: pytest.MonkeyPatch) -> None:
    """The wording of the document (003 §8): archive_key is set, so the volume is deleted."""
    patch.setattr("dpp.workspaces.machine.has_own_archive", lambda row: row.archive_key is not None)
    rule = RULES[Operation.ARCHIVING]
    any_archive = replace(rule, complete=lambda row: row.archive_ready and not row.volume_ready)
    patch.setitem(cast(dict[Operation, OperationRule], RULES), Operation.ARCHIVING, any_archive)


@pytest.mark.parametrize(
    ("plant", "found"),
    [(_delete_unproved, LOST), (_lose_nothing, "in place of a home that was lost"), (_trust_an_older_archive, LOST)],
    ids=lambda one: getattr(one, "__name__", "found"),
)
def test_fault_that_loses_homes_is_found(
    shared_env: Environment, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], found: str
) -> None:
    """The check must be able to fail."""
    plant(monkeypatch)
    with pytest.raises((AssertionError, CheckViolation), match=found):
        run(shared_env, 0, 60, shrinks=False)
