"""The smallest schedule that still breaks a promise: decisions are set to 0, the tamest, while it does."""

from collections.abc import Callable, Sequence

type Fails = Callable[[Sequence[int]], bool]
MAX_TRIES = 4_000


def shrunk(decisions: Sequence[int], fails: Fails) -> list[int]:
    """Fewer and smaller decisions that still fail; `decisions` must."""
    budget = [MAX_TRIES]

    def still(candidate: list[int]) -> bool:
        budget[0] -= 1
        return budget[0] >= 0 and fails(candidate)

    best = list(decisions)
    while True:
        before = list(best)
        best = _shorter(best, still)
        best = _tamer(best, still)
        best = _without(best, still)
        best = _smaller(best, still)
        if best == before or budget[0] < 0:
            return _trimmed(best)


def _shorter(best: list[int], still: Callable[[list[int]], bool]) -> list[int]:
    """Cut the end off: what follows a schedule's recorded decisions is tame."""
    step = len(best) // 2
    while step:
        while len(best) > step and still(best[:-step]):
            best = best[:-step]
        step //= 2
    return best


def _tamer(best: list[int], still: Callable[[list[int]], bool]) -> list[int]:
    """Set whole stretches to 0, from half of all down to single decisions."""
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
    """Leave decisions out, so that those behind them move up."""
    for size in (8, 4, 2, 1):
        start = len(best) - size
        while start >= 0:
            candidate = best[:start] + best[start + size :]
            if still(candidate):
                best = candidate
            start -= size
    return best


def _smaller(best: list[int], still: Callable[[list[int]], bool]) -> list[int]:
    """Make what must stay above 0 as small as it may be."""
    for index, choice in enumerate(best):
        for smaller in range(1, choice):
            candidate = [*best[:index], smaller, *best[index + 1 :]]
            if still(candidate):
                best = candidate
                break
    return best


def _trimmed(best: list[int]) -> list[int]:
    while best and not best[-1]:
        best = best[:-1]
    return best
