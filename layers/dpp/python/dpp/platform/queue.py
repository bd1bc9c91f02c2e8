"""SQS: send a message, keep one invisible while it is worked on."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from dpp.platform.aws import sqs_client, unavailable_as
from dpp.platform.errors import QueueUnavailable

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


class Queue:
    """One SQS queue; the client is made at the first call."""

    def __init__(self, url: str, client_factory: "Callable[[], SQSClient]" = sqs_client) -> None:
        self.url = url
        self._client_factory = client_factory

    def send(self, body: str) -> None:
        """Send one message. Raises QueueUnavailable when SQS did not take it, or did not say so."""
        with unavailable_as(QueueUnavailable):
            self._client.send_message(QueueUrl=self.url, MessageBody=body)

    def extend_visibility(self, receipt_handle: str, seconds: int) -> None:
        """Keep a received message invisible for `seconds` from now."""
        with unavailable_as(QueueUnavailable):
            self._client.change_message_visibility(
                QueueUrl=self.url, ReceiptHandle=receipt_handle, VisibilityTimeout=seconds
            )

    def ping(self) -> None:
        """Ask for the queue's attributes. Raises QueueUnavailable."""
        with unavailable_as(QueueUnavailable):
            self._client.get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])

    @cached_property
    def _client(self) -> "SQSClient":
        return self._client_factory()
