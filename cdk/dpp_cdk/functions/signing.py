"""The role that signs the URLs of results (RUN-10).

A URL expires with the credentials that signed it, and a function cannot see when its own expire. An assumed session has
a known expiry, so the reader signs with one.
"""

from aws_cdk import aws_iam as iam
from constructs import Construct

from dpp.platform.config import SigningSettings
from dpp_cdk.functions.function import LambdaFunction


class SigningRole(Construct):
    """A role that may only read results; only the reader's role may assume it, for an hour at a time."""

    def __init__(self, scope: Construct, id: str, *, reader: LambdaFunction, objects_arn: str) -> None:
        super().__init__(scope, id)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ArnPrincipal(reader.role_arn),
            description="Signs the URLs of results for the function that reads runs",
        )
        role.add_to_principal_policy(iam.PolicyStatement(actions=["s3:GetObject"], resources=[objects_arn]))
        reader.allow(["sts:AssumeRole"], role.role_arn)
        (variable,) = SigningSettings.variables()
        reader.function.add_environment(variable, role.role_arn)
