"""Celery's side of bench/runs, with Redis as broker and result backend.

Set as its documentation advises for short tasks: many messages prefetched, no events, no gossip, mingle or heartbeats,
one worker process a core (`solo`, which saves a pipe between two processes), JSON, results kept as by default. By
default a task is acknowledged before it runs, and Redis keeps nothing on disk. `late` acknowledges afterwards, which
the documentation calls the safer setting, with an append-only file of Redis.

It is not durable even then: kombu removes a message from its list (BRPOP) and adds it to the unacknowledged ones in a
second call (`kombu/transport/redis.py`, `_brpop_read` and `QoS.append`). A worker that dies in between loses it.
"""

import warnings
from pathlib import Path
from typing import Any

import redis

from bench.support.processes import Share
from bench.support.runs import inputs_of, no_op
from bench.support.servers import Place, import_peer

PREFETCHED = 64


def submitter(packages: Path, place: Place, late: bool, share: Share) -> None:
    task = _application(packages, place, late).tasks["run"]
    share.do(lambda name, _due: task.apply_async(args=(inputs_of(name),), task_id=name))


def worker(packages: Path, place: Place, late: bool) -> None:
    warnings.filterwarnings("ignore", category=UserWarning)  # that it runs as root
    options = ["--quiet", "worker", "--pool=solo", f"--prefetch-multiplier={PREFETCHED}", "--loglevel=ERROR"]
    options += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    _application(packages, place, late).worker_main(options)


def _application(packages: Path, place: Place, late: bool) -> Any:
    server = place.redis_url.rpartition("/")[0]
    celery = import_peer("celery", packages).Celery("bench", broker=f"{server}/0", backend=f"{server}/1")
    celery.conf.update(
        task_serializer="json",
        result_serializer="json",
        accept_content=["json"],
        task_acks_late=late,
        worker_send_task_events=False,
        task_send_sent_event=False,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
    )
    celery.task(name="run")(no_op)
    return celery


def _results(place: Place) -> redis.Redis:
    return redis.Redis.from_url(place.redis_url.rpartition("/")[0] + "/1")


def done(place: Place) -> int:
    with _results(place) as client:
        return int(client.dbsize())


def proved(place: Place, count: int) -> str:
    """Check that each task has a result. Raises AssertionError."""
    with _results(place) as client:
        succeeded = [b'"SUCCESS"' in (client.get(key) or b"") for key in client.scan_iter(count=1_000)]
    assert len(succeeded) == count, len(succeeded)
    assert all(succeeded)
    return f"{count:,} results, all successful"
