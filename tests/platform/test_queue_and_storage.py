"""SQS and S3 by moto (RUN-15, RUN-18, RUN-10; issue 3: SQS and S3 down at each step)."""

import hashlib
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from botocore.config import Config

from dpp.platform.aws.clients import s3_client, sqs_client
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.errors import QueueUnavailable, StorageUnavailable
from dpp_cli.local.servers import HOST, free_port
from tests.support.world import World

_FAST = Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1})
_BODY = '{"답": "42"}'.encode()


def test_an_object_is_read_as_it_was_written(world: World) -> None:
    """RUN-18: byte for byte, as UTF-8 JSON, and the second write wins."""
    world.storage.put_json("a/b.json", b"{}")
    world.storage.put_json("a/b.json", _BODY)
    assert world.storage.get("a/b.json") == _BODY
    stored = world.s3.get_object(Bucket=world.bucket, Key="a/b.json", ChecksumMode="ENABLED")
    assert stored["ContentType"] == "application/json; charset=utf-8"
    assert stored["ResponseMetadata"]["HTTPHeaders"]["x-amz-checksum-sha256"]


def test_a_missing_object_is_none(world: World) -> None:
    """RUN-22: reconcile relies on it."""
    assert world.storage.get("a/b.json") is None


def test_a_signed_url_reads_one_object_until_its_stated_expiry(world: World) -> None:
    """RUN-10: version 4, no credentials except the signature, and expires_at is never after the real expiry."""
    before = datetime.now(UTC)
    signed = ObjectStore(world.bucket, s3_client).presign_get("a/b c.json", 600)
    query = parse_qs(urlsplit(signed.url).query)
    assert query["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
    assert query["X-Amz-Expires"] == ["600"]
    assert "testing" not in query["X-Amz-Signature"][0]
    assert urlsplit(signed.url).path.endswith("a/b%20c.json")
    began = datetime.strptime(query["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    assert before.replace(microsecond=0) + timedelta(seconds=600) <= signed.expires_at
    assert signed.expires_at <= began + timedelta(seconds=600)


def test_a_missing_bucket_is_a_typed_error(world: World) -> None:
    """Issue 3: it is not mistaken for a missing object."""
    store = ObjectStore("no-such-bucket", lambda: world.s3)
    asks: list[Callable[[], object]] = [lambda: store.get("k"), lambda: store.put_json("k", b"{}"), store.ping]
    for ask in asks:
        with pytest.raises(StorageUnavailable):
            ask()
    world.storage.ping()


def test_a_message_is_sent_unchanged(world: World) -> None:
    """RUN-15: only the body is sent."""
    world.queue.send('{"run_id": "한"}')
    [message] = world.sqs.receive_message(QueueUrl=world.queue_url)["Messages"]
    assert message["Body"] == '{"run_id": "한"}'
    assert message["MD5OfBody"] == hashlib.md5(message["Body"].encode(), usedforsecurity=False).hexdigest()


def test_a_message_in_progress_is_kept_invisible(world: World) -> None:
    """RUN-16: 0 s makes it visible at once, 120 s hides it."""
    world.queue.send("m")
    [message] = world.sqs.receive_message(QueueUrl=world.queue_url)["Messages"]
    world.queue.extend_visibility(message["ReceiptHandle"], 120)
    assert "Messages" not in world.sqs.receive_message(QueueUrl=world.queue_url)
    world.queue.extend_visibility(message["ReceiptHandle"], 0)
    assert "Messages" in world.sqs.receive_message(QueueUrl=world.queue_url)


def test_received_messages_are_invisible_to_others_until_released_or_deleted(world: World) -> None:
    """RUN-15: messages that an operator inspects are hidden meanwhile, and visible again at once."""
    before = datetime.now(UTC) - timedelta(seconds=1)
    for number in range(12):
        world.queue.send(f"m{number}")
    first = world.queue.receive(at_most=50, invisible_seconds=60)
    second = world.queue.receive(at_most=10, invisible_seconds=60)
    assert (len(first), len(second)) == (10, 2)
    assert {message.body for message in first + second} == {f"m{number}" for number in range(12)}
    assert all(message.receive_count == 1 for message in first)
    assert all(before <= message.sent_at <= datetime.now(UTC) + timedelta(seconds=1) for message in first)
    assert world.queue.receive(at_most=10, invisible_seconds=60) == []
    world.queue.delete(second[0].receipt_handle)
    world.queue.delete(second[0].receipt_handle)
    world.queue.release([message.receipt_handle for message in first + second[1:]])
    again = [world.queue.receive(at_most=10, invisible_seconds=60) for _ in range(2)]
    assert [len(batch) for batch in again] == [10, 1]
    assert {message.receive_count for batch in again for message in batch} == {2}
    world.queue.release([])


def test_a_deleted_message_does_not_prevent_the_release_of_others(world: World) -> None:
    """RUN-15: for example one deleted meanwhile by another consumer."""
    world.queue.send("gone")
    world.queue.send("there")
    held = world.queue.receive(at_most=10, invisible_seconds=60)
    gone = next(message for message in held if message.body == "gone")
    world.queue.delete(gone.receipt_handle)
    world.queue.release([message.receipt_handle for message in held])
    (left,) = world.queue.receive(at_most=10, invisible_seconds=60)
    assert left.body == "there"


def test_a_missing_queue_is_a_typed_error(world: World) -> None:
    """RUN-8: whatever SQS answers, it did not accept the message."""
    queue = Queue(f"{world.queue_url}-gone", lambda: world.sqs)
    asks: list[Callable[[], object]] = [
        lambda: queue.send("m"),
        lambda: queue.extend_visibility("handle", 1),
        lambda: queue.receive(at_most=1, invisible_seconds=1),
        lambda: queue.delete("handle"),
        lambda: queue.release(["handle"]),
        queue.ping,
    ]
    for ask in asks:
        with pytest.raises(QueueUnavailable):
            ask()
    world.queue.ping()


def test_an_endpoint_that_does_not_answer_is_a_typed_error(aws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 3: a refused connection, for both; the error names no endpoint."""
    nowhere = f"http://{HOST}:{free_port()}"
    sqs = boto3.client("sqs", endpoint_url=nowhere, config=_FAST)
    s3 = boto3.client("s3", endpoint_url=nowhere, config=_FAST)
    with pytest.raises(QueueUnavailable) as lost_queue:
        Queue(f"{nowhere}/1/runs", lambda: sqs).send("m")
    with pytest.raises(StorageUnavailable) as lost_store:
        ObjectStore("bucket", lambda: s3).get("k")
    assert str(lost_queue.value) == "sqs is unavailable: EndpointConnectionError"
    assert str(lost_store.value) == "s3 is unavailable: EndpointConnectionError"


def test_a_client_is_created_once_at_the_first_call() -> None:
    """PLAT-1: a container that never sends creates no client."""
    made: list[int] = []

    def factory() -> object:
        made.append(1)
        raise AssertionError("not now")

    Queue("https://queue", factory)  # type: ignore[arg-type]
    ObjectStore("bucket", factory)  # type: ignore[arg-type]
    assert made == []


def test_every_aws_call_has_timeouts(aws: None) -> None:
    """Issue 3: connect and read timeouts and attempts are set; the defaults are 60 s."""
    for client in (sqs_client(), s3_client()):
        config = client.meta.config
        assert (config.connect_timeout, config.read_timeout) == (1, 3)  # type: ignore[attr-defined]
        assert config.retries["total_max_attempts"] == 2  # type: ignore[attr-defined]


def test_a_call_to_a_silent_server_ends_within_its_bound(aws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 10: SQS accepts the connection and falls silent. The caller must get an error in time to answer."""
    monkeypatch.setattr("dpp.platform.aws.clients._READ_TIMEOUT_SECONDS", 0.2)
    with socket.create_server((HOST, 0)) as silent:
        endpoint = f"http://{HOST}:{silent.getsockname()[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        began = time.monotonic()
        with pytest.raises(QueueUnavailable):
            Queue(f"{endpoint}/1/runs").send("m")
        took = time.monotonic() - began
        silent.settimeout(0)
        tried = 0
        with suppress(BlockingIOError):
            while True:
                silent.accept()[0].close()
                tried += 1
    assert tried == 2
    assert took < 9  # minutes without the limit
