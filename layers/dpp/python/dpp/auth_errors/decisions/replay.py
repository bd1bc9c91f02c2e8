"""Replay decisions of policies (AUTH-11): stored inputs with stored policies must give the stored decision.

A replay changes nothing. A different result means that the code has changed since the decision.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from dpp.auth_errors import store
from dpp.auth_errors.decisions.policies import Inputs, PoliciesRefused, Policy, first_match, read_policies
from dpp.auth_errors.store import SystemDecision
from dpp.platform.db.postgres import Connection

BATCH = 200
_NEWEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Replayed:
    """A decision as stored and as replayed: the policy's name and its decision.

    `replayed` is None if no policy matches, or if `failure` names why it can't be replayed.
    """

    decision_id: UUID
    version: int
    stored: tuple[str, str]
    replayed: tuple[str, str] | None
    failure: str | None = None

    @property
    def differs(self) -> bool:
        """True if the replay doesn't give the stored decision."""
        return self.failure is not None or self.replayed != self.stored


def replay(connection: Connection, limit: int) -> Iterator[Replayed]:
    """Replay up to `limit` decisions of policies, the newest first."""
    below, left = _NEWEST, limit
    read: dict[int, tuple[Policy, ...] | None] = {}
    while left > 0:
        found = store.system_decisions(connection, below, min(BATCH, left))
        if not found:
            return
        for one in found:
            if one.version not in read:
                read[one.version] = _read(one.policies)
            yield _replay_one(one, read[one.version])
        below, left = found[-1].sequence, left - len(found)


def _replay_one(decision: SystemDecision, policies: tuple[Policy, ...] | None) -> Replayed:
    stored = (decision.policy_name, decision.decision_type.value)
    if policies is None:
        failure = f"the policies of version {decision.version} can't be read"
        return Replayed(decision.decision_id, decision.version, stored, None, failure)
    try:
        inputs = Inputs.from_data(decision.inputs)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        failure = f"its inputs can't be read: {type(error).__name__}"
        return Replayed(decision.decision_id, decision.version, stored, None, failure)
    policy = first_match(policies, inputs)
    replayed = None if policy is None else (policy.name, policy.decide.value)
    return Replayed(decision.decision_id, decision.version, stored, replayed)


def _read(data: Sequence[Mapping[str, Any]]) -> tuple[Policy, ...] | None:
    try:
        return read_policies(data)
    except PoliciesRefused:
        return None
