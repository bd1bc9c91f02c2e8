"""SQS: send messages and extend their visibility; receive, release and delete them for an operator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from dpp.platform.aws.clients import sqs_client, unavailable_as
from dpp.platform.errors import QueueUnavailable

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageAttributeValueTypeDef, MessageTypeDef

MAX_BATCH = 10
"""The maximum number of messages in one SQS call."""


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message received from a queue. `receive_count` includes this receive; `sent_at` is its first send by SQS's
    clock; `attributes` has the text attributes."""

    message_id: str
    receipt_handle: str
    body: str
    receive_count: int
    sent_at: datetime
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message to be sent; `attributes` are its text attributes."""

    body: str
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Depth:
    """The number of messages in a queue: visible, in flight (received and not deleted), and delayed."""

    visible: int
    in_flight: int
    delayed: int


class Queue:
    """One SQS queue; the client is created at the first call."""

    def __init__(self, url: str, client_factory: "Callable[[], SQSClient]" = sqs_client) -> None:
        self.url = url
        self._client_factory = client_factory

    def send(self, body: str) -> None:
        """Send one message. Raises QueueUnavailable if SQS did not accept it, or if its reply was lost."""
        with unavailable_as(QueueUnavailable):
            self._client.send_message(QueueUrl=self.url, MessageBody=body)

    def send_later(self, body: str, delay_seconds: int) -> None:
        """Send one message with a delay of at most 900 s. Raises QueueUnavailable, as `send`."""
        with unavailable_as(QueueUnavailable):
            self._client.send_message(QueueUrl=self.url, MessageBody=body, DelaySeconds=delay_seconds)

    def send_with_headers(self, message: OutgoingMessage) -> None:
        """Send one message with its attributes. Raises QueueUnavailable, as `send`."""
        with unavailable_as(QueueUnavailable):
            self._client.send_message(
                QueueUrl=self.url, MessageBody=message.body, MessageAttributes=_attributes(message.attributes)
            )

    def send_batch(self, messages: Sequence[OutgoingMessage]) -> list[str | None]:
        """Send up to 10 messages in one call. Returns for each None, or SQS's error code if it refused this message.

        Raises QueueUnavailable if SQS did not answer: any of the messages may have been accepted.
        """
        with unavailable_as(QueueUnavailable):
            response = self._client.send_message_batch(
                QueueUrl=self.url,
                Entries=[
                    {
                        "Id": str(number),
                        "MessageBody": message.body,
                        "MessageAttributes": _attributes(message.attributes),
                    }
                    for number, message in enumerate(messages)
                ],
            )
        refused = {int(entry["Id"]): entry["Code"] for entry in response.get("Failed", ())}
        return [refused.get(number) for number in range(len(messages))]

    def extend_visibility(self, receipt_handle: str, seconds: int) -> None:
        """Keep a received message invisible for `seconds` from now."""
        with unavailable_as(QueueUnavailable):
            self._client.change_message_visibility(
                QueueUrl=self.url, ReceiptHandle=receipt_handle, VisibilityTimeout=seconds
            )

    def receive(self, *, at_most: int, invisible_seconds: int, wait_seconds: int = 0) -> list[ReceivedMessage]:
        """Receive up to `at_most` messages (10 at most), invisible to others for `invisible_seconds`.

        With `wait_seconds` above 0 all servers of the queue are queried, so an empty result means an empty queue (SQS
        guide, "Short and long polling").
        """
        with unavailable_as(QueueUnavailable):
            response = self._client.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=min(at_most, MAX_BATCH),
                VisibilityTimeout=invisible_seconds,
                WaitTimeSeconds=wait_seconds,
                MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp"],
                MessageAttributeNames=["All"],
            )
        return [_received(message) for message in response.get("Messages", ())]

    def delete(self, receipt_handle: str) -> None:
        """Delete a received message; no error if it is already deleted."""
        with unavailable_as(QueueUnavailable):
            self._client.delete_message(QueueUrl=self.url, ReceiptHandle=receipt_handle)

    def release(self, receipt_handles: Sequence[str]) -> None:
        """Make received messages visible again at once; deleted and visible ones are skipped."""
        for start in range(0, len(receipt_handles), MAX_BATCH):
            with unavailable_as(QueueUnavailable):
                self._client.change_message_visibility_batch(
                    QueueUrl=self.url,
                    Entries=[
                        {"Id": str(number), "ReceiptHandle": handle, "VisibilityTimeout": 0}
                        for number, handle in enumerate(receipt_handles[start : start + MAX_BATCH])
                    ],
                )

    def depth(self) -> Depth:
        """The approximate number of messages. Raises QueueUnavailable."""
        with unavailable_as(QueueUnavailable):
            response = self._client.get_queue_attributes(
                QueueUrl=self.url,
                AttributeNames=[
                    "ApproximateNumberOfMessages",
                    "ApproximateNumberOfMessagesNotVisible",
                    "ApproximateNumberOfMessagesDelayed",
                ],
            )
        counts = response["Attributes"]
        return Depth(
            visible=int(counts["ApproximateNumberOfMessages"]),
            in_flight=int(counts["ApproximateNumberOfMessagesNotVisible"]),
            delayed=int(counts["ApproximateNumberOfMessagesDelayed"]),
        )

    def ping(self) -> None:
        """Read the queue's attributes, as a readiness probe. Raises QueueUnavailable."""
        with unavailable_as(QueueUnavailable):
            self._client.get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])

    @cached_property
    def _client(self) -> "SQSClient":
        return self._client_factory()


def _attributes(headers: Mapping[str, str]) -> "dict[str, MessageAttributeValueTypeDef]":
    return {name: {"DataType": "String", "StringValue": value} for name, value in headers.items()}


def _received(message: "MessageTypeDef") -> ReceivedMessage:
    attributes = message["Attributes"]
    return ReceivedMessage(
        message_id=message["MessageId"],
        receipt_handle=message["ReceiptHandle"],
        body=message["Body"],
        receive_count=int(attributes["ApproximateReceiveCount"]),
        sent_at=datetime.fromtimestamp(int(attributes["SentTimestamp"]) / 1000, UTC),
        attributes={
            name: value["StringValue"]
            for name, value in message.get("MessageAttributes", {}).items()
            if "StringValue" in value
        },
    )
