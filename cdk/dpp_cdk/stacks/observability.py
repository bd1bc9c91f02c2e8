"""Monitoring for operators: alarms, which notify one topic, and one dashboard."""

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from dpp_cdk.monitoring.alarm_spec import AlarmSpec, ResourceNames
from dpp_cdk.monitoring.alarms import RUNBOOK, alarms
from dpp_cdk.monitoring.dashboard import OperatorDashboard
from dpp_cdk.settings.config import Deployment
from dpp_cdk.stacks.data import DataStack


class ObservabilityStack(Stack):
    """Refers to the other stacks by name only, so it can be redeployed without touching them."""

    def __init__(self, scope: Construct, id: str, deployment: Deployment, data: DataStack) -> None:
        super().__init__(scope, id, description="DPP: what an operator watches")
        self._topic = sns.Topic(self, "Alarms", topic_name=f"dpp-{deployment.stage}-alarms", enforce_ssl=True)
        if deployment.alarm_email:
            self._topic.add_subscription(subscriptions.EmailSubscription(deployment.alarm_email))
        names = ResourceNames(
            stage=deployment.stage,
            api=f"dpp-{deployment.stage}",
            runs_queue=data.runs.queue.queue_name,
            dead_letters=data.runs.required_dead_letters.queue_name,
            auth_errors_queue=data.auth_errors.queue.queue_name,
            auth_errors_dead_letters=data.auth_errors.required_dead_letters.queue_name,
            database=data.database.identifier if data.database else None,
            cache_nodes=data.cache.nodes if data.cache else (),
            parts=deployment.parts,
        )
        created = [self._alarm(spec, deployment.stage) for spec in alarms(names, deployment.size)]
        OperatorDashboard(self, "Operator", names, created)
        CfnOutput(self, "AlarmTopicArn", value=self._topic.topic_arn)

    def _alarm(self, spec: AlarmSpec, stage: str) -> cloudwatch.Alarm:
        alarm = cloudwatch.Alarm(
            self,
            spec.id,
            alarm_name=f"dpp-{stage}-{spec.id}",
            alarm_description=f"{spec.says}. What to do: {RUNBOOK}#{spec.anchor}",
            metric=spec.watched.metric(),
            threshold=spec.threshold,
            evaluation_periods=spec.periods,
            comparison_operator=cloudwatch.ComparisonOperator[spec.comparison],
            treat_missing_data=cloudwatch.TreatMissingData[spec.missing],
        )
        notify = actions.SnsAction(self._topic)
        alarm.add_alarm_action(notify)
        alarm.add_ok_action(notify)
        return alarm
