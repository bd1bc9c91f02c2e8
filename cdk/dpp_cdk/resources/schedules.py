"""Schedules of functions (RUN-20…22). An EventBridge rule runs once a minute at most (D10)."""

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from dpp_cdk.functions.function import LambdaFunction
from dpp_cdk.resources.queue import WorkQueue


class EveryMinute(Construct):
    """Invokes a function each minute. A failed tick is not retried: the next one is a minute away."""

    def __init__(self, scope: Construct, id: str, function: LambdaFunction) -> None:
        super().__init__(scope, id)
        self.rule = events.Rule(
            self,
            "Rule",
            schedule=events.Schedule.rate(Duration.minutes(1)),
            targets=[targets.LambdaFunction(function.live, retry_attempts=0, max_event_age=Duration.minutes(1))],
        )


class ByQueue(Construct):
    """Sends a message to a queue on a schedule, so that its consumer has one event source and one concurrency limit."""

    def __init__(self, scope: Construct, id: str, queue: WorkQueue, every: Duration) -> None:
        super().__init__(scope, id)
        self.rule = events.Rule(
            self, "Rule", schedule=events.Schedule.rate(every), targets=[targets.SqsQueue(queue.queue)]
        )


class EveryHalfMinute(EveryMinute):
    """As EveryMinute, and again 30 s later: the same event through a queue with a delay (D10)."""

    def __init__(self, scope: Construct, id: str, function: LambdaFunction, delayed: WorkQueue) -> None:
        super().__init__(scope, id, function)
        self.rule.add_target(targets.SqsQueue(delayed.queue))
        delayed.consumed_by(function)
