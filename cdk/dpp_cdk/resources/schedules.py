"""Functions fired by the clock (RUN-20…22). EventBridge rules fire once a minute at most (D10)."""

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from dpp_cdk.functions.function import LambdaFunction
from dpp_cdk.resources.queue import WorkQueue


class EveryMinute(Construct):
    """Fires a function each minute. A firing that fails is not repeated: the next one is a minute away."""

    def __init__(self, scope: Construct, id: str, function: LambdaFunction) -> None:
        super().__init__(scope, id)
        self.rule = events.Rule(
            self,
            "Rule",
            schedule=events.Schedule.rate(Duration.minutes(1)),
            targets=[
                targets.LambdaFunction(function.live, retry_attempts=0, max_event_age=Duration.minutes(1))
            ],
        )


class ByQueue(Construct):
    """Sends a message to a queue by the clock, so that what empties it has one way in and one bound on how many run."""

    def __init__(self, scope: Construct, id: str, queue: WorkQueue, every: Duration) -> None:
        super().__init__(scope, id)
        self.rule = events.Rule(
            self,
            "Rule",
            schedule=events.Schedule.rate(every),
            targets=[targets.SqsQueue(queue.queue)],
        )


class EveryHalfMinute(EveryMinute):
    """As EveryMinute, and once more 30 s later: the same event through a queue that holds it back (D10)."""

    def __init__(self, scope: Construct, id: str, function: LambdaFunction, beat: WorkQueue) -> None:
        super().__init__(scope, id, function)
        self.rule.add_target(targets.SqsQueue(beat.queue))
        beat.emptied_by(function)
