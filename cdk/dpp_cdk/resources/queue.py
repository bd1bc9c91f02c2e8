"""SQS queues, encrypted and reachable over TLS only, each built from its timing."""

from aws_cdk import Duration
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from dpp_cdk.functions.function import LambdaFunction
from dpp_cdk.settings.timings import QueueTiming


class WorkQueue(Construct):
    """A queue, its dead-letter queue if the timing has one, and the function that consumes it."""

    def __init__(self, scope: Construct, id: str, timing: QueueTiming) -> None:
        super().__init__(scope, id)
        self._timing = timing
        self.dead_letters: sqs.Queue | None = None
        dead_letter_queue: sqs.DeadLetterQueue | None = None
        if timing.max_receives is not None:
            self.dead_letters = sqs.Queue(
                self,
                "DeadLetters",
                encryption=sqs.QueueEncryption.SQS_MANAGED,
                enforce_ssl=True,
                retention_period=Duration.days(timing.dead_letter_days),
            )
            dead_letter_queue = sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=timing.max_receives)
        self.queue = sqs.Queue(
            self,
            "Queue",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            visibility_timeout=Duration.seconds(timing.visibility_seconds),
            delivery_delay=Duration.seconds(timing.delay_seconds),
            retention_period=Duration.seconds(timing.retention_seconds),
            dead_letter_queue=dead_letter_queue,
        )

    @property
    def required_dead_letters(self) -> sqs.Queue:
        """The dead-letter queue. Raises ValueError if the timing has none."""
        if self.dead_letters is None:
            raise ValueError(f"{self.node.path} has no dead-letter queue")
        return self.dead_letters

    def consumed_by(self, function: LambdaFunction, *, max_concurrency: int | None = None) -> None:
        """Invoke the function with the queue's messages, in batches of the timing's size.

        `max_concurrency`: the maximum of concurrent invocations for this queue (AWS: at least 2). Further messages wait
        in the queue. With a reserved concurrency alone they would be received, throttled and counted as failed
        receives.
        """
        if function.spec.timing.timeout_seconds != self._timing.timeout_seconds:
            raise ValueError(f"{function.node.path} must have the timeout of its queue: {self._timing}")
        function.live.add_event_source(
            sources.SqsEventSource(
                self.queue,
                batch_size=self._timing.batch_size,
                report_batch_item_failures=True,
                max_concurrency=max_concurrency,
            )
        )
