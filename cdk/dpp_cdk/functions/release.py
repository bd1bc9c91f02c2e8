"""A gradual release: the new version gets a tenth of the traffic for five minutes, then all; an alarm rolls it back."""

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from constructs import Construct

from dpp_cdk.functions.function import LambdaFunction
from dpp_cdk.nag import acknowledge, managed_policy


class GradualRelease(Construct):
    """CodeDeploy shifts the function's alias, and shifts it back when the function fails or clients get 5xx.

    CloudFormation waits for it: a release that is rolled back fails the deployment, which rolls back the rest of the
    stack.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        application: codedeploy.LambdaApplication,
        function: LambdaFunction,
        server_errors: cloudwatch.IAlarm,
    ) -> None:
        super().__init__(scope, id)
        if function.alias is None:
            raise ValueError(f"{function.name} has no alias to shift")
        errors = cloudwatch.Alarm(
            self,
            "Errors",
            alarm_description=f"{function.name} fails: a release in progress is rolled back",
            metric=function.alias.metric_errors(period=Duration.minutes(1)),
            threshold=1,
            evaluation_periods=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        group = codedeploy.LambdaDeploymentGroup(
            self,
            "Group",
            application=application,
            deployment_group_name=function.name,
            alias=function.alias,
            deployment_config=codedeploy.LambdaDeploymentConfig.CANARY_10_PERCENT_5_MINUTES,
            alarms=[errors, server_errors],
            auto_rollback=codedeploy.AutoRollbackConfig(
                deployment_in_alarm=True, failed_deployment=True, stopped_deployment=True
            ),
        )
        acknowledge(
            group,
            managed_policy("AWSCodeDeployRoleForLambdaLimited"),
            "the smallest policy that AWS has for shifting an alias; CodeDeploy requires it",
        )
