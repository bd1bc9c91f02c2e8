"""Every call that the platform makes to Redis, Postgres, SQS and S3, and every way in which it can go wrong (D1–D6).

After each: clients come again, messages come again, the jobs fire and time passes; then every promise is kept.
The points are those of points.txt, which `test_points.py` holds against the code.
"""

import pytest

from dpp.runs.machine import Status
from tests.crash.invariants import violations_after_recovery, violations_after_retention
from tests.crash.recovery import recover, retire
from tests.crash.servers import CrashServers
from tests.support.crash_points import Kind, Point, Points, listed

MATRIX = [pytest.param(point, kind, id=f"{point.id}:{kind}") for point in listed() for kind in point.kinds]


@pytest.mark.parametrize(("point", "kind"), MATRIX)
def test_a_crash_costs_nobody_a_micro_and_leaves_nothing_behind(
    servers: CrashServers, point: Point, kind: Kind
) -> None:
    """The run ends once, is settled or refunded once, and a client who asks again pays once."""
    points = Points(point.scenario, at=point.number, kind=kind)
    env = servers.play(point.scenario, points)
    assert points.met[point.number - 1 :][:1] == [point], "points.txt is stale: python -m tests.crash"

    if point.scenario == "work with retries" and kind not in {Kind.KILLED_BEFORE, Kind.KILLED_AFTER}:
        [client] = env.clients
        assert env.world.run(client.accepted[0].run).status == Status.COMPLETED, (
            "a fault that passes costs nothing"
        )

    assert recover(env), "an hour and more later, something is still under way"
    assert violations_after_recovery(env) == []
    retire(env)
    assert violations_after_retention(env) == []
