"""The simulation finds bugs: each deliberate one is met within a bounded number of seeds."""

import itertools

import pytest

from tests.sim.faults import ALL, Fault
from tests.sim.installed import installed
from tests.sim.mutations import MUTATIONS, Mutation, orphans_at_once
from tests.sim.run import Verdict, simulate
from tests.sim.shrink import shrunk

WITHIN_SEEDS = 1_500
KEPT_DATA = ALL - {Fault.REDIS_LOSS, Fault.REDIS_FLUSH}
"""Where Redis keeps its data nothing may have to be mended, so that a bug can't hide behind the repair."""


SLOW_ALONE = frozenset({Fault.SLOW})
"""A race of one process's two calls with a job's look is won by slowness, and lost by whatever else fails first."""


def _first_broken(faults: frozenset[Fault] = KEPT_DATA) -> Verdict | None:
    verdicts = (simulate(seed, faults) for seed in range(WITHIN_SEEDS))
    return next((verdict for verdict in verdicts if not verdict.kept), None)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_deliberate_bug_is_found(mutation: Mutation) -> None:
    """One that no schedule finds is one that the promises don't cover."""
    with installed(), mutation():
        assert _first_broken(SLOW_ALONE if mutation is orphans_at_once else KEPT_DATA) is not None


def test_without_a_bug_the_same_seeds_keep_every_promise() -> None:
    """What finds the bugs finds nothing else."""
    with installed():
        for seed in range(100):
            assert simulate(seed, KEPT_DATA).kept


def test_a_found_bugs_schedule_is_shrunk_to_what_it_needs() -> None:
    """Settling before the claim needs two who end a run; nearly every decision of the schedule is tame then."""
    mutation = next(found for found in MUTATIONS if found.__name__ == "settle_before_claim")
    with installed(), mutation():
        verdict = _first_broken()
        assert verdict is not None
        small = shrunk(verdict.decisions, lambda decisions: not simulate(decisions, KEPT_DATA).kept)
        assert not simulate(small, KEPT_DATA).kept
    wild = [sum(1 for choice in decisions if choice) for decisions in (verdict.decisions, small)]
    assert wild[1] < wild[0] / 2
    assert len(list(itertools.dropwhile(bool, small))) <= len(verdict.decisions)
