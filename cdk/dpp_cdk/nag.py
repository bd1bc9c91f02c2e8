"""cdk-nag (AwsSolutions), run with every synthesis for AWS; a finding without an acknowledgement ends it."""

from aws_cdk import Acknowledgment, App, Validations
from cdk_nag import AwsSolutionsChecks
from constructs import IConstruct


def check(app: App) -> None:
    """Hold every resource of the app against the rules."""
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Say of one resource why a rule does not hold for it."""
    Validations.of(construct).acknowledge(
        Acknowledgment(id=f"AwsSolutions::AwsSolutions-{rule}", reason=reason)
    )


def managed_policy(name: str) -> str:
    """The finding that a role has a policy of AWS's own."""
    return f"IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/{name}]"
