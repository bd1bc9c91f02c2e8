"""`python -m tests.crash.subprocess_worker`: a process that is killed by SIGKILL at the point named on stdin.

It acts on the stage that its starter has arranged, on the same Postgres and Redis; S3 and SQS are its own and die with
it, so it serves for points before which neither was called.
"""

import json
import os
import signal
import sys
from datetime import datetime
from typing import Any, NoReturn
from uuid import UUID

from moto import mock_aws

from dpp.platform.keys.api_keys import Caller
from tests.crash.environment import Client, Clock, Container, Environment
from tests.crash.scenarios import SCENARIOS
from tests.support.crash_points import Kind, Point, Points
from tests.support.world import Tenant, World, a_request, message_of


class _RealPoints(Points):
    """At the fatal one the process is gone, between one instruction and the next."""

    def _die(self) -> NoReturn:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nobody survives SIGKILL")


def told(env: Environment, point: Point, kind: Kind) -> str:
    """What a victim needs to know, as it reads it."""
    world, clients = env.world, env.clients
    return json.dumps(
        {
            "point": point.line(),
            "kind": kind,
            "database_url": world.database_url,
            "redis_url": world.redis_url,
            "start": env.clock.start.isoformat(),
            "elapsed_seconds": env.clock.elapsed_seconds,
            "clients": [
                {"tenant_id": client.tenant.tenant_id, "key": client.request.idempotency_key}
                for client in clients
            ],
            "messages": [
                message_of(told.run).model_dump_json() for client in clients for told in client.accepted
            ],
        }
    )


def _die_at(order: dict[str, Any]) -> None:
    point = Point.parse(order["point"])
    with mock_aws(), World.open(order["database_url"], order["redis_url"]) as world:
        clock = Clock(world, datetime.fromisoformat(order["start"]), order["elapsed_seconds"])
        env = Environment(world, "", clock, world.new_database(), None)
        env.clients += [_client(**client) for client in order["clients"]]
        for body in order["messages"]:
            world.queue.send(body)
        points = _RealPoints(point.scenario, at=point.number, kind=Kind(order["kind"]))
        with Container.started(world, points) as container:
            SCENARIOS[point.scenario].act(env, container)


def _client(tenant_id: str, key: str) -> Client:
    tenant = Tenant(tenant_id, "", Caller(tenant_id, UUID(int=0), 100_000))
    return Client(tenant, a_request(tenant, idempotency_key=key), persistent=True)


if __name__ == "__main__":
    _die_at(json.load(sys.stdin))
