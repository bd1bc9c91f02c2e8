"""The role of one function, with explicit permissions instead of managed policies."""

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from dpp_cdk.nag import acknowledge

_COLON = ArnFormat.COLON_RESOURCE_NAME
_INTERFACE_ACTIONS = [
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
]
"""The actions that Lambda needs to attach a function to a VPC (Lambda guide, "Required IAM permissions")."""


class FunctionRole(Construct):
    """A role that may write to the function's log group; `function.py` adds the rest."""

    def __init__(
        self, scope: Construct, id: str, *, function_name: str, log_group: logs.ILogGroup, in_network: bool
    ) -> None:
        super().__init__(scope, id)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"Execution role of {function_name}",
        )
        # Not CreateLogGroup: the group exists, with its retention; one created by Lambda would never expire.
        self.allow(["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn)
        if in_network:
            self._join_network(function_name)

    def allow(self, actions: list[str], *resource_arns: str) -> None:
        """Permit these actions on these resources."""
        self.role.add_to_principal_policy(iam.PolicyStatement(actions=actions, resources=list(resource_arns)))

    def permit(self, *statements: iam.PolicyStatement) -> None:
        """Add statements, for permissions with conditions."""
        for statement in statements:
            self.role.add_to_principal_policy(statement)

    def _join_network(self, function_name: str) -> None:
        """Let Lambda create network interfaces with the function's role; their ARNs are not known beforehand.

        The function's own code may not: its calls have `lambda:SourceFunctionArn` and are denied (Lambda guide, "Using
        IAM condition keys for VPC settings").
        """
        self.role.add_to_principal_policy(
            iam.PolicyStatement(sid="LambdaAttachesToTheNetwork", actions=_INTERFACE_ACTIONS, resources=["*"])
        )
        function_arn = Stack.of(self).format_arn(
            service="lambda", resource="function", resource_name=function_name, arn_format=_COLON
        )
        self.role.add_to_principal_policy(
            iam.PolicyStatement(
                sid="TheCodeDoesNot",
                effect=iam.Effect.DENY,
                actions=_INTERFACE_ACTIONS,
                resources=["*"],
                # An alias or a version follows the name.
                conditions={"ArnLike": {"lambda:SourceFunctionArn": [function_arn, f"{function_arn}:*"]}},
            )
        )
        self.acknowledge(
            "IAM5[Resource::*]",
            "Lambda creates the interfaces of a function in a VPC with its role, and their ARNs are not known"
            " beforehand; the function's own code is denied the same actions",
        )

    def acknowledge(self, rule: str, reason: str) -> None:
        """Acknowledge a finding of cdk-nag on this role's policy."""
        acknowledge(self.role.node.find_child("DefaultPolicy"), rule, reason)
