"""Orders the retention classes of all contexts and checks them against the retention section (LIFE-8)."""

from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from dpp.lifecycle.flow.errors import RetentionContradiction
from dpp.lifecycle.retention.periods import Retention
from dpp.platform.db.retention import RetentionClass


def ordered(classes: Iterable[RetentionClass], retention: Retention) -> Sequence[RetentionClass]:
    """The classes in an order in which each is deleted before those that it points at.

    Raises RetentionContradiction, whose message names the classes and the reason.
    """
    every = list(classes)
    named = {one.name: one for one in every}
    if len(named) != len(every):
        duplicates = sorted({one.name for one in every if sum(other.name == one.name for other in every) > 1})
        raise RetentionContradiction(f"two classes have the same name: {', '.join(duplicates)}")
    for one in every:
        if one.period not in Retention.model_fields:
            raise RetentionContradiction(f"{one.name}: the retention section has no {one.period}")
        for target in one.points_at:
            if target not in named:
                raise RetentionContradiction(f"{one.name} points at {target}, which does not exist")
            _check_periods(one, named[target], retention)
    # A target is deleted after the classes that point at it, which are its predecessors.
    before: dict[str, set[str]] = {name: set() for name in named}
    for one in every:
        for target in one.points_at:
            before[target].add(one.name)
    try:
        return [named[name] for name in TopologicalSorter(before).static_order()]
    except CycleError as error:
        raise RetentionContradiction(f"classes point at each other: {' → '.join(error.args[1])}") from None


def days_of(one: RetentionClass, retention: Retention) -> int:
    """The period of the class in days."""
    days: int = getattr(retention, one.period)
    return days


def _check_periods(one: RetentionClass, target: RetentionClass, retention: Retention) -> None:
    kept, longest = days_of(one, retention), days_of(target, retention)
    if kept > longest:
        raise RetentionContradiction(
            f"{one.name} ({one.period}: {kept} days) points at {target.name} ({target.period}: {longest} days)"
            " and would be kept longer"
        )
