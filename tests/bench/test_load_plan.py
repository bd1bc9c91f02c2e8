"""The rules of `make bench-load`: when requests are due, which rates are sustained, where the knee is."""

import math
import random
from collections import Counter

import pytest

from bench.load.plan import Figures, Search, Spread, arrivals, growth, percentile, violations

_FAST = Spread(50, 60, 90, 100)


def _figures(**changes: object) -> Figures:
    sustained: dict[str, object] = {
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
    return Figures(**(sustained | changes))  # type: ignore[arg-type]  # by name


def test_arrivals_are_a_poisson_process_of_their_rate() -> None:
    due = arrivals(50, 200, random.Random(1))
    gaps = [after - before for before, after in zip([0.0, *due], due, strict=False)]
    mean = sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert len(due) == pytest.approx(10_000, rel=0.05)
    assert deviation == pytest.approx(mean, rel=0.05)  # as in an exponential distribution
    assert due == sorted(due)
    assert due[-1] < 200


def test_same_seed_gives_the_same_arrivals() -> None:
    assert arrivals(5, 10, random.Random(7)) == arrivals(5, 10, random.Random(7))
    assert arrivals(5, 10, random.Random(7)) != arrivals(5, 10, random.Random(8))


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.9, 90), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_percentile_is_a_measured_value(share: float, value: int) -> None:
    assert percentile(range(1, 101), share) == value


def test_p99_of_few_values_is_the_worst() -> None:
    assert Spread.of([3, 1, 2]) == Spread(2, 3, 3, 3)


def test_percentile_of_no_values_is_nan() -> None:
    assert math.isnan(Spread.of([]).p99)


def test_constant_backlog_does_not_grow() -> None:
    assert growth([(float(at), 5) for at in range(30)], 0, 30) == 0


def test_growth_is_the_rise_over_a_third_of_the_step() -> None:
    assert growth([(float(at), 2 * at) for at in range(30)], 0, 30) == pytest.approx(20)


def test_backlog_without_samples_counts_as_growing() -> None:
    assert growth([], 0, 30) == math.inf


def test_rate_without_violations_is_sustained() -> None:
    assert violations(_figures()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"done": 94}, "94 of 100 done"),
        ({"growth": 6.4}, "backlog grew"),
        ({"submit": Spread(50, 60, 2_001, 2_001)}, "p99 of submit 2001 ms"),
        ({"submit": Spread.of([])}, "p99 of submit"),
        ({"unsent": 1}, "1 not sent"),
    ],
)
def test_one_missed_condition_is_a_violation(changes: dict[str, object], message: str) -> None:
    [violation] = violations(_figures(**changes))
    assert message in violation


def test_figures_of_a_late_generator_are_not_valid() -> None:
    assert _figures().is_valid
    assert not _figures(late=Spread(1, 2, 51, 60)).is_valid


@pytest.mark.parametrize("knee", [1.0, 2.0, 3.3, 10.0, 12.5, 64.0])
def test_search_ends_between_a_sustained_and_a_failed_rate(knee: float) -> None:
    search, tried = Search(start=2, factor=2, halvings=2), list[float]()
    while (rate := search.next()) is not None:
        tried.append(rate)
        search.record(rate, sustained=rate <= knee)
    assert search.sustained is not None
    assert search.failed is not None
    assert search.sustained <= knee < search.failed
    assert len(tried) == len(set(tried)) <= 10
    assert search.failed / search.sustained <= 1.5


def test_search_gives_up_if_no_rate_is_sustained() -> None:
    search = Search(start=2, factor=2, halvings=2)
    while (rate := search.next()) is not None:
        search.record(rate, sustained=False)
    assert search.sustained is None
