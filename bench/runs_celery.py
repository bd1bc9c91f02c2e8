"""Celery's side of bench/runs.py, with Redis for broker and results.

Its best documented setting for short tasks: the messages prefetched many at a time, no events, no gossip, mingle or
heartbeats, a worker process a core (`solo`, which spares a pipe between two processes), JSON, results as it keeps them.
By default a task is acknowledged before it is done and Redis keeps nothing on disk. `late` acknowledges afterwards, the
safer setting that its documentation names, for Redis with an append-only file.

Not durable even then: kombu takes a message off its list (BRPOP) and enters it among the unacknowledged in a second
call (`kombu/transport/redis.py`, `_brpop_read` and `QoS.append`), so a worker that dies in between loses it.
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import redis

from bench.crew import Share
from bench.runs_work import Place, answer, inputs_of

PREFETCHED = 64


def submitter(packages: Path, place: Place, late: bool, share: Share) -> None:
    """A share of tasks."""
    task = _application(packages, place, late).tasks["run"]
    share.do(lambda name: task.apply_async(args=(inputs_of(name),), task_id=name))


def worker(packages: Path, place: Place, late: bool) -> None:
    """Run tasks until the process is ended."""
    warnings.filterwarnings("ignore", category=UserWarning)  # of root, whoever runs it so
    quiet = ["--quiet", "--loglevel=ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    words = [*quiet[:1], "worker", "--pool=solo", f"--prefetch-multiplier={PREFETCHED}", *quiet[1:]]
    _application(packages, place, late).worker_main(words)


def _application(packages: Path, place: Place, late: bool) -> Any:
    sys.path.append(str(packages))  # behind our own: what both have is one version, of one lock
    from celery import Celery  # noqa: PLC0415 - of the bench's packages

    server = place.redis_url.rpartition("/")[0]
    application = Celery("bench", broker=f"{server}/0", backend=f"{server}/1")
    application.conf.update(
        task_serializer="json",
        result_serializer="json",
        accept_content=["json"],
        task_acks_late=late,
        worker_send_task_events=False,
        task_send_sent_event=False,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
    )
    application.task(name="run")(answer)
    return application


def done(place: Place) -> int:
    """How many results are stored."""
    with redis.Redis.from_url(place.redis_url.rpartition("/")[0] + "/1") as client:
        return int(client.dbsize())


def proved(place: Place, count: int) -> str:
    """That each has a result. Raises AssertionError."""
    with redis.Redis.from_url(place.redis_url.rpartition("/")[0] + "/1") as client:
        ended = [b'"SUCCESS"' in (client.get(key) or b"") for key in client.scan_iter(count=1_000)]
    assert len(ended) == count, len(ended)
    assert all(ended)
    return f"{count:,} results, each a success"
