"""The floor of bench/runs: the bare round trips of a run's design, without our code around them.

For a submit: one EVALSHA, one insert of the run with its inputs, one send, one update. For the work: one event, one
update that leases, one object, one update that claims, one EVALSHA that settles, one update that commits. The insert
and each update are committed and flushed. Statements are prepared, HTTP goes through `http.client`, and a process does
one run after another.
"""

import json
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import redis

from bench.support.aws import EventSource
from bench.support.processes import Share
from bench.support.runs import inputs_of, no_op
from bench.support.servers import Place

DONE = "SELECT count(*) FROM floor_runs WHERE state = 'COMMITTED'"
TABLES = (
    "CREATE TABLE floor_runs (run_id uuid PRIMARY KEY, tenant text, key text, state text, at timestamptz,"
    " UNIQUE (tenant, key))",
    "CREATE TABLE floor_inputs (run_id uuid PRIMARY KEY REFERENCES floor_runs, inputs jsonb)",
)
_SCRIPT = "redis.call('DECRBY', KEYS[1], 1) redis.call('HSET', KEYS[2], ARGV[1], '1') return {'OK', '1'}"
_INSERT = """
WITH run AS (INSERT INTO floor_runs VALUES (%s, 't', %s, 'QUEUED', now()) RETURNING run_id)
INSERT INTO floor_inputs SELECT run_id, %s FROM run
"""
_MOVE = "UPDATE floor_runs SET state = %s, at = now() WHERE run_id = %s AND state = %s RETURNING *"


def submitter(place: Place, share: Share) -> None:
    """Process a share of runs from submit to commit. Which process gets which message doesn't matter."""
    address = urlsplit(place.endpoint).netloc
    with (
        psycopg.connect(place.database_url, autocommit=True, prepare_threshold=0) as connection,
        closing(redis.Redis.from_url(place.redis_url)) as cache,
        closing(HTTPConnection(address)) as aws,
    ):
        sha, source = str(cache.script_load(_SCRIPT)), EventSource(place.endpoint)
        outcome: dict[str, Any] | None = None

        def run(name: str, _due: float) -> None:
            nonlocal outcome
            run_id, inputs = uuid4(), inputs_of(name)
            cache.evalsha(sha, 2, "balance", "reservations", name)
            connection.execute(_INSERT, (run_id, name, json.dumps(inputs)))
            _request(aws, "POST", "/0/runs", json.dumps({"MessageBody": str(run_id)}).encode())
            connection.execute(_MOVE, ("SENT", run_id, "QUEUED"))
            event = source.next(outcome)["Records"][0]
            connection.execute(_MOVE, ("PROCESSING", run_id, "SENT"))
            _request(aws, "PUT", f"/results/{run_id}", json.dumps(no_op(inputs)).encode())
            connection.execute(_MOVE, ("CLAIMED", run_id, "PROCESSING"))
            cache.evalsha(sha, 2, "balance", "receipts", name)
            connection.execute(_MOVE, ("COMMITTED", run_id, "CLAIMED"))
            outcome = {"message_id": event["messageId"], "failed": False}

        share.do(run)


def proved(place: Place, count: int) -> str:
    """Check that no run is missing. Raises AssertionError."""
    assert place.row(DONE) == (count,)
    return f"{count:,} rows through all states"


def _request(aws: HTTPConnection, verb: str, path: str, body: bytes) -> None:
    aws.request(verb, path, body)
    aws.getresponse().read()
