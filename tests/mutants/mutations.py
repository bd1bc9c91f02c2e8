"""All mutations."""

from tests.mutants import auth_errors, money, retention, runs, workspaces
from tests.mutants.mutation import Mutation, Simulation

MUTATIONS: tuple[Mutation, ...] = (
    *runs.MUTATIONS,
    *money.MUTATIONS,
    *auth_errors.MUTATIONS,
    *workspaces.MUTATIONS,
    *retention.MUTATIONS,
)
SIMULATED: tuple[tuple[Mutation, Simulation], ...] = tuple(
    (mutation, catcher)
    for mutation in MUTATIONS
    for catcher in mutation.caught_by
    if isinstance(catcher, Simulation)
)
"""The mutations that the simulation must find."""
