"""Every call that the platform makes to Redis, Postgres, SQS and S3, and every way in which it can go wrong (D1–D6).

After each: clients come again, messages come again, the jobs fire and time passes; then every promise is kept.
The points are those of points.txt, which `test_points.py` holds against the code.
"""

import pytest

from dpp.runs.machine import Status
from tests.crash.aftermath import come_to_rest, retire
from tests.crash.playhouse import Playhouse
from tests.crash.points import Kind, Point, Points, listed
from tests.crash.promises import broken_after_retention, broken_at_rest

MATRIX = [pytest.param(point, kind, id=f"{point.id}:{kind}") for point in listed() for kind in point.kinds]


@pytest.mark.parametrize(("point", "kind"), MATRIX)
def test_a_crash_costs_nobody_a_micro_and_leaves_nothing_behind(
    playhouse: Playhouse, point: Point, kind: Kind
) -> None:
    """The run ends once, is settled or refunded once, and a client who asks again pays once."""
    points = Points(point.scenario, at=point.number, kind=kind)
    stage = playhouse.play(point.scenario, points)
    assert points.met[point.number - 1 :][:1] == [point], "points.txt is stale: python -m tests.crash"

    if point.scenario == "work with retries" and kind not in {Kind.KILLED_BEFORE, Kind.KILLED_AFTER}:
        [client] = stage.clients
        assert stage.world.run(client.accepted[0].run).status == Status.COMPLETED, (
            "a fault that passes costs nothing"
        )

    assert come_to_rest(stage), "an hour and more later, something is still under way"
    assert broken_at_rest(stage) == []
    retire(stage)
    assert broken_after_retention(stage) == []
