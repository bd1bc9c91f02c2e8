"""The simulation finds bugs: it meets each mutation within a bounded number of seeds (see `make mutants`)."""

import importlib

import pytest

from tests.mutants.mutation import MUTATIONS, SIMULATED, Mutation, Simulation
from tests.mutants.simulated import WITHIN_SEEDS, is_found, planted
from tests.sim.command import run_seeds
from tests.sim.faults import KEPT_DATA


@pytest.mark.parametrize(("mutation", "simulation"), SIMULATED, ids=lambda value: getattr(value, "name", value))
def test_the_simulation_finds_a_mutation(mutation: Mutation, simulation: Simulation) -> None:
    """An unfound mutation means that the invariants do not cover it."""
    assert is_found(mutation, simulation)


def test_the_same_seeds_break_no_invariant_without_a_mutation() -> None:
    """The simulation finds nothing else."""
    assert run_seeds(0, 100, KEPT_DATA).failures == ()


def test_a_failing_schedule_is_shrunk_to_the_decisions_that_it_needs() -> None:
    """Settling before the claim needs two actors that end a run; nearly every other decision becomes 0."""
    mutation = next(found for found in MUTATIONS if found.name == "settle-before-claim")
    with planted(mutation) as command:
        simulate = importlib.import_module("tests.sim.run").simulate
        allowed = importlib.import_module("tests.sim.faults").KEPT_DATA
        verdict = command.first_broken(WITHIN_SEEDS, allowed)
        assert verdict is not None
        with command.patched():
            small = command.shrunk(verdict.decisions, lambda decisions: simulate(decisions, allowed).broken)
            assert simulate(small, allowed).broken
    assert sum(map(bool, small)) < sum(map(bool, verdict.decisions)) / 2
    assert len(small) <= len(verdict.decisions)
