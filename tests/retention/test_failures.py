"""Failures during a cleanup: S3 refuses or is unavailable, or a class fails (LIFE-3, LIFE-4, LIFE-8)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar
from uuid import uuid4

import boto3
import psycopg
import pytest
from botocore.exceptions import ConnectionClosedError
from moto.s3.exceptions import AccessDeniedByLock
from moto.s3.models import S3Backend

from dpp.lifecycle.retention import classes, stats
from dpp.lifecycle.retention.store import DELETIONS_A_CALL
from dpp.platform.aws.clients import s3_client
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.retention import Batch
from dpp.platform.db.retention_table import TableClass
from tests.retention.environment import DAY, NIGHT, Environment
from tests.support.retention_batches import as_kind

_OLD = NIGHT - 8 * DAY
_MINUTE = timedelta(minutes=1)
_KEYS = [f"state/prompts/{number}.md" for number in range(3)]


@dataclass(slots=True)
class Bucket:
    """A bucket of moto that refuses to delete some keys, or fails during a call."""

    name: str
    client: Any
    locked: set[str] = field(default_factory=set)
    fails_behind: int | None = None
    deleted: int = 0

    def keys(self) -> list[str]:
        return [one["Key"] for one in self.client.list_objects_v2(Bucket=self.name).get("Contents", ())]

    def delete(self, real: Callable[..., Any], backend: S3Backend, name: str, key: str, *args: Any) -> Any:
        """Delete one object of a batch."""
        if self.fails_behind is not None and self.deleted >= self.fails_behind:
            raise ConnectionClosedError(endpoint_url="s3")
        if key in self.locked:
            raise AccessDeniedByLock
        self.deleted += 1
        return real(backend, name, key, *args)


@pytest.fixture
def bucket(env: Environment, aws: None, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """The environment's bucket, behind the real adapter with one attempt per call."""
    made = Bucket(f"t-{uuid4().hex}", boto3.client("s3"))
    made.client.create_bucket(Bucket=made.name)
    real = S3Backend.delete_object

    def delete(
        self: S3Backend, bucket_name: str, key_name: str, version_id: str | None = None, bypass: bool = False
    ) -> Any:
        return made.delete(real, self, bucket_name, key_name, version_id, bypass)

    monkeypatch.setattr(S3Backend, "delete_object", delete)
    env.change(storage=ObjectStore(made.name, lambda: s3_client(attempts=1)))
    for key in _KEYS:
        env.object(key, "PROMPT", _OLD)
        made.client.put_object(Bucket=made.name, Key=key, Body=b"x")
    return made


def _listed(env: Environment) -> list[tuple[Any, ...]]:
    return env.execute("SELECT object_key, attempts, last_error FROM lifecycle_deletions ORDER BY object_key")


def test_refused_objects_stay_listed_are_reported_and_deleted_later(env: Environment, bucket: Bucket) -> None:
    bucket.locked = {_KEYS[1]}
    done = env.tick()
    assert bucket.keys() == [_KEYS[1]]
    assert (done.objects.deleted, done.objects.refused) == (2, 1)
    assert _listed(env) == [(_KEYS[1], 1, "AccessDenied")]
    assert done.cleanup is not None
    assert done.cleanup.warnings == ["S3 refused to delete 1 objects; they stay listed"]
    assert env.keys("lifecycle_objects", "object_key") == set()
    # Not at once, but after a minute, after two more, and so on.
    assert env.tick(NIGHT + _MINUTE / 2).objects.refused == 0
    assert env.tick(NIGHT + _MINUTE).objects.refused == 1
    assert env.tick(NIGHT + 2 * _MINUTE).objects.refused == 0
    assert env.using(stats.read_stats, NIGHT + 2 * _MINUTE).deletions.refused == 1
    bucket.locked = set()
    assert env.tick(NIGHT + 3 * _MINUTE).objects.deleted == 1
    assert (bucket.keys(), _listed(env)) == ([], [])


def test_s3_failure_during_a_batch_loses_nothing(env: Environment, bucket: Bucket) -> None:
    bucket.fails_behind = 1
    done = env.tick()
    assert done.objects.unanswered
    assert len(bucket.keys()) == 2
    assert [one[0] for one in _listed(env)] == _KEYS
    assert done.cleanup is not None
    assert done.cleanup.deleted == 3
    bucket.fails_behind = None
    assert env.tick(NIGHT + _MINUTE).objects.deleted == 3
    assert (bucket.keys(), _listed(env)) == ([], [])


def test_more_objects_than_one_call_takes_are_deleted_in_several(env: Environment, bucket: Bucket) -> None:
    env.execute(
        "INSERT INTO lifecycle_deletions (object_key, listed_at, next_attempt_at)"
        " SELECT 'gone/' || n, %(at)s, %(at)s FROM generate_series(1, %(count)s) n",
        at=_OLD,
        count=DELETIONS_A_CALL,
    )
    done = env.tick()
    assert (done.objects.deleted, done.objects.refused) == (DELETIONS_A_CALL + len(_KEYS), 0)
    assert (bucket.keys(), _listed(env)) == ([], [])


class FailingOnce(TableClass):
    """A class whose first batch fails."""

    has_failed: ClassVar[bool]

    def delete(self, *args: Any) -> Batch:
        batch = super().delete(*args)
        if not FailingOnce.has_failed:
            FailingOnce.has_failed = True
            raise psycopg.errors.LockNotAvailable
        return batch


def test_targets_of_a_failed_class_wait_and_no_other_class_does(env: Environment) -> None:
    """Otherwise a task's event would be examined, found blocked, and deleted a night later."""
    FailingOnce.has_failed = False
    event = env.event(2, _OLD, seen_at=NIGHT - 31 * DAY)
    env.task(1, _OLD, event_id=event)
    env.message(1, _OLD)
    failing = as_kind(FailingOnce, classes.TASKS)
    env.change(classes=[failing if one.name == "tasks" else one for one in env.effects.classes])
    assert env.tick().errors == 1
    assert env.keys("lifecycle_messages", "message_id") == set()
    assert [env.report(name).status for name in ("messages", "tasks", "events", "seen")] == [
        "DONE",
        "RUNNING",
        "WAITING",
        "WAITING",
    ]
    cleanup = env.clean()
    assert (cleanup.deleted, cleanup.errors) == (4, 1)
    assert env.keys("lifecycle_seen", "event_id") == set()
