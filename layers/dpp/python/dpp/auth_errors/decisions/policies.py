"""Policies: decisions by the system, as data (AUTH-11). A policy has conditions and a decision.

Pure: the same inputs with the same policies give the same decision, so any decision can be replayed from its stored
inputs. The first matching policy decides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from dpp.auth_errors.machine import DecisionType

MAX_POLICIES = 100
MAX_SEEN = 10_000
MAX_MINUTES = 7 * 24 * 60

Minutes = Annotated[int, Field(strict=True, ge=1, le=MAX_MINUTES)]
_Text = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=300)]
_Texts = Annotated[tuple[_Text, ...], Field(min_length=1, max_length=50)]


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, hide_input_in_errors=True)


class ClusterRate(_Data):
    """At least `at_least` errors of the cluster, including this one, within `within_minutes` by Postgres's clock."""

    at_least: Annotated[int, Field(strict=True, ge=1, le=MAX_SEEN)]
    within_minutes: Minutes


class When(_Data):
    """The conditions of a policy: all must hold. An omitted condition always holds."""

    exception_class: _Texts | None = None
    http_status: (
        Annotated[tuple[Annotated[int, Field(strict=True, ge=100, le=599)], ...], Field(min_length=1, max_length=50)]
        | None
    ) = None
    service: _Texts | None = None
    seen: ClusterRate | None = None
    deployed_within_minutes: Minutes | None = None
    cluster_younger_than_minutes: Minutes | None = None
    not_escalated_within_minutes: Minutes | None = None


class Policy(_Data):
    """A policy: `decide` is the decision if the conditions of `when` hold."""

    name: Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    when: When
    decide: DecisionType
    reason: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=500)]


_POLICIES = TypeAdapter(Annotated[tuple[Policy, ...], Field(max_length=MAX_POLICIES)])


class PoliciesRefused(ValueError):
    """Invalid policies. Each line of the message names a place and its requirement."""


def read_policies(data: object) -> tuple[Policy, ...]:
    """Parse policies from JSON values. Raises PoliciesRefused."""
    try:
        found = _POLICIES.validate_python(data)
    except ValidationError as error:
        lines = (f"{'.'.join(map(str, one['loc'])) or 'policies'}: {one['msg']}" for one in error.errors())
        raise PoliciesRefused("\n".join(lines)) from None
    names = [policy.name for policy in found]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise PoliciesRefused(f"policy names must be unique; used more than once: {', '.join(duplicates)}")
    return found


def as_data(policies: Sequence[Policy]) -> list[Mapping[str, Any]]:
    """The stored form of policies."""
    return [policy.model_dump(mode="json", by_alias=True, exclude_none=True) for policy in policies]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a decision. `seen`: errors of the cluster by minutes of a window. A time of None means never."""

    exception_class: str
    http_status: int
    service: str | None
    cluster_id: str
    cluster_age_minutes: int
    minutes_since_deploy: int | None
    minutes_since_escalation: int | None
    seen: Mapping[int, int]

    def as_data(self) -> dict[str, Any]:
        """The form that is stored with the decision."""
        return {
            "exceptionClass": self.exception_class,
            "httpStatus": self.http_status,
            "service": self.service,
            "clusterId": self.cluster_id,
            "clusterAgeMinutes": self.cluster_age_minutes,
            "minutesSinceDeploy": self.minutes_since_deploy,
            "minutesSinceEscalation": self.minutes_since_escalation,
            "seen": {str(minutes): count for minutes, count in self.seen.items()},
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Inputs":
        """The inverse of `as_data`."""
        return cls(
            exception_class=data["exceptionClass"],
            http_status=data["httpStatus"],
            service=data["service"],
            cluster_id=data["clusterId"],
            cluster_age_minutes=data["clusterAgeMinutes"],
            minutes_since_deploy=data["minutesSinceDeploy"],
            minutes_since_escalation=data["minutesSinceEscalation"],
            seen={int(minutes): count for minutes, count in data["seen"].items()},
        )


def windows(policies: Sequence[Policy]) -> dict[int, int]:
    """The windows that must be counted: minutes to the highest count that matters."""
    found: dict[int, int] = {}
    for policy in policies:
        if (seen := policy.when.seen) is not None:
            found[seen.within_minutes] = max(found.get(seen.within_minutes, 0), seen.at_least)
    return found


def first_match(policies: Sequence[Policy], inputs: Inputs) -> Policy | None:
    """The policy that decides, or None."""
    return next((policy for policy in policies if _holds(policy.when, inputs)), None)


def _holds(when: When, inputs: Inputs) -> bool:
    return (
        _among(when.exception_class, inputs.exception_class)
        and _among(when.http_status, inputs.http_status)
        and _among(when.service, inputs.service)
        and (when.seen is None or inputs.seen.get(when.seen.within_minutes, 0) >= when.seen.at_least)
        and _within(when.deployed_within_minutes, inputs.minutes_since_deploy)
        and _within(when.cluster_younger_than_minutes, inputs.cluster_age_minutes)
        and not (
            when.not_escalated_within_minutes is not None
            and _within(when.not_escalated_within_minutes, inputs.minutes_since_escalation)
        )
    )


def _among(allowed: Sequence[object] | None, value: object) -> bool:
    return allowed is None or value in allowed


def _within(minutes: int | None, age_minutes: int | None) -> bool:
    return minutes is None or (age_minutes is not None and age_minutes < minutes)
