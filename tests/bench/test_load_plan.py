"""The pure parts of `make bench-load`: when requests are due, what is held, where the knee is."""

import math
import random
from collections import Counter

import pytest

from bench.load.plan import Figures, Search, Spread, arrivals, growth, held_against, percentile

_FAST = Spread(50, 60, 90, 100)


def _figures(**changes: object) -> Figures:
    held: dict[str, object] = {
        "rate": 10.0,
        "seconds": 10.0,
        "offered": 100,
        "unsent": 0,
        "accepted": 100,
        "done": 100,
        "submit": _FAST,
        "read": _FAST,
        "whole": _FAST,
        "late": Spread(0, 1, 2, 3),
        "answers": Counter({"POST 202": 100}),
        "growth": 0.0,
        "backlog": 2,
    }
    return Figures(**(held | changes))  # type: ignore[arg-type]  # by name, as a test changes them


def test_arrivals_are_a_poisson_process_of_their_rate() -> None:
    due = arrivals(50, 200, random.Random(1))
    gaps = [after - before for before, after in zip([0.0, *due], due, strict=False)]
    mean = sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert len(due) == pytest.approx(10_000, rel=0.05)
    assert deviation == pytest.approx(mean, rel=0.05)  # as of an exponential distribution, and of no clock
    assert due == sorted(due)
    assert due[-1] < 200


def test_arrivals_of_a_seed_are_the_same() -> None:
    assert arrivals(5, 10, random.Random(7)) == arrivals(5, 10, random.Random(7))
    assert arrivals(5, 10, random.Random(7)) != arrivals(5, 10, random.Random(8))


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.9, 90), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_a_percentile_is_a_value_that_was_measured(share: float, value: int) -> None:
    assert percentile(range(1, 101), share) == value


def test_the_worst_of_few_is_their_p99() -> None:
    assert Spread.of([3, 1, 2]) == Spread(2, 3, 3, 3)


def test_nothing_has_no_percentile() -> None:
    assert math.isnan(Spread.of([]).p99)


def test_a_backlog_that_stands_does_not_grow() -> None:
    assert growth([(float(at), 5) for at in range(30)], 0, 30) == 0


def test_a_backlog_that_grows_by_two_a_second_has_risen_by_a_third_of_a_step() -> None:
    assert growth([(float(at), 2 * at) for at in range(30)], 0, 30) == pytest.approx(20)


def test_a_backlog_that_nobody_looked_at_counts_as_growing() -> None:
    assert growth([], 0, 30) == math.inf


def test_a_rate_that_is_done_in_time_is_held() -> None:
    assert held_against(_figures()) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"done": 94}, "94 of 100 done"),
        ({"growth": 6.4}, "backlog rose"),
        ({"submit": Spread(50, 60, 2_001, 2_001)}, "p99 of submit 2001 ms"),
        ({"submit": Spread.of([])}, "p99 of submit"),
        ({"unsent": 1}, "1 not sent"),
    ],
)
def test_a_rate_that_misses_one_condition_is_not_held(changes: dict[str, object], says: str) -> None:
    [reason] = held_against(_figures(**changes))
    assert says in reason


def test_a_generator_that_was_late_has_measured_itself() -> None:
    assert _figures().valid
    assert not _figures(late=Spread(1, 2, 51, 60)).valid


@pytest.mark.parametrize("knee", [1.0, 2.0, 3.3, 10.0, 12.5, 64.0])
def test_the_search_ends_between_a_rate_that_is_held_and_one_that_is_not(knee: float) -> None:
    search, tried = Search(start=2, factor=2, halvings=2), list[float]()
    while (rate := search.next()) is not None:
        tried.append(rate)
        search.tell(rate, held=rate <= knee)
    assert search.held is not None
    assert search.failed is not None
    assert search.held <= knee < search.failed
    assert len(tried) == len(set(tried)) <= 10
    assert search.failed / search.held <= 1.5


def test_where_no_rate_is_held_the_search_gives_up() -> None:
    search = Search(start=2, factor=2, halvings=2)
    while (rate := search.next()) is not None:
        search.tell(rate, held=False)
    assert search.held is None
