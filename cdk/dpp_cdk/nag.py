"""cdk-nag (AwsSolutions), run at every synthesis for AWS; a finding without an acknowledgement fails it."""

from aws_cdk import Acknowledgment, App, Validations
from cdk_nag import AwsSolutionsChecks
from constructs import IConstruct


def check(app: App) -> None:
    """Check every resource of the app."""
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Acknowledge a finding on one resource with its reason."""
    Validations.of(construct).acknowledge(Acknowledgment(id=f"AwsSolutions::AwsSolutions-{rule}", reason=reason))


def managed_policy(name: str) -> str:
    """The finding that a role has an AWS managed policy."""
    return f"IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/{name}]"
