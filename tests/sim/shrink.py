"""Reduces a failing schedule to a small one that still fails, by removing decisions and setting them to 0."""

from collections.abc import Callable, Sequence

type Fails = Callable[[Sequence[int]], bool]
MAX_TRIES = 4_000


def shrunk(decisions: Sequence[int], fails: Fails) -> list[int]:
    """Fewer and smaller decisions that still fail; `decisions` must fail."""
    tries = 0

    def still(candidate: list[int]) -> bool:
        nonlocal tries
        tries += 1
        return tries <= MAX_TRIES and fails(candidate)

    best = list(decisions)
    while True:
        before = best
        for step in (_shorter, _zeroed, _without, _smaller):
            best = step(best, still)
        if best == before or tries > MAX_TRIES:
            while best and not best[-1]:
                best = best[:-1]
            return best


def _shorter(best: list[int], still: Callable[[list[int]], bool]) -> list[int]:
    """Remove the end: every decision after the last recorded one is 0."""
    step = len(best) // 2
    while step:
        while len(best) > step and still(best[:-step]):
            best = best[:-step]
        step //= 2
    return best


def _zeroed(best: list[int], still: Callable[[list[int]], bool]) -> list[int]:
    """Set stretches of decisions to 0, from half of all to single ones."""
    size = max(len(best) // 2, 1)
    while size:
        for start in range(0, len(best), size):
            stretch = best[start : start + size]
            candidate = best[:start] + [0] * len(stretch) + best[start + size :]
            if any(stretch) and still(candidate):
                best = candidate
        size //= 2
    return best


def _without(best: list[int], still: Callable[[list[int]], bool]) -> list[int]:
    """Remove decisions, so that later ones move forward."""
    for size in (8, 4, 2, 1):
        for start in range(len(best) - size, -1, -size):
            candidate = best[:start] + best[start + size :]
            if still(candidate):
                best = candidate
    return best


def _smaller(best: list[int], still: Callable[[list[int]], bool]) -> list[int]:
    """Reduce each remaining decision to the smallest value that still fails."""
    for index, choice in enumerate(best):
        for smaller in range(1, choice):
            candidate = [*best[:index], smaller, *best[index + 1 :]]
            if still(candidate):
                best = candidate
                break
    return best
