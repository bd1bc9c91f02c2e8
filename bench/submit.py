"""What a submit costs above its floor: `python -m bench.submit [rounds]` (or `make bench`).

The floor is the sum of the round trips that the design allows, measured in the same run on the same servers: one
EVALSHA over two keys, one durable insert, one update, one SQS send through boto3 to a responder that answers at
once. Beside it stands the whole use case (`dpp.runs.submit.submit`), and the whole handler with its event.
"""

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4

import boto3
import psycopg
from botocore.config import Config

from dpp.money.credits import create_tenant, credit
from dpp.money.ledger import Ledger
from dpp.packs.contract import PackType
from dpp.platform import api_keys
from dpp.platform.api_keys import Caller
from dpp.platform.postgres import Database
from dpp.platform.queue import Queue
from dpp.runs.submit import Order, SubmitEffects, submit
from dpp_cli import migrate
from dpp_cli.servers import PostgresServer, ValkeyServer

TENANT = "t_bench"


class _Responder(BaseHTTPRequestHandler):
    """An SQS that takes everything; boto3 checks the MD5 of the body, so that much is real."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer a SendMessage."""
        import hashlib  # noqa: PLC0415

        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        digest = hashlib.md5(sent["MessageBody"].encode(), usedforsecurity=False).hexdigest()
        body = json.dumps({"MessageId": str(uuid4()), "MD5OfMessageBody": digest}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Nothing."""


@contextmanager
def responder() -> Iterator[str]:
    """An SQS that answers at once; its endpoint."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Responder)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def _median_us(call: Callable[[], object], rounds: int) -> float:
    for _ in range(max(10, rounds // 10)):
        call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - start) / 1_000)
    return statistics.median(times)


def _order() -> Order:
    return Order(
        idempotency_key=str(uuid4()),
        pack_type=PackType.DECISION,
        inputs={"question": "What does moving cost?", "context": "Two monthly rents. " * 20},
        reserved_usd_micros=100,
        timebox_sec=90,
        min_reliability_score=0.8,
        inline_result=False,
        profile_version="PROFILE_DPP_0_4_2_2",
        trace_id="t_bench",
    )


def _print(rows: dict[str, float]) -> None:
    for name, value in rows.items():
        print(f"{name:<44}{value:>9.0f} µs")


def main(rounds: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="dpp-bench-") as folder, responder() as endpoint:
        # Postgres may run as another user and must reach its folder.
        Path(folder).chmod(0o755)
        postgres = PostgresServer.start(Path(folder) / "postgres", durable=True)
        valkey = ValkeyServer.start(Path(folder) / "valkey")
        try:
            _measure(postgres.url(), valkey.url, endpoint, rounds)
        finally:
            valkey.stop()
            postgres.stop()


def _measure(database_url: str, redis_url: str, endpoint: str, rounds: int) -> None:
    migrate.upgrade(database_url)
    config = Config(retries={"total_max_attempts": 1})
    sqs = boto3.client(
        "sqs",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="bench",
        aws_secret_access_key="bench",  # noqa: S106
        config=config,
    )
    queue = Queue(f"{endpoint}/000000000000/runs", lambda: sqs)
    database, ledger = Database(database_url), Ledger.connect(redis_url)
    minted = api_keys.mint()
    with psycopg.connect(database_url, autocommit=True) as connection:
        create_tenant(connection, TENANT, "Bench", 1_000_000)
        api_keys.store(connection, minted, TENANT)
        credit(
            connection,
            ledger,
            credit_id=uuid4(),
            tenant_id=TENANT,
            amount_usd_micros=10**12,
            reason="bench",
        )
        connection.execute("CREATE TABLE floor (id uuid PRIMARY KEY, body jsonb, at timestamptz)")
        floor = _floor(connection, ledger, queue, rounds)
    caller = Caller(TENANT, minted.key_id, 1_000_000)
    effects = SubmitEffects(database, ledger, queue)
    ours = _median_us(lambda: submit(_order(), caller, effects), rounds)
    database.close()
    print(f"{os.cpu_count()} cores, {rounds} rounds, medians; Postgres flushes to disk\n")
    _print(floor)
    total = sum(floor.values())
    print()
    _print({"floor, the sum": total, "dpp.runs.submit.submit": ours})
    print(f"{'above the floor':<44}{ours / total:>9.2f} ×")


def _floor(
    connection: psycopg.Connection[tuple[object, ...]], ledger: Ledger, queue: Queue, rounds: int
) -> dict[str, float]:
    script = "redis.call('DECRBY', KEYS[1], 1) redis.call('HSET', KEYS[2], 'a', '1') return {'OK', '1'}"
    sha = str(ledger.client.script_load(script))
    body = json.dumps({"question": "What does moving cost?", "context": "Two monthly rents. " * 20})
    message = json.dumps({"run_id": str(uuid4()), "tenant_id": TENANT, "pack_type": "decision"})
    latest = uuid4()

    def insert() -> None:
        nonlocal latest
        latest = uuid4()
        connection.execute("INSERT INTO floor VALUES (%s, %s, now())", (latest, body))

    return {
        "EVALSHA, two keys": _median_us(lambda: ledger.client.evalsha(sha, 2, "b:1", "b:2"), rounds),
        "INSERT, one row, durable": _median_us(insert, rounds),
        "UPDATE by primary key, durable": _median_us(
            lambda: connection.execute("UPDATE floor SET at = now() WHERE id = %s", (latest,)), rounds
        ),
        "SQS send through boto3, canned answer": _median_us(lambda: queue.send(message), rounds),
    }


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
