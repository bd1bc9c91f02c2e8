"""The classes of all contexts in the order in which they are deleted, held against the retention section (LIFE-8)."""

from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from dpp.lifecycle.flow.errors import RetentionContradiction
from dpp.lifecycle.retention.periods import Retention
from dpp.platform.db.retention import RetentionClass


def ordered(classes: Iterable[RetentionClass], retention: Retention) -> Sequence[RetentionClass]:
    """What points at something comes before it. Raises RetentionContradiction, and says which and why."""
    given = list(classes)
    named = {one.name: one for one in given}
    if len(named) != len(given):
        twice = sorted({one.name for one in given if sum(other.name == one.name for other in given) > 1})
        raise RetentionContradiction(f"two classes have one name: {', '.join(twice)}")
    for one in given:
        if one.period not in Retention.model_fields:
            raise RetentionContradiction(f"{one.name}: the retention section has no {one.period}")
        for target in one.points_at:
            if target not in named:
                raise RetentionContradiction(f"{one.name} points at {target}, which there is not")
            _is_kept_no_longer(one, named[target], retention)
    # A target is deleted after what points at it: what points is its predecessor.
    before: dict[str, set[str]] = {name: set() for name in named}
    for one in given:
        for target in one.points_at:
            before[target].add(one.name)
    try:
        return [named[name] for name in TopologicalSorter(before).static_order()]
    except CycleError as error:
        raise RetentionContradiction(f"classes point at each other: {' → '.join(error.args[1])}") from None


def days_of(one: RetentionClass, retention: Retention) -> int:
    """For how many days the class is kept."""
    days: int = getattr(retention, one.period)
    return days


def _is_kept_no_longer(one: RetentionClass, target: RetentionClass, retention: Retention) -> None:
    kept, longest = days_of(one, retention), days_of(target, retention)
    if kept > longest:
        raise RetentionContradiction(
            f"{one.name} ({one.period}: {kept} days) points at {target.name} ({target.period}: {longest} days)"
            " and would outlive it"
        )
