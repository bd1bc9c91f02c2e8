"""Replay what policies decided (AUTH-11): the kept inputs under the kept policies give the kept decision.

It reads and changes nothing. A decision that comes out otherwise was made by code that judged otherwise than today's.
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
    """A decision, as it was made and as it would be made now; `now` None: no policy matches.

    `fault`: why it can't be made now; then `now` says nothing.
    """

    decision_id: UUID
    version: int
    kept: tuple[str, str]
    now: tuple[str, str] | None
    fault: str | None = None

    @property
    def differs(self) -> bool:
        """Whether it would not be decided so again."""
        return self.fault is not None or self.now != self.kept


def replay(connection: Connection, limit: int) -> Iterator[Replayed]:
    """Up to `limit` decisions of policies, the newest first. `kept` and `now`: the policy's name and its decision."""
    below, left = _NEWEST, limit
    read: dict[int, tuple[Policy, ...] | None] = {}
    while left > 0:
        found = store.system_decisions(connection, below, min(BATCH, left))
        if not found:
            return
        for one in found:
            if one.version not in read:
                read[one.version] = _read(one.policies)
            yield _again(one, read[one.version])
        below, left = found[-1].sequence, left - len(found)


def _again(decision: SystemDecision, policies: tuple[Policy, ...] | None) -> Replayed:
    kept = (decision.policy_name, decision.decision_type.value)
    if policies is None:
        fault = f"the policies of version {decision.version} can't be read"
        return Replayed(decision.decision_id, decision.version, kept, None, fault)
    try:
        inputs = Inputs.from_data(decision.inputs)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        fault = f"its inputs can't be read: {type(error).__name__}"
        return Replayed(decision.decision_id, decision.version, kept, None, fault)
    policy = first_match(policies, inputs)
    now = None if policy is None else (policy.name, policy.decide.value)
    return Replayed(decision.decision_id, decision.version, kept, now)


def _read(data: Sequence[Mapping[str, Any]]) -> tuple[Policy, ...] | None:
    try:
        return read_policies(data)
    except PoliciesRefused:
        return None
