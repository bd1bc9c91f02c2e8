"""The list of points is the code's own (points.txt): a call that nobody crashes fails here."""

from collections import Counter

from tests.crash.scenarios import SCENARIOS
from tests.crash.servers import CrashServers, recorded
from tests.support.crash_points import Kind, listed


def test_every_call_of_every_scenario_is_in_the_matrix(servers: CrashServers) -> None:
    """A new call, or one that is gone, changes the recording; the matrix then takes the new points by itself."""
    found = [point.line() for point in recorded(servers)]
    known = [point.line() for point in listed()]
    new, gone = Counter(found) - Counter(known), Counter(known) - Counter(found)
    assert found == known, (
        f"the calls have changed; write them anew with `python -m tests.crash` and run tests/crash again.\n"
        f"new: {sorted(new)}\ngone: {sorted(gone)}"
    )


def test_every_kind_of_crash_meets_every_port_and_every_scenario_has_points() -> None:
    """A matrix with a hole in it would be green, too."""
    points = listed()
    assert {point.scenario for point in points} == set(SCENARIOS)
    for port in ("postgres", "redis", "s3", "sqs"):
        met = {kind for point in points if point.port == port for kind in point.kinds}
        assert met | {Kind.KILLED_BEFORE} == set(
            Kind
        )  # which only a path's first call has, unless all is tried
    assert len(points) == len({point.id for point in points})
