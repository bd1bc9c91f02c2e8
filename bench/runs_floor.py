"""The floor of bench/runs.py: the round trips that a run's design allows, bare, with no code of ours around them.

Of a submit one EVALSHA, one insert of the run with its inputs, one send, one update; of the work one event, one update
that leases, one object, one update that claims, one EVALSHA that settles, one update that commits. The insert and each
update are committed and flushed. Prepared statements, `http.client` for HTTP; a process does one run after another.
"""

import json
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import redis

from bench.crew import Share
from bench.runs_aws import EventSource
from bench.runs_work import Place, answer, found, inputs_of

_SCRIPT = "redis.call('DECRBY', KEYS[1], 1) redis.call('HSET', KEYS[2], ARGV[1], '1') return {'OK', '1'}"
_TABLES = """
CREATE TABLE floor_runs (
  run_id uuid PRIMARY KEY, tenant text, key text, state text, at timestamptz, UNIQUE (tenant, key));
CREATE TABLE floor_inputs (run_id uuid PRIMARY KEY REFERENCES floor_runs, inputs jsonb);
"""
_INSERT = """
WITH run AS (INSERT INTO floor_runs VALUES (%s, 't', %s, 'QUEUED', now()) RETURNING run_id)
INSERT INTO floor_inputs SELECT run_id, %s FROM run
"""
_MOVE = "UPDATE floor_runs SET state = %s, at = now() WHERE run_id = %s AND state = %s RETURNING *"


def prepare(place: Place) -> None:
    """Its tables."""
    with psycopg.connect(place.database_url, autocommit=True) as connection:
        connection.execute(_TABLES)


def submitter(place: Place, share: Share) -> None:
    """A share of runs, from submit to commit; whose message is taken doesn't matter."""
    address = urlsplit(place.endpoint).netloc
    with (
        psycopg.connect(place.database_url, autocommit=True, prepare_threshold=0) as connection,
        closing(redis.Redis.from_url(place.redis_url)) as cache,
        closing(HTTPConnection(address)) as aws,
    ):
        sha, source = str(cache.script_load(_SCRIPT)), EventSource(place.endpoint)
        told: dict[str, Any] | None = None

        def run(name: str) -> None:
            nonlocal told
            run_id, inputs = uuid4(), inputs_of(name)
            cache.evalsha(sha, 2, "balance", "reservations", name)
            connection.execute(_INSERT, (run_id, name, json.dumps(inputs)))
            _ask(aws, "POST", "/0/runs", json.dumps({"MessageBody": str(run_id)}).encode())
            connection.execute(_MOVE, ("SENT", run_id, "QUEUED"))
            event = source.next(told)["Records"][0]
            connection.execute(_MOVE, ("PROCESSING", run_id, "SENT"))
            _ask(aws, "PUT", f"/results/{run_id}", json.dumps(answer(inputs)).encode())
            connection.execute(_MOVE, ("CLAIMED", run_id, "PROCESSING"))
            cache.evalsha(sha, 2, "balance", "receipts", name)
            connection.execute(_MOVE, ("COMMITTED", run_id, "CLAIMED"))
            told = {"message_id": event["messageId"], "failed": False}

        share.do(run)


def done(place: Place) -> int:
    """How many runs are committed."""
    return int(found(place.database_url, "SELECT count(*) FROM floor_runs WHERE state = 'COMMITTED'")[0])


def proved(place: Place, count: int) -> str:
    """That none is missing. Raises AssertionError."""
    assert done(place) == count
    return f"{count:,} rows through all states"


def _ask(aws: HTTPConnection, verb: str, path: str, body: bytes) -> None:
    aws.request(verb, path, body)
    aws.getresponse().read()
