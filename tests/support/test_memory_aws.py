"""The stand-ins for S3 and SQS answer as moto does, call by call."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.exceptions import ClientError

from dpp.platform.aws.queue import Depth, OutgoingMessage, Queue
from dpp.platform.aws.storage import ObjectStore
from tests.support.memory_s3 import MemoryS3
from tests.support.memory_sqs import MemorySqs
from tests.support.s3_server import s3_server
from tests.support.sqs_server import sqs_server


@pytest.fixture(params=["moto", "memory", "server"])
def sqs(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A client of SQS."""
    match request.param:
        case "moto":
            request.getfixturevalue("aws")
            yield boto3.client("sqs")
        case "memory":
            yield MemorySqs()
        case _:
            with sqs_server() as endpoint:
                yield _client("sqs", endpoint)


@pytest.fixture(params=["moto", "memory", "server"])
def s3(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A client of S3."""
    match request.param:
        case "moto":
            request.getfixturevalue("aws")
            yield boto3.client("s3")
        case "memory":
            yield MemoryS3()
        case _:
            with s3_server() as endpoint:
                yield _client("s3", endpoint)


def _client(service: Any, endpoint: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )


@pytest.fixture
def queue(sqs: Any) -> Queue:
    """A queue of this test's own."""
    url = sqs.create_queue(QueueName=f"q-{uuid4().hex}", Attributes={"VisibilityTimeout": "120"})["QueueUrl"]
    return Queue(url, lambda: sqs)


@pytest.fixture
def store(s3: Any) -> ObjectStore:
    """A bucket of this test's own."""
    bucket = f"b-{uuid4().hex}"
    s3.create_bucket(Bucket=bucket)
    return ObjectStore(bucket, lambda: s3)


def test_an_object_is_read_as_it_was_written_until_it_is_deleted(store: ObjectStore) -> None:
    assert store.get("a/b") is None
    store.put("a/b", b"one", "text/plain")
    store.put("a/b", b"two", "text/plain")
    assert store.get("a/b") == b"two"
    assert store.delete(["a/b", "a/c"]) == {}
    assert store.get("a/b") is None


def test_a_conditional_put_is_refused_where_the_object_differs(s3: Any, store: ObjectStore) -> None:
    first = s3.put_object(Bucket=store.bucket, Key="k", Body=b"1", IfNoneMatch="*")["ETag"]
    for condition in ({"IfNoneMatch": "*"}, {"IfMatch": '"another"'}):
        with pytest.raises(ClientError) as refused:
            s3.put_object(Bucket=store.bucket, Key="k", Body=b"2", **condition)
        assert refused.value.response["Error"]["Code"] == "PreconditionFailed"
    assert s3.put_object(Bucket=store.bucket, Key="k", Body=b"3", IfMatch=first)["ETag"] != first
    found = s3.head_object(Bucket=store.bucket, Key="k")
    assert found["ContentLength"] == 1
    assert store.get("k") == b"3"


def test_messages_are_hidden_by_a_receive_and_shown_again(queue: Queue) -> None:
    for number in range(3):
        queue.send(f"m{number}")
    shown = queue.receive(at_most=2, invisible_seconds=60)
    assert len(shown) == 2
    assert all(one.receive_count == 1 for one in shown)
    assert queue.depth() == Depth(visible=1, in_flight=2, delayed=0)
    queue.delete(shown[0].receipt_handle)
    queue.release([shown[1].receipt_handle])
    again = queue.receive(at_most=10, invisible_seconds=60)
    assert sorted(one.receive_count for one in again) == [1, 2]
    queue.extend_visibility(again[0].receipt_handle, 0)
    assert len(queue.receive(at_most=10, invisible_seconds=60)) == 1


def test_headers_are_received_as_they_were_sent(queue: Queue) -> None:
    queue.send_with_headers(OutgoingMessage("alone", {"kind": "x"}))
    assert queue.send_batch([OutgoingMessage(f"b{n}", {"kind": str(n)}) for n in range(3)]) == [None] * 3
    found = {one.body: one.attributes for one in queue.receive(at_most=10, invisible_seconds=60)}
    assert found == {"alone": {"kind": "x"}, **{f"b{n}": {"kind": str(n)} for n in range(3)}}


def test_a_delayed_message_is_not_visible_yet(queue: Queue) -> None:
    queue.send_later("m", 900)
    assert queue.receive(at_most=1, invisible_seconds=60) == []
    assert queue.depth() == Depth(visible=0, in_flight=0, delayed=1)
