"""The cost of requests above their floors: `python -m bench.submit [rounds]` (or `make bench-submit`).

The floor of a request is the sum of the round trips that its design needs, each bare and on the same servers. For a
submit: one SELECT for the API key, two EVALSHA (to admit, to remember), one durable INSERT, one UPDATE, one SQS send
through boto3 to a stand-in that answers immediately. For a repetition and a read: the SELECT, one EVALSHA, and one
SELECT of the run. Nothing is prepared, so that RDS Proxy can share connections. Measured against them are the use case
(`dpp.runs.submit.submit`) and the whole handler with its event, as Lambda calls it.

Every round makes each call once, in turn, so that a slow phase of the disk or of a neighbour affects all of them.
Printed are medians over all rounds, and the range of the ratio in fifths of the rounds.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import psycopg

from bench.support.aws import stand_in
from bench.support.output import print_machine, print_table
from bench.support.runs import Requests, inputs_of, logs_to, submit_request
from bench.support.servers import TENANT, Place, servers, use
from dpp.runs.submit import SubmitEffects, submit

AIM = 1.3
_FIFTHS = 5
type Call = Callable[[], object]


@dataclass(slots=True)
class Part:
    """A call that each round makes once, and the times it took, in µs."""

    name: str
    call: Call
    times: list[float] = field(default_factory=list)

    def measure(self) -> None:
        start = time.perf_counter_ns()
        self.call()
        self.times.append((time.perf_counter_ns() - start) / 1_000)

    def median(self, fifth: int | None = None) -> float:
        size = len(self.times) // _FIFTHS
        times = self.times if fifth is None else self.times[fifth * size : (fifth + 1) * size]
        return statistics.median(times)


@dataclass(frozen=True, slots=True)
class Request:
    """A request and the bare round trips of its floor; one that it makes twice is there twice."""

    part: Part
    floor: Sequence[Part]

    def floor_us(self, fifth: int | None = None) -> float:
        return sum(one.median(fifth) for one in self.floor)

    def ratio(self, fifth: int | None = None) -> float:
        return self.part.median(fifth) / self.floor_us(fifth)


def main(rounds: int) -> None:
    with servers() as its, stand_in() as endpoint:
        place = Place(its.database("ours"), its.valkey().url, endpoint)
        print_machine(its.postgres.url())
        use(place)
        token = place.create_tenant().token
        from runs_submit.handler import wiring  # noqa: PLC0415 - reads the environment

        effects = wiring()
        with psycopg.connect(place.database_url, autocommit=True, prepare_threshold=None) as connection:
            floor = _floor(connection, effects)
            with logs_to():
                requests = _requests(Requests(token), floor, effects)
                _measure([*floor.values(), *(one.part for one in requests)], rounds)
        _print(floor, requests, rounds)


def _requests(requests: Requests, floor: Mapping[str, Part], effects: SubmitEffects) -> list[Request]:
    key, script, insert, update, send, run = floor.values()
    of_submit = [key, script, insert, script, send, update]
    of_read = [key, script, run]
    return [
        Request(
            Part("submit, the use case alone", lambda: submit(submit_request(str(uuid4())), effects)), of_submit[1:]
        ),
        Request(Part("POST /v1/runs, the handler", requests.submit), of_submit),
        Request(Part("the same key again, the handler", requests.repeat), of_read),
        Request(Part("GET /v1/runs/{run_id}, the handler", requests.read), of_read),
    ]


def _floor(connection: psycopg.Connection[tuple[object, ...]], effects: SubmitEffects) -> Mapping[str, Part]:
    connection.execute("CREATE TABLE floor (id uuid PRIMARY KEY, body jsonb, at timestamptz)")
    redis = effects.ledger.client
    sha = str(
        redis.script_load("redis.call('DECRBY', KEYS[1], 1) redis.call('HSET', KEYS[2], 'a', '1') return {'OK', '1'}")
    )
    body, latest = json.dumps(inputs_of("floor")), UUID(int=0)
    message = json.dumps({"run_id": str(uuid4()), "tenant_id": TENANT, "pack_type": "decision"})

    def insert() -> None:
        nonlocal latest
        latest = uuid4()
        connection.execute("INSERT INTO floor VALUES (%s, %s, now())", (latest, body))

    def update() -> None:
        connection.execute("UPDATE floor SET at = now() WHERE id = %s", (latest,))

    def select() -> None:
        connection.execute("SELECT * FROM floor WHERE id = %s", (latest,)).fetchone()

    calls: Mapping[str, Call] = {
        "SELECT by primary key (the API key)": select,
        "EVALSHA, two keys": lambda: redis.evalsha(sha, 2, "b:1", "b:2"),
        "INSERT, one row, durable": insert,
        "UPDATE by primary key, durable": update,
        "SQS send through boto3": lambda: effects.queue.send(message),
        "SELECT by primary key (the run)": select,
    }
    return {name: Part(name, call) for name, call in calls.items()}


def _measure(parts: Sequence[Part], rounds: int) -> None:
    for _ in range(max(20, rounds // 10)):
        for part in parts:
            part.call()
    for number in range(rounds):
        turn = number % len(parts)
        for part in (*parts[turn:], *parts[:turn]):
            part.measure()


def _print(floor: Mapping[str, Part], requests: Sequence[Request], rounds: int) -> None:
    print(f"{rounds} rounds, each call once a round, medians; Postgres flushes to disk\n")
    print_table(("round trip", "µs"), [(part.name, f"{part.median():.0f}") for part in floor.values()])
    print()
    rows = []
    for one in requests:
        fifths = sorted(one.ratio(fifth) for fifth in range(_FIFTHS))
        times = f"{one.part.median():.0f}", f"{one.floor_us():.0f}", f"{one.ratio():.2f} ×"
        rows.append((one.part.name, *times, f"{fifths[0]:.2f} to {fifths[-1]:.2f}"))
    print_table(("request", "µs", "floor, µs", "ratio", "by fifths of the rounds"), rows)
    for one in requests[1:]:
        result = "met" if one.ratio() <= AIM else "missed"
        print(f"aim: {one.part.name} at most {AIM} × its floor: {result} ({one.ratio():.2f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
